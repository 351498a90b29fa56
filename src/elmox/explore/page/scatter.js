// Points in the plane, by the first two columns of numbers of a view: hover or arrow keys choose one,
// and a sentence about it is read out below the picture.

import { html, useState } from "./vendor/preact/standalone.js";

const MARGIN = 18;
const RADIUS = 5;

// points: [{x, y, tone}]; tone is a class of style.css ("tone-a", "tone-b", "mix", "layer").
// describe(index): what is read out. Both axes have the same scale, so that distances can be compared.
export function Scatter({ width, height = Math.min(width, 460), points, describe, label }) {
  const [chosen, setChosen] = useState(null);
  const extent = (values) => [Math.min(...values), Math.max(...values)];
  const [left, right] = extent(points.map(({ x }) => x));
  const [bottom, top] = extent(points.map(({ y }) => y));
  const scale = Math.min((width - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (top - bottom || 1));
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
      aria-label=${`${label}. Arrow keys move through the points.`} tabindex="0" onKeyDown=${move}>
      ${points.map((point, i) => {
        const [x, y] = place(point);
        return html`<circle class=${`point ${point.tone ?? "layer"}`} cx=${x} cy=${y} r=${RADIUS}
          onMouseEnter=${() => setChosen(i)} onClick=${() => setChosen(i)} />`;
      })}
      ${position !== null && html`<circle data-screen-only class="mark" cx=${place(points[position])[0]} cy=${place(points[position])[1]} r=${RADIUS + 4} />`}
    </svg>
    <p class="readout" aria-live="polite">${position === null ? "Point at a dot, or use the arrow keys." : describe(position)}</p>`;
}
