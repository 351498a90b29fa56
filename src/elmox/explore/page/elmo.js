// ELMo from a folder that `elmox export` wrote, in any JavaScript runtime with onnxruntime.
//
//     const elmo = await Elmo.load(ort, (name) => readFile(`elmo-onnx/${name}`));
//     const [layers] = await elmo.layers([elmo.tokenize("I will buy you a present.")]);
//     layers[2][6]; // layer 2 of token 6, a Float32Array
//
// `ort` is onnxruntime-web or onnxruntime-node. `read` returns the bytes of a file: from the disk, or
// in a browser by `fetch`.

import { once } from "./once.js";
import { tokenPattern, tokenize } from "./tokenize.js";

const text = (bytes) => new TextDecoder().decode(bytes);
const json = async (read, name) => JSON.parse(text(await read(name)));
const utf8 = new TextEncoder();

export class Elmo {
  static async load(ort, read) {
    const config = await json(read, "config.json");
    if (config.format !== "elmox-onnx" || config.version !== 1) {
      throw new Error(`config.json: expected elmox-onnx 1, got ${config.format} ${config.version}`);
    }
    const elmo = new Elmo();
    Object.assign(elmo, { ort, config, cache: new Map() });
    elmo.token = tokenPattern(await json(read, "tokenizer.json"));
    elmo.characters = config.spelling?.inventory === "unicode" ? ids(await json(read, "characters.json")) : null;
    elmo.vocabulary = config.unknown_word === null ? null : ids(await json(read, "words.json"));
    const session = async (name) => ort.InferenceSession.create(new Uint8Array(await read(name)));
    if (config.single) {
      elmo.context = await session("elmo.onnx");
    } else {
      elmo.words = await session("words.onnx");
      elmo.context = await session("context.onnx");
    }
    // The softmax is large, and many programs only need vectors: it is loaded when it is first used.
    elmo.loadSoftmax = once(async () => {
      if (!config.softmax) throw new Error("the model was exported without its softmax");
      elmo.softmax = await session("softmax.onnx");
      elmo.predicted = text(await read("vocab.txt")).split("\n").slice(0, -1);
    });
    return elmo;
  }

  // The tokens of one raw sentence, the same as in Python.
  tokenize(sentence) {
    if (this.token === null) throw new Error(`tokenizer ${this.config.tokenizer} runs only in Python: give tokens`);
    return tokenize(this.token, sentence);
  }

  // [[token, ...], ...] -> for each sentence, for each layer, for each token a Float32Array.
  async layers(sentences) {
    if (sentences.length === 0) return [];
    const { data, dims, lengths } = await this.read(sentences);
    const [numLayers, numRows, numSteps, dim] = dims;
    const vector = (layer, row, step) => {
      const start = ((layer * numRows + row) * numSteps + step) * dim;
      return data.slice(start, start + dim);
    };
    const range = (length) => Array.from({ length }, (_, i) => i);
    // Step 0 and the last step of a sentence are its boundaries.
    return lengths.map((length, row) =>
      range(numLayers).map((layer) => range(length - 2).map((token) => vector(layer, row, token + 1))),
    );
  }

  // The graphs' own output: {data, dims: [layers, sentences, steps, dim], lengths}, boundaries included.
  async read(sentences) {
    const { begin, end, state, num_layers, num_directions, projection_dim, cell_dim } = this.config;
    const position = new Map();
    const rows = sentences.map((tokens) =>
      [begin, ...tokens, end].map((word) => {
        if (!position.has(word)) position.set(word, position.size);
        return position.get(word);
      }),
    );
    const lengths = rows.map((row) => row.length);
    const numSteps = Math.max(...lengths);
    const index = new Int32Array(rows.length * numSteps);
    rows.forEach((row, i) => index.set(row, i * numSteps));
    const words = [...position.keys()];
    const feeds = {
      index: this.int32(index, [rows.length, numSteps]),
      lengths: this.int32(Int32Array.from(lengths), [rows.length]),
      ...(this.config.single ? this.wordFeeds(words) : { vectors: await this.wordVectors(words) }),
    };
    if (state) {
      const zeros = (width) => {
        const shape = [num_layers - 1, num_directions, rows.length, width];
        return new this.ort.Tensor("float32", new Float32Array(shape.reduce((a, b) => a * b)), shape);
      };
      Object.assign(feeds, { hidden: zeros(projection_dim), cell: zeros(cell_dim) });
    }
    const { layers } = await this.context.run(feeds);
    return { data: layers.data, dims: layers.dims, lengths };
  }

  // Halves of top-layer vectors (forward: first half, predicts the next token; backward: second half,
  // predicts the token before) -> for each its log-probabilities of the words in `elmo.predicted`.
  async logProbs(halves) {
    await this.loadSoftmax();
    const dim = this.config.projection_dim;
    const rows = new Float32Array(halves.length * dim);
    halves.forEach((half, i) => rows.set(half, i * dim));
    const hidden = new this.ort.Tensor("float32", rows, [halves.length, dim]);
    const { data, dims } = (await this.softmax.run({ hidden })).log_probs;
    return halves.map((_, i) => data.subarray(i * dims[1], (i + 1) * dims[1]));
  }

  // Vectors of distinct words as one tensor; each word is encoded once.
  async wordVectors(words) {
    const missing = words.filter((word) => !this.cache.has(word));
    const dim = this.config.projection_dim;
    if (missing.length > 0) {
      const { vectors } = await this.words.run(this.wordFeeds(missing));
      missing.forEach((word, i) => this.cache.set(word, vectors.data.slice(i * dim, (i + 1) * dim)));
    }
    const table = new Float32Array(words.length * dim);
    words.forEach((word, i) => table.set(this.cache.get(word), i * dim));
    return new this.ort.Tensor("float32", table, [words.length, dim]);
  }

  wordFeeds(words) {
    const limit = this.config.max_code_points;
    if (limit !== null) words = words.map((word) => Array.from(word).slice(0, limit).join(""));
    const feeds = {};
    if (this.config.spelling !== null) feeds.characters = this.spell(words);
    if (this.vocabulary !== null) {
      const unknown = this.vocabulary.get(this.config.unknown_word);
      const found = words.map((word) => this.vocabulary.get(word) ?? unknown);
      if (found.includes(undefined)) throw new Error("a word is not in the model's vocabulary");
      feeds.words = this.int32(Int32Array.from(found), [words.length]);
    }
    return feeds;
  }

  // Rows of begin-of-word, characters, end-of-word, padding.
  spell(words) {
    const spelling = this.config.spelling;
    const room = spelling.max_characters - 2;
    const spelled = words.map((word) => {
      if (Object.hasOwn(spelling.specials, word)) return [spelling.specials[word]];
      if (spelling.inventory === "bytes") {
        const encodable = word.replace(/\p{Surrogate}/gu, ""); // half of a pair has no UTF-8
        return Array.from(utf8.encode(encodable).subarray(0, room), (byte) => byte + spelling.first_byte);
      }
      const characters = Array.from(word).slice(0, room);
      return characters.map((character) => this.characters.get(character) ?? spelling.unknown);
    });
    const longest = Math.max(...spelled.map((row) => row.length)) + 2;
    const numSlots = Math.min(spelling.max_characters, longest + spelling.widest_filter);
    const ids = new Int32Array(words.length * numSlots).fill(spelling.padding);
    spelled.forEach((row, i) => ids.set([spelling.begin_word, ...row, spelling.end_word], i * numSlots));
    return this.int32(ids, [words.length, numSlots]);
  }

  int32(values, shape) {
    return new this.ort.Tensor("int32", values, shape);
  }
}

// Item -> its id, the first one where an item occurs twice.
function ids(items) {
  const map = new Map();
  items.forEach((item, i) => map.has(item) || map.set(item, i));
  return map;
}
