// Controls that several views share.

import { html, useState } from "./vendor/preact/standalone.js";
import { visible } from "./tokenize.js";

let nextId = 0;
const uniqueName = () => `choice-${nextId++}`;

// A labeled field for one sentence. `tone` is "a" or "b", the color of the sentence in the pictures.
export function SentenceField({ id, label, value, onInput, tone, hint }) {
  return html`<div class=${`field ${tone ? `tone-${tone}` : ""}`}>
    <label for=${id}>${label}</label>
    <textarea
      id=${id}
      rows="2"
      spellcheck="false"
      value=${value}
      onInput=${(event) => onInput(event.target.value)}
    ></textarea>
    ${hint && html`<p class="hint">${hint}</p>`}
  </div>`;
}

// Words of a sentence, one of which is chosen: radio buttons that look like the sentence.
export function TokenPicker({ label, tokens, position, onPick, tone }) {
  const [name] = useState(uniqueName);
  return html`<fieldset class=${`tokens tone-${tone ?? "a"}`}>
    <legend>${label}</legend>
    ${tokens.map(
      (token, i) => html`<label class="token">
        <input type="radio" name=${name} checked=${i === position} onChange=${() => onPick(i)} />
        <span>${visible(token)}</span>
      </label>`,
    )}
  </fieldset>`;
}

// A row of exclusive choices: [{value, label}].
export function Choice({ label, options, value, onChange }) {
  const [name] = useState(uniqueName);
  return html`<fieldset class="choice">
    <legend>${label}</legend>
    ${options.map(
      (option) => html`<label>
        <input
          type="radio"
          name=${name}
          value=${option.value}
          checked=${option.value === value}
          onChange=${() => onChange(option.value)}
        />
        <span>${option.label}</span>
      </label>`,
    )}
  </fieldset>`;
}

// Buttons that fill in examples: [{label, apply}].
export function Examples({ examples }) {
  return html`<div class="examples" role="group" aria-label="Examples">
    <span>Try</span>
    ${examples.map(
      ({ label, apply }) => html`<button type="button" onClick=${apply}>${label}</button>`,
    )}
  </div>`;
}

// What a computation has come to: its error, or that it is not done, with how far it is if there is a text
// `progress`. `children` otherwise.
export function Outcome({ result, progress, children }) {
  if (result.error) {
    return html`<p class="notice error" role="alert">${result.error.message}</p>`;
  }
  if (result.value === null) return html`<p class="notice" role="status">${progress ?? "Computing …"}</p>`;
  return html`${result.isPending && progress && html`<p class="notice" role="status">${progress}</p>`}
    <div aria-busy=${result.isPending} class=${result.isPending ? "pending" : ""}>${children(result.value)}</div>`;
}
