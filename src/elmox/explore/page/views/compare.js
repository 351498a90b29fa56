// One word in two sentences: the similarity of its two vectors in every layer, and which sense each
// use is closest to.

import { html } from "../vendor/preact/standalone.js";
import { Bars } from "../bars.js";
import { Outcome, TokenPicker } from "../components.js";
import { Figure } from "../figure.js";
import { useResult } from "../hooks.js";
import { LayerChoice, layerChoices, layerName, vectorsOf } from "../mix.js";
import { SentencePair, chosenPositions, usePairLayers, useSentencePair } from "../sentence_pair.js";
import { SENSES } from "../senses.js";
import { useParameter } from "../state.js";
import { visible } from "../tokenize.js";
import { cosine, fixed, mean } from "../vectors.js";

export function Compare({ model, mix }) {
  const pair = useSentencePair();
  const result = usePairLayers(model, pair);
  return html`<div>
    <${SentencePair} pair=${pair} />
    <${Outcome} result=${result}>
      ${({ a, b }) => html`<${Comparison} model=${model} mix=${mix} pair=${pair} a=${a} b=${b} />`}
    <//>
  </div>`;
}

function Comparison({ model, mix, pair, a, b }) {
  const [i, j] = chosenPositions(pair, a.tokens, b.tokens);
  const [wordA, wordB] = [visible(a.tokens[i]), visible(b.tokens[j])];
  const choices = layerChoices(model.info.numLayers);
  const similarities = choices.map((choice) => cosine(vectorsOf(a, choice, mix)[i], vectorsOf(b, choice, mix)[j]));
  const rows = [["Layer", "Cosine similarity"], ...choices.map((choice, k) => [layerName(choice), similarities[k]])];
  const items = choices.map((choice, k) => ({
    label: layerName(choice),
    value: similarities[k],
    text: fixed(similarities[k], 2),
    tone: choice === "mix" ? "mix" : "layer",
  }));
  const isSame = a.tokens[i].toLowerCase() === b.tokens[j].toLowerCase();
  const title = isSame ? `“${wordA}” in A and in B` : `“${wordA}” in A and “${wordB}” in B`;
  return html`<div>
    <div class="pair">
      <${TokenPicker} label="Word in A" tone="a" tokens=${a.tokens} position=${i} onPick=${(k) => pair.setWordA(String(k))} />
      <${TokenPicker} label="Word in B" tone="b" tokens=${b.tokens} position=${j} onPick=${(k) => pair.setWordB(String(k))} />
    </div>
    <${Figure} title=${`${title}: similarity per layer`} name=${`similarity-${a.tokens[i]}`} rows=${rows}
      draw=${(width) => html`<${Bars} width=${width} items=${items} most=${1} labelWidth=${165} label=${`Cosine similarity per layer: ${items.map((item) => `${item.label} ${item.text}`).join(", ")}`} />`}>
      ${remark(similarities)} 1 is the same direction, 0 is unrelated.
    <//>
    <${NearestSenses} model=${model} mix=${mix} uses=${[
      { name: "A", tone: "tone-a", sentence: a, position: i },
      { name: "B", tone: "tone-b", sentence: b, position: j },
    ]} />
  </div>`;
}

function remark(similarities) {
  const [first] = similarities;
  const top = similarities[similarities.length - 2];
  if (first > 0.999) {
    return `Layer 0 only reads the letters, so both uses are the same to it. The top layer has read the sentences: ${fixed(top, 2)}.`;
  }
  return `Layer 0 compares the letters alone; the layers above have read the sentences.`;
}

function NearestSenses({ model, mix, uses }) {
  const [choice, setChoice] = useParameter("layer", String(model.info.numLayers - 1));
  const words = uses.map(({ sentence, position }) => sentence.tokens[position].toLowerCase());
  const word = words.find((candidate) => Object.hasOwn(SENSES, candidate));
  const result = useResult(async () => {
    if (word === undefined) return { word, examples: [] };
    const texts = Object.entries(SENSES[word]).flatMap(([sense, sentences]) => sentences.map((text) => ({ sense, text })));
    const read = await model.layers(texts.map(({ text }) => text));
    const examples = texts.map((example, k) => ({
      ...example,
      sentence: read[k],
      position: read[k].tokens.findIndex((token) => token.toLowerCase() === word),
    }));
    return { word, examples };
  }, [word]);
  if (word === undefined) {
    const known = Object.keys(SENSES).join(", ");
    return html`<p class="hint">Nearest senses are shown for words with example sentences on this page: ${known}.</p>`;
  }
  return html`<${Outcome} result=${result}>
    ${({ word: shownWord, examples }) => html`<div class="senses">
      <h2>Nearest senses of “${shownWord}”</h2>
      <${LayerChoice} numLayers=${model.info.numLayers} value=${choice} onChange=${setChoice} />
      <div class="pair">
        ${uses
          .filter(({ sentence, position }) => sentence.tokens[position].toLowerCase() === shownWord)
          .map((use) => html`<${SensesOfUse} use=${use} word=${shownWord} examples=${examples} choice=${choice} mix=${mix} />`)}
      </div>
    </div>`}
  <//>`;
}

function SensesOfUse({ use, word, examples, choice, mix }) {
  const vector = vectorsOf(use.sentence, choice, mix)[use.position];
  const ranked = examples
    .map(({ sense, text, sentence, position }) => ({
      sense,
      text,
      similarity: cosine(vector, vectorsOf(sentence, choice, mix)[position]),
    }))
    .sort((x, y) => y.similarity - x.similarity);
  const senses = [...new Set(examples.map(({ sense }) => sense))]
    .map((sense) => ({
      sense,
      similarity: mean(ranked.filter((example) => example.sense === sense).map(({ similarity }) => similarity)),
    }))
    .sort((x, y) => y.similarity - x.similarity);
  const rows = [["Sense", "Sentence", "Cosine similarity"], ...ranked.map(({ sense, text, similarity }) => [sense, text, similarity])];
  const items = senses.map(({ sense, similarity }) => ({
    label: sense,
    value: similarity,
    text: fixed(similarity, 2),
    tone: use.tone,
  }));
  const isTie = senses[0].similarity - senses[1].similarity < 0.005;
  const title = isTie ? `${use.name}: no difference between the senses` : `${use.name} is closest to “${senses[0].sense}”`;
  return html`<${Figure} title=${title} name=${`senses-${word}-${use.name}`} rows=${rows}
    draw=${(width) => html`<${Bars} width=${width} items=${items} most=${1} labelWidth=${90}
      label=${`Mean similarity per sense: ${items.map((item) => `${item.label} ${item.text}`).join(", ")}`} />
      <ol class="examples-of-senses">
        ${ranked.map(({ sense, text, similarity }) => html`<li><span>${text}</span> <em>${sense}</em> <b>${fixed(similarity, 2)}</b></li>`)}
      </ol>`}>
    Mean similarity to three sentences per sense.
  <//>`;
}
