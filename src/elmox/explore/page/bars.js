// Horizontal bars: one per item, all from the same zero.

import { html } from "./vendor/preact/standalone.js";

const ROW = 30;
const BAR = 18;
const VALUE_WIDTH = 56;

// items: [{label, value, text, tone}]. `most` is the value of a full bar; negative values are 0 long.
export function Bars({ width, items, most, label, labelWidth = 140 }) {
  const left = Math.min(labelWidth, Math.floor(width * 0.46));
  const room = Math.max(20, width - left - VALUE_WIDTH);
  const height = items.length * ROW;
  return html`<svg class="bars" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}>
    ${items.map((item, i) => {
      const length = Math.max(0, Math.min(1, item.value / most)) * room;
      const middle = i * ROW + ROW / 2;
      return html`<g>
        <text class="label" x=${left - 10} y=${middle} text-anchor="end" dominant-baseline="central">${shortened(item.label, left - 10)}</text>
        <rect class="track" x=${left} y=${middle - BAR / 2} width=${room} height=${BAR} rx="3" />
        <rect class=${`bar ${item.tone ?? ""}`} x=${left} y=${middle - BAR / 2} width=${length} height=${BAR} rx="3" />
        <text class="value" x=${left + room + 8} y=${middle} dominant-baseline="central">${item.text}</text>
      </g>`;
    })}
  </svg>`;
}

// About what fits into so many pixels.
export function shortened(text, pixels, perCharacter = 7) {
  const characters = Array.from(text);
  const room = Math.max(2, Math.floor(pixels / perCharacter));
  return characters.length <= room ? text : `${characters.slice(0, room - 1).join("")}…`;
}
