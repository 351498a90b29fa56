// The model behind the page: the same methods whether it runs in this browser or on a server.
//
//     const model = await openModel(onProgress);
//     model.info          {description, numLayers, dim, numDirections, hasSoftmax, hasTokenizer, isLocal,
//                          taggers: [{name, task}]}
//     model.layers([sentence, ...])           -> [{tokens, layers: [layer][token] Float32Array}, ...]
//     model.wordVectors([word, ...])          -> [Float32Array, ...], without context
//     model.scores([sentence, ...])           -> [{tokens, forward, backward, unknown}, ...]
//     model.fill(tokens, position, k)         -> {left, right, both}, each [{word, probability}, ...]
//     model.frequentWords()                   -> {words, dim, vectors}, loaded once
//     model.tag(name, input)                  -> [prediction of a sentence, ...] of a task model, for a
//                                                text or an object; only behind `elmox serve`
//
// A sentence is a string, which the model's tokenizer splits, or a list of tokens. `onProgress` gets
// {loaded, total} in bytes while files arrive, at the start and later (the softmax, frequent words).
// Vectors are shared by all that asked for the same sentence: do not change them.

import { openHttp } from "./http.js";
import { once } from "./once.js";

export const MAX_CHARACTERS = 2000; // of one sentence
export const MAX_TOKENS = 200;
const REMEMBERED_BYTES = 2 ** 26; // of the vectors of sentences

export async function openModel(onProgress) {
  const response = await fetch("page.json").catch(() => null);
  if (response?.status === 503) throw new Error("The server is still loading its models: try again in a moment.");
  if (!response?.ok) throw new Error("page.json could not be read: is the server still running?");
  const page = await response.json();
  const { methods, info } = page.backend === "http" ? await openHttp(page) : await openWorker(page, onProgress);
  return {
    ...methods,
    layers: remembered(guarded(methods.layers)),
    scores: guarded(methods.scores),
    frequentWords: once(methods.frequentWords),
    info: { ...info, isLocal: page.backend !== "http", hasFrequentWords: page.frequentWords },
  };
}

async function openWorker(page, onProgress) {
  const worker = new Worker("onnx_worker.js", { type: "module" });
  const waiting = new Map();
  let nextId = 0;
  worker.onmessage = ({ data }) => {
    if (data.progress) {
      onProgress(data.progress);
      return;
    }
    const { resolve, reject } = waiting.get(data.id);
    waiting.delete(data.id);
    if ("error" in data) reject(new Error(data.error));
    else resolve(data.result);
  };
  worker.onerror = (event) => {
    event.preventDefault();
    const error = new Error(`The model's worker has failed: ${event.message ?? "its files could not be loaded"}.`);
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  };
  const call = (method, ...values) =>
    new Promise((resolve, reject) => {
      const id = nextId++;
      waiting.set(id, { resolve, reject });
      worker.postMessage({ id, method, arguments: values });
    });
  const names = ["layers", "wordVectors", "scores", "fill", "frequentWords"];
  const methods = Object.fromEntries(names.map((name) => [name, (...values) => call(name, ...values)]));
  return { methods, info: await call("open", page) };
}

// Refuse what would only keep the reader waiting, with a message that can be shown as it is.
function guarded(method) {
  return async (sentences) => {
    for (const sentence of sentences) checkSentence(sentence);
    return method(sentences);
  };
}

function checkSentence(sentence) {
  const size = sentence.length.toLocaleString("en");
  if (Array.isArray(sentence)) {
    if (sentence.length > MAX_TOKENS) {
      throw new Error(`This sentence has ${size} words. The page reads up to ${MAX_TOKENS}.`);
    }
  } else if (sentence.trim() === "") {
    throw new Error("Type a sentence.");
  } else if (sentence.length > MAX_CHARACTERS) {
    throw new Error(
      `This text has ${size} characters. The page reads one sentence of up to ` +
        `${MAX_CHARACTERS.toLocaleString("en")} characters; elmox embed reads files of any size.`,
    );
  }
}

// Read only what has not been read lately: most changes of a view leave most of its sentences alone.
function remembered(method) {
  const results = new Map(); // sentence -> result, the one that was used last at the end
  const keyOf = (sentence) => JSON.stringify(sentence);
  const size = ({ layers }) => layers.reduce((sum, layer) => sum + layer.reduce((bytes, vector) => bytes + vector.byteLength, 0), 0);
  let total = 0;
  return async (sentences) => {
    const found = new Map(sentences.map((sentence) => [keyOf(sentence), results.get(keyOf(sentence))]));
    const missing = [...found].filter(([, result]) => result === undefined).map(([key]) => key);
    const read = missing.length > 0 ? await method(missing.map((key) => JSON.parse(key))) : [];
    missing.forEach((key, i) => found.set(key, read[i]));
    for (const [key, result] of found) {
      if (results.delete(key)) total -= size(result);
      results.set(key, result);
      total += size(result);
    }
    for (const [key, result] of results) {
      if (total <= REMEMBERED_BYTES) break;
      results.delete(key);
      total -= size(result);
    }
    return sentences.map((sentence) => found.get(keyOf(sentence)));
  };
}
