// A Web Worker that runs an exported model, so that the page never waits for a computation.
//
// Messages in: {id, method, arguments}. Messages out: {id, result} or {id, error}, and
// {progress: {loaded, total}} while files arrive. The methods are those of `model.js`.

import * as ort from "./vendor/onnxruntime/ort.wasm.bundle.min.js";
import { Elmo } from "./elmo.js";
import { fetchFile } from "./files.js";
import { fillGap, scoreSentences } from "./language_model.js";
import { decodeFloat16 } from "./float16.js";

const RUNTIME = "vendor/onnxruntime/ort-wasm-simd-threaded.wasm.gz";
const METHODS = { open, layers, wordVectors, scores, fill, frequentWords };
let elmo = null;
let page = null;

async function open(settings) {
  page = settings;
  if (typeof WebAssembly === "undefined") {
    throw new Error("This browser has no WebAssembly, which the model needs: use a current browser.");
  }
  const graphs = ["words.onnx", "context.onnx"].map(path);
  const expected = [RUNTIME, ...graphs].reduce((sum, file) => sum + (page.files[file] ?? 0), 0);
  const report = counter(expected);
  // All at once: together they arrive sooner than one after the other.
  const [wasm] = await Promise.all([read(RUNTIME, report), ...graphs.map((file) => read(file, report))]);
  ort.env.logLevel = "error";
  ort.env.wasm.numThreads = 1; // more need headers that few web hosts send
  ort.env.wasm.wasmBinary = await inflated(wasm);
  elmo = await Elmo.load(ort, (name) => read(path(name)));
  arrived.clear();
  const { config } = elmo;
  return {
    description: config.description,
    numLayers: config.num_layers,
    dim: config.dim,
    numDirections: config.num_directions,
    hasSoftmax: config.softmax,
    hasTokenizer: elmo.token !== null,
    taggers: [], // task models are not exported
  };
}

async function layers(sentences) {
  const tokens = sentences.map(tokensOf);
  const vectors = await elmo.layers(tokens);
  return tokens.map((words, i) => ({ tokens: words, layers: vectors[i] }));
}

// Vectors of single words without context.
async function wordVectors(words) {
  const dim = elmo.config.projection_dim;
  const { data } = await elmo.wordVectors([...new Set(words)]);
  const index = new Map([...new Set(words)].map((word, i) => [word, i]));
  return words.map((word) => data.slice(index.get(word) * dim, (index.get(word) + 1) * dim));
}

async function scores(sentences) {
  await loadSoftmax();
  return scoreSentences(elmo, sentences.map(tokensOf));
}

async function fill(tokens, position, k) {
  await loadSoftmax();
  return fillGap(elmo, tokens, position, k);
}

// The most frequent words of the model's vocabulary, with their vectors without context.
async function frequentWords() {
  const names = ["frequent_words.json", "frequent_words.f16"].map(path);
  const report = counter(names.reduce((sum, name) => sum + (page.files[name] ?? 0), 0));
  const [text, numbers] = await Promise.all(names.map((name) => read(name, report)));
  const { words, dim } = JSON.parse(new TextDecoder().decode(text));
  return { words, dim, vectors: decodeFloat16(numbers) };
}

async function loadSoftmax() {
  if (elmo.softmax !== undefined) return;
  const names = ["softmax.onnx", "vocab.txt"].map(path);
  const report = counter(names.reduce((sum, name) => sum + (page.files[name] ?? 0), 0));
  await Promise.all(names.map((name) => read(name, report)));
  await elmo.loadSoftmax();
  arrived.clear();
}

function tokensOf(sentence) {
  if (Array.isArray(sentence)) return sentence;
  if (elmo.token === null) return sentence.split(/\s+/u).filter((word) => word !== "");
  return elmo.tokenize(sentence);
}

const path = (name) => `${page.model}${name}`;
const arrived = new Map(); // file -> promise of its bytes, until a session has been made of them

function read(file, report) {
  if (!arrived.has(file)) {
    const bytes = fetchFile(file, page.digest, report);
    arrived.set(file, bytes);
    bytes.catch(() => arrived.delete(file)); // so that a second attempt can succeed
  }
  return arrived.get(file);
}

// A function that adds up bytes and tells the page, a few times per second.
function counter(total) {
  let loaded = 0;
  let last = 0;
  return (numBytes) => {
    loaded += numBytes;
    const now = performance.now();
    if (now - last > 100 || loaded >= total) {
      last = now;
      postMessage({ progress: { loaded, total: Math.max(total, loaded) } });
    }
  };
}

// A web host may have decompressed the file already.
async function inflated(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Requests are served one after the other: onnxruntime runs one at a time.
let queue = Promise.resolve();

addEventListener("message", ({ data: { id, method, arguments: values } }) => {
  queue = queue.then(async () => {
    try {
      postMessage({ id, result: await METHODS[method](...values) });
    } catch (error) {
      postMessage({ id, error: String(error?.message ?? error) });
    }
  });
});
