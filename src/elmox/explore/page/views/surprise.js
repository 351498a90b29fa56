// How surprising each word is to the language model, reading forward, backward, and both.

import { html } from "../vendor/preact/standalone.js";
import { Examples, Outcome, SentenceField } from "../components.js";
import { Figure } from "../figure.js";
import { HeatMap, Scale } from "../heatmap.js";
import { useResult } from "../hooks.js";
import { useParameter } from "../state.js";
import { visible } from "../tokenize.js";
import { fixed, mean } from "../vectors.js";

const SENTENCES = [
  "The band released their first album in 1994.",
  "The band released their first cucumber in 1994.",
  "He was born in New York City.",
  "The cat sat on the parliament.",
];
const MOST_BITS = 16; // the darkest color: one word in 65,536

export function Surprise({ model }) {
  const [text, setText] = useParameter("s", SENTENCES[1]);
  const result = useResult(async () => (await model.scores([text]))[0], [text]);
  const examples = SENTENCES.map((sentence) => ({ label: sentence, apply: () => setText(sentence) }));
  return html`<div>
    <${SentenceField} id="sentence" label="Sentence" value=${text} onInput=${setText} />
    <${Examples} examples=${examples} />
    <${Outcome} result=${result}>${(score) => html`<${SurpriseMap} score=${score} />`}<//>
  </div>`;
}

function SurpriseMap({ score }) {
  const bits = (logProbs) => logProbs.map((value) => -value / Math.LN2);
  const forward = bits(score.forward);
  const backward = score.backward && bits(score.backward);
  const directions = backward === null ? [forward] : [forward, backward, forward.map((value, i) => (value + backward[i]) / 2)];
  const columns = ["forward", "backward", "both"].slice(0, directions.length);
  // The last entries are the end of the sentence (forward) and its beginning (backward).
  const words = score.tokens.map((token, i) => visible(token) + (score.unknown[i] ? " *" : ""));
  const values = words.map((_, i) => directions.map((direction) => direction[i]));
  const rows = [["Word", ...columns.map((column) => `${column}, bits`)], ...score.tokens.map((token, i) => [visible(token), ...values[i]])];
  const perplexity = 2 ** mean(directions[directions.length - 1]);
  const most = values.reduce((best, row, i) => (row.at(-1) > values[best].at(-1) ? i : best), 0);
  return html`<${Figure} title=${`The most surprising word is “${visible(score.tokens[most])}”`} name="surprise" rows=${rows}
    draw=${(width) => html`<${HeatMap} width=${Math.min(width, 560)} rows=${words} columns=${columns} values=${values} range=${[0, MOST_BITS]} upright maxCellWidth=${120}
      format=${(value) => fixed(value, 1)}
      describe=${(r, c) => `“${words[r]}”, ${columns[c]}: ${values[r][c].toFixed(2)} bits, a probability of ${percent(2 ** -values[r][c])}`}
      label="Surprise in bits, rows are the words of the sentence, columns are the directions of reading" />`}>
    Surprise in bits: one bit more is half the probability. Forward judges a word by those to its left,
    backward by those to its right. Perplexity of the sentence: ${perplexity.toFixed(1)}.
    ${score.unknown.some(Boolean) ? " * is outside the vocabulary and is scored as an unknown word." : ""}
    ${" "}<${Scale} from="0, certain" to=${`${MOST_BITS} bits`} />
  <//>`;
}

export function percent(probability) {
  const value = 100 * probability;
  if (value >= 10) return `${value.toFixed(0)}%`;
  if (value >= 0.1) return `${value.toFixed(1)}%`;
  return value < 0.001 ? "less than 0.001%" : `${value.toPrecision(1)}%`;
}
