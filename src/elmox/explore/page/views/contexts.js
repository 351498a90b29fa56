// The uses in a corpus that are most similar to a word in a sentence.

import { html } from "../vendor/preact/standalone.js";
import { Choice, Examples, Outcome, SentenceField, TokenPicker } from "../components.js";
import { Concordance } from "../concordance.js";
import { CorpusChoice, sentencesOf, useCorpus, usesOf, useReader } from "../corpus.js";
import { Figure } from "../figure.js";
import { useResult } from "../hooks.js";
import { LayerChoice, layerName, vectorsOf } from "../mix.js";
import { useParameter, writeState } from "../state.js";
import { visible } from "../tokenize.js";
import { cosine } from "../vectors.js";

const SENTENCES = [
  ["The men sat fishing on the grassy bank.", 7],
  ["Before the wedding she chose a present for them.", 6],
  ["He dropped the burning match on the floor.", 4],
  ["They heard the crane calling from the reeds.", 3],
  ["The soldiers marched across the bridge.", 5, "any"],
];
const NUM_SHOWN = 10;
const SCOPES = [
  { value: "word", label: "Uses of this word" },
  { value: "any", label: "Any word" },
];

export function Contexts({ model, mix }) {
  const corpus = useCorpus();
  const [text, setText] = useParameter("q", SENTENCES[0][0]);
  const [chosen, setChosen] = useParameter("qi", text === SENTENCES[0][0] ? String(SENTENCES[0][1]) : "");
  const [scope, setScope] = useParameter("scope", "word");
  const [choice, setChoice] = useParameter("layer", String(model.info.numLayers - 1));
  const [read, progress] = useReader(model);
  const query = useResult(async () => (await model.layers([text]))[0], [text]);
  const result = useResult(async (isCurrent) => read(await sentencesOf(corpus), isCurrent), [corpus.isOwn, corpus.isOwn && corpus.text]);
  const change = (changed) => writeState({ q: changed, qi: null });
  const examples = SENTENCES.map(([sentence, position, compared]) => ({
    label: sentence,
    apply: () => writeState({ q: sentence, qi: String(position), scope: compared ?? null }),
  }));
  const positionIn = (tokens) => {
    const number = chosen === "" ? NaN : Number(chosen);
    return Number.isInteger(number) && number >= 0 && number < tokens.length ? number : 0;
  };
  return html`<div>
    <${SentenceField} id="context-sentence" label="Sentence" tone="a" value=${text} onInput=${change} />
    <${Examples} examples=${examples} />
    <${Outcome} result=${query}>
      ${(sentence) => html`<${TokenPicker} label="Word" tokens=${sentence.tokens} position=${positionIn(sentence.tokens)} onPick=${(i) => setChosen(String(i))} />`}
    <//>
    <${CorpusChoice} corpus=${corpus} />
    <${Choice} label="Compare with" options=${SCOPES} value=${scope} onChange=${setScope} />
    <${LayerChoice} numLayers=${model.info.numLayers} value=${choice} onChange=${setChoice} />
    ${query.value && html`<${Outcome} result=${result} progress=${progress}>
      ${(sentences) => html`<${Nearest} query=${query.value} position=${positionIn(query.value.tokens)} text=${text} sentences=${sentences} scope=${scope} choice=${choice} mix=${mix} />`}
    <//>`}
  </div>`;
}

function Nearest({ query, position, text, sentences, scope, choice, mix }) {
  const word = query.tokens[position];
  const others = sentences.filter((sentence) => sentence.text !== text.trim());
  const uses = usesOf(scope === "any" ? null : word, others);
  if (uses.length === 0) {
    return html`<p class="notice" role="status">“${visible(word)}” does not occur in this corpus: compare with any word, or choose another one.</p>`;
  }
  const vector = vectorsOf(query, choice, mix)[position];
  const nearest = uses
    .map((use) => ({ ...use, similarity: cosine(vector, vectorsOf(use.sentence, choice, mix)[use.position]) }))
    .sort((x, y) => y.similarity - x.similarity)
    .slice(0, NUM_SHOWN);
  const senses = scope === "any" ? [] : [...new Set(uses.map(({ sense }) => sense))].filter((sense) => sense !== null);
  const rows = [
    ["Similarity", "Word", "Sense", "Sentence"],
    ...nearest.map(({ similarity, sentence, position: i, sense }) => [similarity, sentence.tokens[i], sense ?? "", sentence.text]),
  ];
  return html`<${Figure} title=${`${layerName(choice)}: contexts most like this “${visible(word)}”`} name=${`contexts-${word}-${choice}`} rows=${rows}
    draw=${(width) => html`<${Concordance} width=${width} items=${nearest} senses=${senses}
      label=${`Most similar uses: ${nearest.map(({ similarity, sentence }) => `${similarity.toFixed(2)} ${sentence.text}`).join(" ")}`} />`}>
    The ${nearest.length} most similar of ${uses.length.toLocaleString("en")} uses in ${others.length.toLocaleString("en")} sentences, by cosine similarity.
    ${senses.length > 0 && html` ${tally(nearest)}`}
  <//>`;
}

// "9 river, 1 money"
function tally(uses) {
  const counts = new Map();
  for (const { sense } of uses) counts.set(sense ?? "other", (counts.get(sense ?? "other") ?? 0) + 1);
  const ordered = [...counts].sort((x, y) => y[1] - x[1]);
  return `Senses: ${ordered.map(([sense, count]) => `${count} ${sense}`).join(", ")}.`;
}
