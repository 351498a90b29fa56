// ELMo vectors under Node: check a folder that `elmox export` wrote, then compare a word's two senses.
//
//     npm install
//     node encode.mjs FOLDER [--tokens FILE.json]
//
// With --tokens, the vectors of {"sentences": [[token, ...], ...]} go to stdout as JSON instead.

import { readFile } from "node:fs/promises";
import * as ort from "onnxruntime-web";
import { Elmo } from "../../src/elmox/explore/page/elmo.js";

const [folder, option, file] = process.argv.slice(2);
if (folder === undefined) {
  console.error("usage: node encode.mjs FOLDER [--tokens FILE.json]");
  process.exit(2);
}
ort.env.wasm.numThreads = 1;
const elmo = await Elmo.load(ort, (name) => readFile(`${folder}/${name}`));

if (option === "--tokens") {
  const { sentences } = JSON.parse(await readFile(file, "utf8"));
  const layers = await elmo.layers(sentences);
  const plain = layers.map((sentence) => sentence.map((layer) => layer.map((v) => Array.from(v))));
  process.stdout.write(JSON.stringify(plain));
} else {
  const golden = JSON.parse(await readFile(`${folder}/golden.json`, "utf8"));
  if (golden.text !== null && elmo.token !== null) {
    const tokens = elmo.tokenize(golden.text);
    if (tokens.join("\n") !== golden.tokens.join("\n")) throw new Error(`tokens differ: ${tokens}`);
  }
  const [layers] = await elmo.layers([golden.tokens]);
  let largest = 0;
  golden.layers.forEach((layer, l) =>
    layer.forEach((vector, t) =>
      vector.forEach((value, d) => {
        const scale = Math.max(1, Math.abs(value));
        largest = Math.max(largest, Math.abs(layers[l][t][d] - value) / scale);
      }),
    ),
  );
  console.log(`golden sentence: ${golden.tokens.length} tokens, largest difference ${largest.toExponential(1)}`);
  if (!(largest < 1e-4)) process.exit(1);

  const gift = ["I", "will", "buy", "you", "a", "present", "."];
  const now = ["Live", "in", "the", "present", "."];
  const [a, b] = await elmo.layers([gift, now]);
  a.forEach((layer, l) => console.log(`"present" in layer ${l}: cosine ${cosine(layer[5], b[l][3]).toFixed(3)}`));
}

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
