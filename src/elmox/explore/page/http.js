// The back end of `elmox serve`: the same methods as `onnx_worker.js`, over HTTP.

import { decodeFloat16 } from "./float16.js";
import { fetchFile } from "./files.js";

const KEY = "elmox-api-key"; // in the tab's own storage, for servers that need one

export class ApiKeyMissing extends Error {}

export function setApiKey(key) {
  sessionStorage.setItem(KEY, key);
}

export async function openHttp(page) {
  const info = await request(page, "GET", "v1/info");
  const [name, model] = Object.entries(info.models)[0];
  const post = (path, body) => request(page, "POST", path, { model: name, ...body });

  async function layers(sentences) {
    const { data } = await post("v1/tokens", {
      input: sentences,
      layers: "all",
      encoding_format: "base64",
    });
    return data.map(({ tokens, shape, embedding }) => ({ tokens, layers: unpacked(embedding, shape) }));
  }

  async function wordVectors(words) {
    const { data } = await post("v1/tokens", {
      input: words.map((word) => [word]),
      layers: 0,
      encoding_format: "base64",
    });
    return data.map(({ embedding }) => floats(embedding));
  }

  async function scores(sentences) {
    const { data } = await post("v1/score", { input: sentences });
    return data.map(({ tokens, forward, backward, unknown }) => ({ tokens, forward, backward, unknown }));
  }

  async function fill(tokens, position, k) {
    const predict = async (direction) =>
      (await post("v1/predict", { input: tokens, position, k, direction })).data;
    if (model.num_directions === 1) return { left: await predict("left"), right: null, both: null };
    const [left, right, both] = await Promise.all(["left", "right", "both"].map(predict));
    return { left, right, both };
  }

  async function tag(name, input) {
    const { data } = await request(page, "POST", `v1/tag/${encodeURIComponent(name)}`, { input: [input] });
    return data[0].predictions;
  }

  async function frequentWords() {
    const read = (file) => fetchFile(file, page.digest, () => {}, keyHeaders());
    const [text, numbers] = await Promise.all(["frequent_words.json", "frequent_words.f16"].map(read));
    const { words, dim } = JSON.parse(new TextDecoder().decode(text));
    return { words, dim, vectors: decodeFloat16(numbers) };
  }

  return {
    methods: { layers, wordVectors, scores, fill, frequentWords, tag },
    info: {
      description: model.description,
      numLayers: model.num_layers,
      dim: model.dim,
      numDirections: model.num_directions,
      hasSoftmax: model.has_softmax,
      hasTokenizer: true,
      taggers: Object.entries(info.taggers).map(([name, { task }]) => ({ name, task })),
    },
  };
}

async function request(page, method, path, body) {
  let response;
  try {
    response = await fetch(new URL(page.api + path, location.href), {
      method,
      headers: { "content-type": "application/json", ...keyHeaders() },
      body: body && JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer: is it still running?");
  }
  const content = await response.json().catch(() => null);
  if (response.status === 401) throw new ApiKeyMissing("This server needs an API key.");
  if (!response.ok) {
    throw new Error(content?.error?.message ?? `The server answered ${response.status} ${response.statusText}.`);
  }
  return content;
}

function keyHeaders() {
  const key = sessionStorage.getItem(KEY);
  return key === null ? {} : { authorization: `Bearer ${key}` };
}

function floats(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

// (layers, tokens, dim) as nested arrays of Float32Array.
function unpacked(base64, [numLayers, numTokens, dim]) {
  const data = floats(base64);
  return Array.from({ length: numLayers }, (_, layer) =>
    Array.from({ length: numTokens }, (_, token) => {
      const start = (layer * numTokens + token) * dim;
      return data.subarray(start, start + dim);
    }),
  );
}
