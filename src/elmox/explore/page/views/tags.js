// What task models find in a sentence: tags, spans, dependency trees and roles. They run only on a server.

import { html } from "../vendor/preact/standalone.js";
import { Dependencies, LabeledSpans, TaggedWords } from "../annotation.js";
import { Choice, Examples, Outcome, SentenceField, TokenPicker } from "../components.js";
import { Figure } from "../figure.js";
import { useResult } from "../hooks.js";
import { MAX_CHARACTERS } from "../model.js";
import { useParameter, writeState } from "../state.js";
import { visible } from "../tokenize.js";

const SENTENCES = [
  "Ada Lovelace lived in London.",
  "The committee of the European Union met in Paris on Monday.",
  "She gave the book that he wrote to a friend.",
];

const OTHER_INPUT = ["nli", "qa", "coref"]; // tasks that read more than one sentence
const ROLES = "srl"; // this one reads a sentence and the position of a predicate

export function Tags({ model }) {
  const taggers = model.info.taggers.filter(({ task }) => !OTHER_INPUT.includes(task));
  if (taggers.length === 0) return html`<${NoTaskModels} isLocal=${model.info.isLocal} />`;
  return html`<${Predictions} model=${model} taggers=${taggers} />`;
}

function NoTaskModels({ isLocal }) {
  return html`<div class="notice" role="status">
    <p>${isLocal
      ? "Task models do not run in the browser: this view needs elmox serve, with the task models to show."
      : "This server was started without task models for sentences."}</p>
    <p><code>elmox serve MODEL --tagger pos=DIRECTORY --tagger ner=DIRECTORY</code></p>
    <p>A directory is what <code>elmox fit</code> writes. The server shows this page at its address.</p>
  </div>`;
}

function Predictions({ model, taggers }) {
  const [text] = useParameter("t", SENTENCES[0]);
  const [name, setName] = useParameter("tagger", taggers[0].name);
  const [chosen, setChosen] = useParameter("predicate", "");
  const tagger = taggers.find((candidate) => candidate.name === name) ?? taggers[0];
  const result = useResult(async () => {
    if (text.trim() === "") throw new Error("Type a sentence.");
    if (text.length > MAX_CHARACTERS) {
      throw new Error(`This text has ${text.length.toLocaleString("en")} characters. The page reads up to ${MAX_CHARACTERS.toLocaleString("en")}; elmox tag reads files of any size.`);
    }
    if (tagger.task !== ROLES) return { tagger, predictions: await model.tag(tagger.name, text) };
    const [{ tokens }] = await model.layers([text]);
    const predicate = chosen !== "" && Number(chosen) < tokens.length ? Number(chosen) : Math.min(1, tokens.length - 1);
    return { tagger, tokens, predicate, predictions: await model.tag(tagger.name, { tokens, predicates: [predicate] }) };
  }, [text, tagger.name, tagger.task === ROLES && chosen]);
  const options = taggers.map((candidate) => ({
    value: candidate.name,
    label: candidate.name === candidate.task ? candidate.name : `${candidate.name} (${candidate.task})`,
  }));
  return html`<div>
    <${SentenceField} id="tag-sentence" label="Text" value=${text} onInput=${(changed) => writeState({ t: changed, predicate: null })} />
    <${Examples} examples=${SENTENCES.map((sentence) => ({ label: sentence, apply: () => writeState({ t: sentence, predicate: null }) }))} />
    <${Choice} label="Task model" options=${options} value=${tagger.name} onChange=${setName} />
    <${Outcome} result=${result}>
      ${({ tagger: shown, tokens, predicate, predictions }) => html`<div>
        ${tokens && html`<${TokenPicker} label="Verb" tokens=${tokens} position=${predicate} onPick=${(i) => setChosen(String(i))} />`}
        ${predictions.map((prediction, i) => html`<${Prediction} prediction=${prediction} name=${`${shown.name}-${i + 1}`} />`)}
      </div>`}
    <//>
  </div>`;
}

// A prediction, by what it has: each kind of task model returns its own fields.
function Prediction({ prediction, name }) {
  const { tokens, tags, spans, heads, deprels, propositions } = prediction;
  const title = tokens?.map(visible).join(" ");
  if (heads) {
    const headOf = (i) => (heads[i] === 0 ? "root" : tokens[heads[i] - 1]);
    const rows = [["Number", "Word", "Head", "Relation"], ...tokens.map((token, i) => [String(i + 1), token, headOf(i), deprels[i]])];
    return html`<${Figure} title=${title} name=${name} rows=${rows}
      draw=${() => html`<${Dependencies} tokens=${tokens} heads=${heads} labels=${deprels} label=${`Dependency tree of: ${title}`} />`}>
      An arrow leads from a word to one that depends on it. The root is in bold.
    <//>`;
  }
  if (spans) {
    const rows = [["Words", "Label", "First word", "Last word"], ...spans.map(({ start, end, label }) => [tokens.slice(start, end).join(" "), label, start + 1, end])];
    return html`<${Figure} title=${title} name=${name} rows=${rows}
      draw=${() => html`<${LabeledSpans} tokens=${tokens} spans=${spans} label=${`Labeled spans of: ${title}`} />`}>
      ${spans.length === 0 && "The task model found nothing in this sentence."}
    <//>`;
  }
  if (tags) {
    const rows = [["Number", "Word", "Tag"], ...tokens.map((token, i) => [String(i + 1), token, tags[i]])];
    return html`<${Figure} title=${title} name=${name} rows=${rows}
      draw=${() => html`<${TaggedWords} tokens=${tokens} tags=${tags} label=${`Tags of: ${title}`} />`} />`;
  }
  if (propositions) {
    return propositions.map((proposition, k) => html`<${Roles} tokens=${tokens} proposition=${proposition} name=${`${name}-${k + 1}`} />`);
  }
  return html`<pre class="card scroll">${JSON.stringify(prediction, null, 2)}</pre>`;
}

function Roles({ tokens, proposition: { predicate, arguments: spans }, name }) {
  const title = `Roles of “${visible(tokens[predicate])}”`;
  const rows = [["Words", "Role"], ...spans.map(({ start, end, label }) => [tokens.slice(start, end).join(" "), label])];
  return html`<${Figure} title=${title} name=${name} rows=${rows}
    draw=${() => html`<${LabeledSpans} tokens=${tokens} spans=${spans} marked=${predicate} label=${title} />`} />`;
}
