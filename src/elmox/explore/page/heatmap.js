// A table of numbers as colors. Arrow keys move a mark through the cells; the chosen cell is read out
// below the picture.

import { html, useState } from "./vendor/preact/standalone.js";
import { shortened } from "./bars.js";

const CELL_HEIGHT = 30;
const MAX_CELL_WIDTH = 64;
const MIN_CELL_WIDTH = 22;
const LABEL = 13; // font size of labels, in pixels

// rows, columns: labels. values[row][column]: numbers, null for an empty cell. range: [light, dark].
// format(value): text of a cell. describe(row, column): the sentence that is read out.
export function HeatMap({ width, rows, columns, values, range, format, describe, label, upright = false, maxCellWidth = MAX_CELL_WIDTH }) {
  const [chosen, setChosen] = useState(null);
  const longest = (labels) => Math.max(...labels.map((text) => Array.from(text).length));
  const left = Math.min(longest(rows) * 7.6 + 14, Math.max(70, width * 0.3));
  const top = upright ? 26 : Math.min(longest(columns), 14) * 6.4 + 16;
  const cell = Math.max(MIN_CELL_WIDTH, Math.min(maxCellWidth, Math.floor((width - left - (upright ? 2 : 24)) / columns.length)));
  const pictureWidth = Math.max(width, left + cell * columns.length + (upright ? 2 : 24));
  const height = top + CELL_HEIGHT * rows.length + 2;
  const hasNumbers = cell >= 36;
  const position = chosen && chosen.row < rows.length && chosen.column < columns.length ? chosen : null;
  const move = (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const from = position ?? { row: step[0] > 0 ? -1 : 0, column: step[1] > 0 ? -1 : 0 };
    setChosen({
      row: Math.max(0, Math.min(rows.length - 1, from.row + step[0])),
      column: Math.max(0, Math.min(columns.length - 1, from.column + step[1])),
    });
  };
  return html`<div class="scroll">
      <svg class="heatmap" width=${pictureWidth} height=${height} viewBox=${`0 0 ${pictureWidth} ${height}`}
        role="img" aria-label=${`${label}. Arrow keys move through the cells.`} tabindex="0"
        onKeyDown=${move} onMouseLeave=${() => setChosen(null)}>
        ${columns.map((text, c) => {
          const x = left + c * cell + cell / 2;
          return upright
            ? html`<text class="label" x=${x} y=${top - 9} text-anchor="middle">${text}</text>`
            : html`<text class="label" x=${x} y=${top - 8} transform=${`rotate(-50 ${x} ${top - 8})`}>${shortened(text, 100)}</text>`;
        })}
        ${rows.map((text, r) => html`<text class="label" x=${left - 9} y=${top + r * CELL_HEIGHT + CELL_HEIGHT / 2}
          text-anchor="end" dominant-baseline="central">${shortened(text, left - 8)}</text>`)}
        ${values.map((row, r) => row.map((value, c) => {
          const share = value === null ? 0 : Math.max(0, Math.min(1, (value - range[0]) / (range[1] - range[0])));
          const x = left + c * cell;
          const y = top + r * CELL_HEIGHT;
          return html`<g onMouseEnter=${() => setChosen({ row: r, column: c })} onClick=${() => setChosen({ row: r, column: c })}>
            <rect class="cell" x=${x + 1} y=${y + 1} width=${cell - 2} height=${CELL_HEIGHT - 2} rx="3"
              style=${{ fill: value === null ? "transparent" : heat(share) }} />
            ${hasNumbers && value !== null && html`<text class=${share > 0.5 ? "number on-dark" : "number"} x=${x + cell / 2}
              y=${y + CELL_HEIGHT / 2} text-anchor="middle" dominant-baseline="central">${format(value)}</text>`}
          </g>`;
        }))}
        ${position && html`<rect data-screen-only class="mark" x=${left + position.column * cell + 1} y=${top + position.row * CELL_HEIGHT + 1}
          width=${cell - 2} height=${CELL_HEIGHT - 2} rx="3" />`}
      </svg>
    </div>
    <p class="readout" aria-live="polite">${position ? describe(position.row, position.column) : "Point at a cell, or use the arrow keys."}</p>`;
}

// A color between the lightest and the darkest of the theme.
export function heat(share) {
  return `color-mix(in oklab, var(--heat-high) ${(100 * share).toFixed(1)}%, var(--heat-low))`;
}

// The scale of a heat map as a legend.
export function Scale({ from, to }) {
  return html`<span class="scale"><span>${from}</span><i aria-hidden="true"></i><span>${to}</span></span>`;
}
