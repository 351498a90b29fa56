// Uses of words under each other: the word in the middle, its sentence around it, a bar for a number.

import { html } from "./vendor/preact/standalone.js";
import { shortened } from "./bars.js";
import { around } from "./corpus.js";
import { fixed } from "./vectors.js";

const ROW = 32;
const BAR_WIDTH = 70;
const VALUE_WIDTH = 42;
const LETTER = 8; // about the width of one, in pixels
const TONES = ["tone-a", "tone-b", "mix"];

// items: [{sentence, position, similarity, sense}]. `senses` are the senses in the order of their colors.
export function Concordance({ width, items, senses, label }) {
  const isNarrow = width < 520;
  const room = width - VALUE_WIDTH - (isNarrow ? 0 : BAR_WIDTH + 20) - 8;
  const word = Math.min(Math.max(...items.map(({ sentence, position }) => sentence.tokens[position].length)) * LETTER + 16, room / 2);
  const side = (room - word) / 2;
  const height = items.length * ROW;
  return html`<svg class="concordance" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}>
    ${items.map(({ sentence, position, similarity, sense }, i) => {
      const [before, found, after] = around({ sentence, position });
      const y = i * ROW + ROW / 2;
      const tone = toneOf(sense, senses);
      const start = room + 20;
      return html`<g>
        <text class="around" x=${side} y=${y} text-anchor="end" dominant-baseline="central">${ending(before.trim(), side)}</text>
        <text class=${`word ${tone}`} x=${side + word / 2} y=${y} text-anchor="middle" dominant-baseline="central">${shortened(found, word, LETTER)}</text>
        <text class="around" x=${side + word} y=${y} dominant-baseline="central">${shortened(after.trim(), side, LETTER)}</text>
        ${!isNarrow && html`<rect class="track" x=${start} y=${y - 8} width=${BAR_WIDTH} height="16" rx="3" />
          <rect class=${`bar ${tone}`} x=${start} y=${y - 8} width=${Math.max(0, similarity) * BAR_WIDTH} height="16" rx="3" />`}
        <text class="value" x=${width} y=${y} text-anchor="end" dominant-baseline="central">${fixed(similarity, 2)}</text>
      </g>`;
    })}
  </svg>`;
}

// The color of a sense; uses without one have that of the layers.
export function toneOf(sense, senses) {
  const position = senses.indexOf(sense);
  return position < 0 ? "layer" : TONES[position % TONES.length];
}

// The end of a text that is too long.
function ending(text, pixels) {
  const reversed = (string) => Array.from(string).reverse().join("");
  return reversed(shortened(reversed(text), pixels, LETTER));
}
