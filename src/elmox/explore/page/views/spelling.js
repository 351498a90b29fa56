// The neighbors of a spelling, by the character CNN alone, as it is typed.

import { html } from "../vendor/preact/standalone.js";
import { Bars } from "../bars.js";
import { Examples, Outcome } from "../components.js";
import { Figure } from "../figure.js";
import { useResult } from "../hooks.js";
import { useParameter } from "../state.js";
import { cosine, fixed } from "../vectors.js";

const WORDS = ["definately", "Kazakhstani", "swimming", "1987", "microbiologist", "London-based", "unfriendliestest"];
const NUM_NEIGHBORS = 15;
const MAX_LETTERS = 60;

export function Spelling({ model }) {
  const [word, setWord] = useParameter("w", WORDS[0]);
  const result = useResult(async () => {
    const typed = word.trim();
    if (typed === "") throw new Error("Type a word.");
    if (/\s/.test(typed)) throw new Error("Type a single word, without spaces.");
    if (Array.from(typed).length > MAX_LETTERS) throw new Error(`Type a word of up to ${MAX_LETTERS} letters.`);
    const [frequent, [vector]] = await Promise.all([model.frequentWords(), model.wordVectors([typed])]);
    return { word: typed, numWords: frequent.words.length, neighbors: nearest(typed, vector, frequent), known: frequent.words.includes(typed) };
  }, [word]);
  return html`<div>
    <div class="field">
      <label for="word">Word</label>
      <input id="word" type="text" autocomplete="off" autocapitalize="off" spellcheck="false" value=${word}
        onInput=${(event) => setWord(event.target.value)} />
    </div>
    <${Examples} examples=${WORDS.map((example) => ({ label: example, apply: () => setWord(example) }))} />
    <${Outcome} result=${result}>${(value) => html`<${Neighbors} ...${value} />`}<//>
  </div>`;
}

function Neighbors({ word, neighbors, numWords, known }) {
  const rows = [["Word", "Cosine similarity"], ...neighbors.map((neighbor) => [neighbor.word, neighbor.similarity])];
  const items = neighbors.map((neighbor) => ({ label: neighbor.word, value: neighbor.similarity, text: fixed(neighbor.similarity, 2), tone: "layer" }));
  return html`<${Figure} title=${`Closest to “${word}”, by its letters alone`} name=${`spelling-${word}`} rows=${rows}
    draw=${(width) => html`<${Bars} width=${Math.min(width, 720)} items=${items} most=${1} labelWidth=${190}
      label=${`Neighbors: ${items.map((item) => `${item.label} ${item.text}`).join(", ")}`} />`}>
    Layer 0 reads a word letter by letter, without its sentence. From the letters it has learned what
    kind of word that is, so misspelled and new words have neighbors too.
    “${word}” is ${known ? "" : "not "}among the ${numWords.toLocaleString("en")} frequent words that are compared.
  <//>`;
}

function nearest(word, vector, { words, dim, vectors }) {
  // The two halves of a vector of layer 0 are the same; frequent words are stored as one half.
  const query = vector.subarray(0, dim);
  return words
    .map((candidate, i) => ({ word: candidate, similarity: cosine(query, vectors.subarray(i * dim, (i + 1) * dim)) }))
    .filter((neighbor) => neighbor.word !== word)
    .sort((x, y) => y.similarity - x.similarity)
    .slice(0, NUM_NEIGHBORS);
}
