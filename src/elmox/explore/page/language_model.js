// The biLM as a language model, as `Elmo.score` and `Elmo.predict` compute it in Python.

const SPECIAL_WORDS = ["<S>", "</S>", "<UNK>"]; // the first words of every softmax
const [BEGIN, END, UNKNOWN] = [0, 1, 2];
const ROWS_AT_ONCE = 16; // log-probabilities of a large vocabulary take much memory

// For each sentence its tokens, which of them are unknown, and natural log-probabilities: `forward`
// (n + 1: each token given those to its left, then the end) and `backward` (n + 1: each token given
// those to its right, then the beginning; null for models that only read forward).
export async function scoreSentences(elmo, sentences) {
  const results = [];
  for (const tokens of sentences) results.push(await scoreSentence(elmo, tokens));
  return results;
}

async function scoreSentence(elmo, tokens) {
  await elmo.loadSoftmax();
  const known = vocabulary(elmo);
  const ids = tokens.map((token) => {
    const id = known.get(token) ?? UNKNOWN;
    return id <= UNKNOWN ? UNKNOWN : id; // boundary marks inside a sentence are unknown words
  });
  const { data, dims } = await elmo.read([readAs(tokens)]);
  const top = topLayer(data, dims);
  const dim = elmo.config.projection_dim;
  const n = tokens.length;
  const forward = await logProbs(
    elmo,
    [...ids, END].map((id, step) => ({ hidden: top(0, step).subarray(0, dim), id })),
  );
  const backward =
    elmo.config.num_directions === 1
      ? null
      : await logProbs(elmo, [
          ...ids.map((id, i) => ({ hidden: top(0, i + 2).subarray(dim), id })),
          { hidden: top(0, 1).subarray(dim), id: BEGIN },
        ]);
  return { tokens, forward, backward, unknown: ids.slice(0, n).map((id) => id === UNKNOWN) };
}

async function logProbs(elmo, targets) {
  const values = [];
  for (let start = 0; start < targets.length; start += ROWS_AT_ONCE) {
    const part = targets.slice(start, start + ROWS_AT_ONCE);
    const rows = await elmo.logProbs(part.map(({ hidden }) => hidden));
    part.forEach(({ id }, i) => values.push(rows[i][id]));
  }
  return values;
}

// The likeliest words in place of the token at `position`, by the words to its left, by those to its
// right, and by both: {left, right, both}, each [{word, probability}, ...]. Models that only read
// forward have `left` alone.
export async function fillGap(elmo, tokens, position, k) {
  await elmo.loadSoftmax();
  const left = readAs(tokens.slice(0, position));
  const right = readAs(tokens.slice(position + 1));
  const { data, dims } = await elmo.read([left, right]);
  const top = topLayer(data, dims);
  const dim = elmo.config.projection_dim;
  const before = top(0, left.length).subarray(0, dim);
  if (elmo.config.num_directions === 1) {
    const [fromLeft] = await elmo.logProbs([before]);
    return { left: likeliest(elmo, fromLeft, k), right: null, both: null };
  }
  const [fromLeft, fromRight] = await elmo.logProbs([before, top(1, 1).subarray(dim)]);
  // p(w | left, right) = p(w | left) p(w | right) / p(w), if the sides are independent given w. p(w)
  // follows Zipf's law: the vocabulary is in falling order of frequency.
  const both = fromLeft.map((value, rank) => value + fromRight[rank] + Math.log(rank + 2.7));
  return {
    left: likeliest(elmo, fromLeft, k),
    right: likeliest(elmo, fromRight, k),
    both: likeliest(elmo, both, k),
  };
}

// The k words with the largest values. The probabilities of all words but the special ones sum to 1.
function likeliest(elmo, values, k) {
  const first = SPECIAL_WORDS.length;
  let largest = -Infinity;
  for (let i = first; i < values.length; i++) largest = Math.max(largest, values[i]);
  let total = 0;
  for (let i = first; i < values.length; i++) total += Math.exp(values[i] - largest);
  const best = [];
  for (let i = first; i < values.length; i++) {
    if (best.length === k && values[i] <= values[best[k - 1]]) continue;
    const place = best.findIndex((other) => values[other] < values[i]);
    best.splice(place < 0 ? best.length : place, 0, i);
    best.length = Math.min(best.length, k);
  }
  return best.map((i) => ({
    word: elmo.predicted[i],
    probability: Math.exp(values[i] - largest) / total,
  }));
}

function topLayer(data, [numLayers, numRows, numSteps, dim]) {
  return (row, step) => {
    const start = (((numLayers - 1) * numRows + row) * numSteps + step) * dim;
    return data.subarray(start, start + dim);
  };
}

function readAs(tokens) {
  return tokens.map((token) => (SPECIAL_WORDS.includes(token) ? SPECIAL_WORDS[UNKNOWN] : token));
}

const vocabularies = new WeakMap();

function vocabulary(elmo) {
  if (!vocabularies.has(elmo)) {
    vocabularies.set(elmo, new Map(elmo.predicted.map((word, i) => [word, i]).reverse()));
  }
  return vocabularies.get(elmo);
}
