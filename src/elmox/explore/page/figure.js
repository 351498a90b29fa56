// A figure: a title, a picture, its numbers as a table, and buttons to download both.
//
//     html`<${Figure} title="..." name="pairs" rows=${rows} draw=${(width) => html`<svg ...>`}>
//       what to see in it
//     <//>`
//
// `draw` gets the width in pixels that is available. `rows` are strings and numbers, heading first:
// they are the CSV file and the table, which is what a screen reader reads.

import { html, useRef, useState } from "./vendor/preact/standalone.js";
import { downloadCsv, downloadPng, downloadSvg } from "./download.js";
import { useWidth } from "./hooks.js";

export function Figure({ title, name, rows, draw, children }) {
  const [area, width] = useWidth();
  const [error, setError] = useState(null);
  const svg = () => area.current.querySelector("svg");
  const attempt = (save) => async () => {
    try {
      await save();
      setError(null);
    } catch (problem) {
      setError(problem.message);
    }
  };
  return html`<figure class="card">
    <figcaption>
      <h3>${title}</h3>
      ${children && html`<div class="caption">${children}</div>`}
    </figcaption>
    <div class="picture" ref=${area}>${width > 0 && draw(width)}</div>
    <div class="downloads">
      <${Table} rows=${rows} />
      <span class="buttons" role="group" aria-label="Download">
        <button type="button" onClick=${attempt(() => downloadSvg(svg(), name))}>SVG</button>
        <button type="button" onClick=${attempt(() => downloadPng(svg(), name))}>PNG</button>
        <button type="button" onClick=${attempt(() => downloadCsv(rows, name))}>CSV</button>
      </span>
    </div>
    ${error && html`<p class="notice error" role="alert">${error}</p>`}
  </figure>`;
}

function Table({ rows }) {
  const [heading, ...body] = rows;
  const details = useRef(null);
  return html`<details ref=${details} class="numbers">
    <summary>Numbers as a table</summary>
    <div class="scroll">
      <table>
        <thead><tr>${heading.map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead>
        <tbody>
          ${body.map(
            ([first, ...others]) => html`<tr>
              <th scope="row">${shown(first)}</th>
              ${others.map((cell) => html`<td>${shown(cell)}</td>`)}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </details>`;
}

function shown(cell) {
  return typeof cell === "number" && !Number.isInteger(cell) ? cell.toFixed(4) : cell;
}
