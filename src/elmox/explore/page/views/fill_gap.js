// Words for a gap: judged from the left, from the right, and from both sides, next to each other.

import { html } from "../vendor/preact/standalone.js";
import { Bars } from "../bars.js";
import { Examples, Outcome, SentenceField, TokenPicker } from "../components.js";
import { Figure } from "../figure.js";
import { useResult } from "../hooks.js";
import { useParameter, writeState } from "../state.js";
import { percent } from "./surprise.js";

const SENTENCES = [
  ["The river flows into the Black Sea.", 5],
  ["The band released their first album in 1994.", 5],
  ["He studied physics at the University of Vienna.", 2],
];
const NUM_WORDS = 10;
const SIDES = {
  left: { title: "From the left", tone: "tone-a" },
  right: { title: "From the right", tone: "tone-b" },
  both: { title: "From both sides", tone: "mix" },
};

export function FillGap({ model }) {
  const [text, setText] = useParameter("g", SENTENCES[0][0]);
  const [chosen, setChosen] = useParameter("gap", text === SENTENCES[0][0] ? String(SENTENCES[0][1]) : "");
  const result = useResult(async () => {
    const [{ tokens }] = await model.layers([text]);
    const position = gapPosition(tokens, chosen);
    return { tokens, position, words: await model.fill(tokens, position, NUM_WORDS) };
  }, [text, chosen]);
  const examples = SENTENCES.map(([sentence, position]) => ({
    label: sentence,
    apply: () => writeState({ g: sentence, gap: String(position) }),
  }));
  const change = (changed) => writeState({ g: changed, gap: null });
  return html`<div>
    <${SentenceField} id="gap-sentence" label="Sentence" value=${text} onInput=${change} />
    <${Examples} examples=${examples} />
    <${Outcome} result=${result}>
      ${({ tokens, position, words }) => html`<div>
        <${TokenPicker} label="Word to leave out" tokens=${tokens} position=${position} onPick=${(i) => setChosen(String(i))} />
        <div class="triple">
          ${Object.entries(SIDES).map(([side, look]) => words[side] && html`<${Side} tokens=${tokens} position=${position} side=${side} look=${look} words=${words[side]} />`)}
        </div>
      </div>`}
    <//>
  </div>`;
}

function Side({ tokens, position, side, look, words }) {
  const left = tokens.slice(0, position).join(" ");
  const right = tokens.slice(position + 1).join(" ");
  const context = { left: `${left} ___`, right: `___ ${right}`, both: `${left} ___ ${right}` }[side];
  const rows = [["Word", "Probability"], ...words.map(({ word, probability }) => [word, probability])];
  const items = words.map(({ word, probability }) => ({ label: word, value: probability, text: percent(probability), tone: look.tone }));
  return html`<${Figure} title=${look.title} name=${`gap-${side}`} rows=${rows}
    draw=${(width) => html`<${Bars} width=${width} items=${items} most=${Math.max(...words.map(({ probability }) => probability))}
      labelWidth=${110} label=${`${look.title}: ${items.map((item) => `${item.label} ${item.text}`).join(", ")}`} />`}>
    <span class="context">${context}</span>
  <//>`;
}

// The chosen token; otherwise a token of underscores; otherwise one in the middle.
function gapPosition(tokens, chosen) {
  const number = chosen === "" ? NaN : Number(chosen);
  if (Number.isInteger(number) && number >= 0 && number < tokens.length) return number;
  const gap = tokens.findIndex((token) => /^_{2,}$/.test(token));
  return gap >= 0 ? gap : Math.floor(tokens.length / 2);
}
