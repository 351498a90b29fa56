// One word is replaced: how far does the vector of every other word move, layer by layer?

import { html } from "../vendor/preact/standalone.js";
import { Examples, Outcome, SentenceField, TokenPicker } from "../components.js";
import { Figure } from "../figure.js";
import { HeatMap, Scale } from "../heatmap.js";
import { useResult } from "../hooks.js";
import { layerChoices, layerName, vectorsOf } from "../mix.js";
import { useParameter, writeState } from "../state.js";
import { visible } from "../tokenize.js";
import { cosine, fixed } from "../vectors.js";

const EDITS = [
  ["She sat on the bank of the river and read.", 7, "loan"],
  ["The bat flew out of the cave at night.", 2, "broke"],
  ["They will play in the garden tomorrow.", 5, "final"],
  ["He did not like the film.", 2, ""],
];
const DARKEST = 0.5; // the distance with the darkest color: far beyond what one word moves

export function Edit({ model, mix }) {
  const [text, setText] = useParameter("e", EDITS[0][0]);
  const isFirst = text === EDITS[0][0];
  const [chosen, setChosen] = useParameter("ei", isFirst ? String(EDITS[0][1]) : "");
  const [replacement, setReplacement] = useParameter("er", isFirst ? EDITS[0][2] : "");
  const result = useResult(async () => {
    const [before] = await model.layers([text]);
    const number = chosen === "" ? NaN : Number(chosen);
    const position = Number.isInteger(number) && number >= 0 && number < before.tokens.length ? number : 0;
    const words = replacement.split(/\s+/u).filter((word) => word !== "");
    const edited = [...before.tokens.slice(0, position), ...words, ...before.tokens.slice(position + 1)];
    if (edited.length === 0) throw new Error("The sentence has no other word: type a longer one.");
    const [after] = await model.layers([edited]);
    return { before, after, position, numWords: words.length };
  }, [text, chosen, replacement]);
  const examples = EDITS.map(([sentence, position, word]) => ({
    label: sentence.split(" ").map((old, i) => (i === position ? (word === "" ? `[without “${old}”]` : `[${old.replace(/\W+$/, "")} → ${word}]`) : old)).join(" "),
    apply: () => writeState({ e: sentence, ei: String(position), er: word }),
  }));
  const change = (changed) => writeState({ e: changed, ei: null });
  return html`<div>
    <${SentenceField} id="edit-sentence" label="Sentence" tone="a" value=${text} onInput=${change} />
    <${Examples} examples=${examples} />
    <${Outcome} result=${result}>
      ${(value) => html`<div>
        <${TokenPicker} label="Word to replace" tokens=${value.before.tokens} position=${value.position} onPick=${(i) => setChosen(String(i))} />
        <div class="field tone-b edit-word">
          <label for="replacement">In its place (nothing leaves the word out)</label>
          <input id="replacement" type="text" autocomplete="off" autocapitalize="off" spellcheck="false" value=${replacement}
            onInput=${(event) => setReplacement(event.target.value)} />
        </div>
        <${Moves} ...${value} numLayers=${model.info.numLayers} mix=${mix} />
      </div>`}
    <//>
  </div>`;
}

function Moves({ before, after, position, numWords, numLayers, mix }) {
  const choices = layerChoices(numLayers);
  const pairs = choices.map((choice) => [vectorsOf(before, choice, mix), vectorsOf(after, choice, mix)]);
  const shift = numWords - 1; // words to the right of the edit
  const values = before.tokens.map((_, i) =>
    pairs.map(([a, b]) => (i === position ? null : Math.max(0, 1 - cosine(a[i], b[i < position ? i : i + shift])))),
  );
  const columns = choices.map((choice) => (choice === "0" ? "Layer 0" : layerName(choice)));
  const inserted = after.tokens.slice(position, position + numWords).map(visible).join(" ") || "nothing";
  const words = before.tokens.map((token, i) => (i === position ? `${visible(token)} → ${inserted}` : visible(token)));
  const top = numLayers - 1;
  const moved = before.tokens.map((_, i) => i).filter((i) => i !== position).sort((i, j) => values[j][top] - values[i][top]);
  const title = moved.length === 0 || values[moved[0]][top] < 1e-6 ? "No other word moves" : `“${visible(before.tokens[moved[0]])}” moves most`;
  const rows = [["Word", ...columns], ...words.map((word, i) => [word, ...values[i].map((value) => value ?? "")])];
  return html`<${Figure} title=${title} name="edit" rows=${rows}
    draw=${(width) => html`<${HeatMap} width=${Math.min(width, 640)} rows=${words} columns=${columns} values=${values} range=${[0, DARKEST]} upright maxCellWidth=${110}
      format=${(value) => fixed(value, 2)}
      describe=${(r, c) => (values[r][c] === null ? `“${words[r]}”: this is the edited word` : `“${words[r]}”, ${columns[c]}: moved by ${fixed(values[r][c], 3)}`)}
      label="Distance that each word moves, rows are the words of the sentence, columns are layers" />`}>
    1 minus the cosine similarity of a word's vectors before and after. Layer 0 has no context: nothing moves.
    ${" "}<${Scale} from="0, unmoved" to=${String(DARKEST)} />
  <//>`;
}
