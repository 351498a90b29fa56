// Points in the plane, by the first two columns of numbers of a view: hover or arrow keys choose one,
// and what there is to say about it is read out below the picture.

import { html, useState } from "./vendor/preact/standalone.js";

const MARGIN = 18;
const RADIUS = 5.5;
const SPREAD = 1e-6; // smaller distances between points are rounding
// Tones are told apart by shape too: not every reader sees their colors.
const SHAPES = {
  "tone-b": (x, y) => `M${x - 5} ${y - 5}h10v10h-10z`,
  mix: (x, y) => `M${x} ${y - 6.5}l6.5 11.5h-13z`,
};

// points: [{x, y, tone}]; tone is a class of style.css ("tone-a", "tone-b", "mix", "layer").
// describe(index): what is read out, text or html. Both axes have the same scale, so that distances can be
// compared.
export function Scatter({ width, height = Math.min(width, 460), points, describe, label }) {
  const [chosen, setChosen] = useState(null);
  const extent = (values) => [Math.min(...values), Math.max(...values)];
  const [left, right] = extent(points.map(({ x }) => x));
  const [bottom, top] = extent(points.map(({ y }) => y));
  const room = (pixels, spread) => (pixels - 2 * MARGIN) / (spread > SPREAD ? spread : 1);
  const scale = Math.min(room(width, right - left), room(height, top - bottom));
  const place = ({ x, y }) => [
    width / 2 + scale * (x - (left + right) / 2),
    height / 2 - scale * (y - (top + bottom) / 2),
  ];
  const position = chosen !== null && chosen < points.length ? chosen : null;
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || points.length === 0) return;
    event.preventDefault();
    setChosen(((position ?? (step > 0 ? -1 : 0)) + step + points.length) % points.length);
  };
  return html`<svg class="scatter" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img"
      aria-label=${`${label}. Arrow keys move through the points.`} tabindex="0" onKeyDown=${move}
      onFocus=${() => position === null && points.length > 0 && setChosen(0)}>
      ${points.map((point, i) => {
        const [x, y] = place(point);
        return html`<path class=${`point ${point.tone ?? "layer"}`} d=${shape(point.tone, x, y)}
          onMouseEnter=${() => setChosen(i)} onClick=${() => setChosen(i)} />`;
      })}
      ${position !== null && html`<circle data-screen-only class="mark" cx=${place(points[position])[0]} cy=${place(points[position])[1]} r=${RADIUS + 4} />`}
    </svg>
    <div class="readout" aria-live="polite">${position === null ? "Point at a mark, or use the arrow keys." : describe(position)}</div>`;
}

// items: [{label, tone}].
export function Legend({ items }) {
  return html`<span class="legend">${items.map(
    ({ label, tone }) => html`<span><svg class="scatter" width="14" height="14" aria-hidden="true"><path class=${`point ${tone}`} d=${shape(tone, 7, 7)} /></svg>${label}</span>`,
  )}</span>`;
}

function shape(tone, x, y) {
  const circle = `M${x - RADIUS} ${y}a${RADIUS} ${RADIUS} 0 1 0 ${2 * RADIUS} 0a${RADIUS} ${RADIUS} 0 1 0 ${-2 * RADIUS} 0z`;
  return SHAPES[tone]?.(x, y) ?? circle;
}
