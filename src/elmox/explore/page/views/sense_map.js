// Every use of a word in a corpus as a point: uses that a layer takes for similar are close together.

import { html } from "../vendor/preact/standalone.js";
import { Bars } from "../bars.js";
import { Examples, Outcome } from "../components.js";
import { toneOf } from "../concordance.js";
import { CorpusChoice, MarkedSentence, frequentIn, loadBundled, sentencesOf, useCorpus, usesOf, useReader } from "../corpus.js";
import { Figure } from "../figure.js";
import { useResult } from "../hooks.js";
import { LayerChoice, layerChoices, layerName, vectorsOf } from "../mix.js";
import { plane } from "../pca.js";
import { Legend, Scatter } from "../scatter.js";
import { useParameter } from "../state.js";
import { cosine, fixed } from "../vectors.js";

const FIRST = "bank";
const MAX_USES = 200;
const MIN_USES = 3; // fewer points have no shape
const NUM_SUGGESTED = 12;
const NUM_NEAREST = 3;
const TIE = 1e-5; // cosines that differ by less are the same up to rounding

export function SenseMap({ model, mix }) {
  const corpus = useCorpus();
  const [word, setWord] = useParameter("word", FIRST);
  const [choice, setChoice] = useParameter("layer", String(model.info.numLayers - 1));
  const [read, progress] = useReader(model);
  const result = useResult(async (isCurrent) => {
    const wanted = word.trim();
    const all = await sentencesOf(corpus);
    const suggestions = corpus.isOwn ? frequentIn(all, NUM_SUGGESTED) : Object.keys(await loadBundled());
    const candidates = all.filter(({ text }) => wanted !== "" && text.toLowerCase().includes(wanted.toLowerCase()));
    const uses = usesOf(wanted, await read(candidates, isCurrent));
    return { word: wanted, suggestions, numUses: uses.length, uses: evenly(uses, MAX_USES) };
  }, [corpus.isOwn, corpus.isOwn && corpus.text, word]);
  return html`<div>
    <${CorpusChoice} corpus=${corpus} />
    <div class="field">
      <label for="map-word">Word</label>
      <input id="map-word" type="text" autocomplete="off" autocapitalize="off" spellcheck="false" value=${word}
        onInput=${(event) => setWord(event.target.value)} />
    </div>
    <${Outcome} result=${result} progress=${progress}>
      ${({ suggestions, ...value }) => html`<div>
        <${Examples} examples=${suggestions.map((label) => ({ label, apply: () => setWord(label) }))} />
        <${LayerChoice} numLayers=${model.info.numLayers} value=${choice} onChange=${setChoice} />
        ${value.numUses < MIN_USES
          ? html`<p class="notice" role="status">${tooFew(value)}</p>`
          : html`<${UsesMap} ...${value} choice=${choice} mix=${mix} />
              <${SensesKept} ...${value} numLayers=${model.info.numLayers} mix=${mix} />`}
      </div>`}
    <//>
  </div>`;
}

function tooFew({ word, numUses }) {
  if (word === "") return "Type a word.";
  return `“${word}” occurs ${numUses === 0 ? "not at all" : numUses === 1 ? "once" : "twice"} in this corpus: choose a word with at least ${MIN_USES} uses.`;
}

function UsesMap({ word, uses, numUses, choice, mix }) {
  const vectors = uses.map(({ sentence, position }) => vectorsOf(sentence, choice, mix)[position]);
  const { points, share } = plane(vectors);
  const senses = [...new Set(uses.map(({ sense }) => sense))].filter((sense) => sense !== null);
  const rows = [
    ["Use", "x", "y", ...(senses.length > 0 ? ["Sense"] : []), "Sentence"],
    ...uses.map(({ sense, sentence }, i) => [String(i + 1), ...points[i], ...(senses.length > 0 ? [sense] : []), sentence.text]),
  ];
  const isOnePoint = points.every(([x, y]) => x === 0 && y === 0);
  const nearest = (i) =>
    uses
      .map((use, j) => ({ use, similarity: cosine(vectors[i], vectors[j]), isSelf: i === j }))
      .filter(({ isSelf }) => !isSelf)
      .sort((x, y) => y.similarity - x.similarity)
      .slice(0, NUM_NEAREST);
  const describe = (i) => html`<p>${uses[i].sense && html`<em>${uses[i].sense}:</em> `}<${MarkedSentence} use=${uses[i]} /></p>
    <ol class="nearest">${nearest(i).map(({ use, similarity }) => html`<li><b>${fixed(similarity, 2)}</b> <${MarkedSentence} use=${use} /></li>`)}</ol>`;
  return html`<${Figure} title=${`${layerName(choice)}: ${uses.length} uses of “${word}”`} name=${`map-${word}-${choice}`} rows=${rows}
    draw=${(width) => html`<${Scatter} width=${width} height=${Math.min(width, 420)} describe=${describe}
      points=${points.map(([x, y], i) => ({ x, y, tone: toneOf(uses[i].sense, senses) }))}
      label=${`Uses of ${word} in the plane of their two principal components`} />`}>
    ${isOnePoint
      ? "Layer 0 only reads the letters, so all uses are one point."
      : `The two principal components keep ${(100 * share).toFixed(0)}% of the variance. Similarities below the picture are those of the whole vectors.`}
    ${numUses > uses.length && ` ${uses.length} of ${numUses} uses are shown, taken evenly.`}
    ${senses.length > 0 && html` <${Legend} items=${senses.map((sense) => ({ label: sense, tone: toneOf(sense, senses) }))} />`}
  <//>`;
}

// How often the most similar other use has the same sense, per layer: by the whole vectors, not by the map.
function SensesKept({ word, uses, numLayers, mix }) {
  if (uses.some(({ sense }) => sense === null)) return null;
  const choices = layerChoices(numLayers);
  const shares = choices.map((choice) => nearestAgree(uses, choice, mix));
  const rows = [["Layer", "Share with the same sense"], ...choices.map((choice, k) => [layerName(choice), shares[k]])];
  const items = choices.map((choice, k) => ({
    label: layerName(choice),
    value: shares[k],
    text: `${(100 * shares[k]).toFixed(0)}%`,
    tone: choice === "mix" ? "mix" : "layer",
  }));
  return html`<${Figure} title="Does the most similar use have the same sense?" name=${`map-${word}-senses`} rows=${rows}
    draw=${(width) => html`<${Bars} width=${width} items=${items} most=${1} labelWidth=${165}
      label=${`Share of uses whose most similar use has the same sense: ${items.map((item) => `${item.label} ${item.text}`).join(", ")}`} />`}>
    For each use, the most similar other use of “${word}” in the layer. Uses that tie count by their share.
  <//>`;
}

function nearestAgree(uses, choice, mix) {
  const vectors = uses.map(({ sentence, position }) => vectorsOf(sentence, choice, mix)[position]);
  const shares = uses.map((use, i) => {
    const similarities = vectors.map((vector, j) => (i === j ? -Infinity : cosine(vectors[i], vector)));
    const highest = Math.max(...similarities);
    const tied = uses.filter((_, j) => similarities[j] > highest - TIE);
    return tied.filter(({ sense }) => sense === use.sense).length / tied.length;
  });
  return shares.reduce((sum, share) => sum + share, 0) / uses.length;
}

// So many items at even distances, all of them if they are fewer.
function evenly(items, number) {
  if (items.length <= number) return items;
  return Array.from({ length: number }, (_, i) => items[Math.floor((i * items.length) / number)]);
}
