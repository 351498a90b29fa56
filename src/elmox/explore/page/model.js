// The model behind the page: the same methods whether it runs in this browser or on a server.
//
//     const model = await openModel(onProgress);
//     model.info          {description, numLayers, dim, numDirections, hasSoftmax, hasTokenizer, isLocal}
//     model.layers([sentence, ...])           -> [{tokens, layers: [layer][token] Float32Array}, ...]
//     model.wordVectors([word, ...])          -> [Float32Array, ...], without context
//     model.scores([sentence, ...])           -> [{tokens, forward, backward, unknown}, ...]
//     model.fill(tokens, position, k)         -> {left, right, both}, each [{word, probability}, ...]
//     model.frequentWords()                   -> {words, dim, vectors}, loaded once
//
// A sentence is a string, which the model's tokenizer splits, or a list of tokens. `onProgress` gets
// {loaded, total} in bytes while files arrive, at the start and later (the softmax, frequent words).

import { openHttp } from "./http.js";
import { once } from "./once.js";

export const MAX_CHARACTERS = 2000; // of one sentence
export const MAX_TOKENS = 200;

export async function openModel(onProgress) {
  const response = await fetch("page.json").catch(() => null);
  if (response?.status === 503) throw new Error("The server is still loading its models: try again in a moment.");
  if (!response?.ok) throw new Error("page.json could not be read: is the server still running?");
  const page = await response.json();
  const { methods, info } = page.backend === "http" ? await openHttp(page) : await openWorker(page, onProgress);
  return {
    ...methods,
    layers: guarded(methods.layers),
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
