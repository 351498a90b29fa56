// Every word of one sentence with every word of another, as a heat map per layer.

import { html } from "../vendor/preact/standalone.js";
import { Outcome } from "../components.js";
import { Figure } from "../figure.js";
import { HeatMap, Scale } from "../heatmap.js";
import { LayerChoice, layerName, vectorsOf } from "../mix.js";
import { SentencePair, usePairLayers, useSentencePair } from "../sentence_pair.js";
import { useParameter } from "../state.js";
import { visible } from "../tokenize.js";
import { cosine, fixed } from "../vectors.js";

export function Pairs({ model, mix }) {
  const pair = useSentencePair();
  const [choice, setChoice] = useParameter("layer", String(model.info.numLayers - 1));
  const result = usePairLayers(model, pair);
  return html`<div>
    <${SentencePair} pair=${pair} />
    <${LayerChoice} numLayers=${model.info.numLayers} value=${choice} onChange=${setChoice} />
    <${Outcome} result=${result}>${({ a, b }) => html`<${PairsMap} a=${a} b=${b} choice=${choice} mix=${mix} />`}<//>
  </div>`;
}

function PairsMap({ a, b, choice, mix }) {
  const [vectorsA, vectorsB] = [vectorsOf(a, choice, mix), vectorsOf(b, choice, mix)];
  const values = vectorsA.map((x) => vectorsB.map((y) => cosine(x, y)));
  const [wordsA, wordsB] = [a.tokens.map(visible), b.tokens.map(visible)];
  const rows = [["A \\ B", ...wordsB], ...wordsA.map((word, r) => [word, ...values[r]])];
  return html`<${Figure} title=${`${layerName(choice)}: similarity of all pairs`} name=${`pairs-${choice}`} rows=${rows}
    draw=${(width) => html`<${HeatMap} width=${width} rows=${wordsA} columns=${wordsB} values=${values} range=${[0, 1]}
      format=${(value) => fixed(value, 2)}
      describe=${(r, c) => `“${wordsA[r]}” in A and “${wordsB[c]}” in B: ${fixed(values[r][c], 3)}`}
      label="Cosine similarity, rows are words of sentence A, columns words of sentence B" />`}>
    Rows are the words of A, columns those of B. <${Scale} from="0, unrelated" to="1, same direction" />
  <//>`;
}
