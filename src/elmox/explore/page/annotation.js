// A sentence with what a task model found in it, in one line: a tag under each word, labeled spans, or
// the arcs of a dependency tree.

import { html } from "./vendor/preact/standalone.js";
import { visible } from "./tokenize.js";

const FONT = "15px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const SMALL_FONT = FONT.replace("15px", "12px");
const GAP = 18; // between words
const ARC_GAP = 34; // the same under arcs, so that their labels have room
const LEVEL = 30; // height of one level of arcs
const SPAN_ROW = 26;
const NUM_COLORS = 6;

// A tag under each word.
export function TaggedWords({ tokens, tags, label }) {
  const words = tokens.map(visible);
  const { places, total } = spread(words, (i) => Math.max(textWidth(words[i], FONT), textWidth(tags[i], SMALL_FONT)), GAP);
  const colors = colorsOf(tags);
  return html`<${Line} width=${total} height=${58} label=${label}>
    ${words.map((word, i) => html`<text class="word" x=${places[i].middle} y="20" text-anchor="middle">${word}</text>
      <rect class=${`tag ${colors(tags[i])}`} x=${places[i].start - 5} y="30" width=${places[i].end - places[i].start + 10} height="20" rx="4" />
      <text class="label" x=${places[i].middle} y="44" text-anchor="middle">${tags[i]}</text>`)}
  <//>`;
}

// Labeled spans under the words. spans: [{start, end, label}], `end` is after the last word; they may be
// next to each other or over each other.
export function LabeledSpans({ tokens, spans, label, marked = -1 }) {
  const words = tokens.map(visible);
  const needed = words.map((word) => textWidth(word, FONT));
  for (const span of spans) {
    // A label that is wider than its words makes room below the first of them.
    const width = needed.slice(span.start, span.end).reduce((sum, value) => sum + value + GAP, -GAP);
    needed[span.start] += Math.max(0, textWidth(span.label, SMALL_FONT) + 8 - width);
  }
  const { places, total } = spread(words, (i) => needed[i], GAP);
  const rows = rowsOf(spans);
  const colors = colorsOf(spans.map((span) => span.label));
  return html`<${Line} width=${total} height=${34 + SPAN_ROW * Math.max(1, ...rows.map((row) => row + 1))} label=${label}>
    ${words.map((word, i) => html`<text class=${i === marked ? "word marked" : "word"} x=${places[i].start} y="20">${word}</text>`)}
    ${spans.map((span, k) => {
      const [x, end] = [places[span.start].start - 4, places[span.end - 1].end + 4];
      const y = 30 + rows[k] * SPAN_ROW;
      return html`<rect class=${`tag ${colors(span.label)}`} x=${x} y=${y} width=${end - x} height="20" rx="4" />
        <text class="label" x=${(x + end) / 2} y=${y + 14} text-anchor="middle">${span.label}</text>`;
    })}
  <//>`;
}

// The arcs of a dependency tree above the words. heads: the number of each word's head, from 1; 0 is the root.
export function Dependencies({ tokens, heads, labels, label }) {
  const words = tokens.map(visible);
  const { places, total } = spread(words, (i) => Math.max(textWidth(words[i], FONT), 26), ARC_GAP);
  const arcs = heads.map((head, i) => ({ from: head - 1, to: i, label: labels[i] })).filter(({ from }) => from >= 0);
  const levels = levelsOf(arcs);
  const base = 24 + LEVEL * Math.max(1, ...levels);
  return html`<${Line} width=${total} height=${base + 34} label=${label}>
    ${arcs.map((arc, k) => {
      const side = arc.to > arc.from ? 1 : -1;
      // Arcs that start at the same word do not start at the same point.
      const start = places[arc.from].middle + side * 5;
      const end = places[arc.to].middle - side * (heads.filter((head) => head - 1 === arc.to).length > 0 ? 2 : 0);
      const y = base - LEVEL * levels[k];
      const bend = Math.min(LEVEL * levels[k], Math.abs(end - start) / 3);
      const path = `M${start} ${base}C${start + side * 2} ${y} ${start + side * bend * 0.4} ${y} ${start + side * bend} ${y}` +
        `L${end - side * bend} ${y}C${end - side * bend * 0.4} ${y} ${end - side * 2} ${y} ${end} ${base - 4}`;
      const middle = (start + end) / 2;
      const half = textWidth(arc.label, SMALL_FONT) / 2 + 3;
      return html`<path class="arc" d=${path} />
        <path class="arrow" d=${`M${end} ${base + 2}l-4 -8h8z`} />
        <rect class="behind" x=${middle - half} y=${y - 8} width=${2 * half} height="16" />
        <text class="label" x=${middle} y=${y + 4} text-anchor="middle">${arc.label}</text>`;
    })}
    ${words.map((word, i) => html`<text class=${heads[i] === 0 ? "word marked" : "word"} x=${places[i].middle} y=${base + 22} text-anchor="middle">${word}</text>`)}
  <//>`;
}

function Line({ width, height, label, children }) {
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${label}>
    <svg class="annotation" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}>${children}</svg>
  </div>`;
}

// Words next to each other: {places: [{start, middle, end}], total}.
function spread(words, widthOf, gap) {
  let x = gap / 2;
  const places = words.map((_, i) => {
    const start = x;
    const end = start + widthOf(i);
    x = end + gap;
    return { start, middle: (start + end) / 2, end };
  });
  return { places, total: Math.ceil(x) };
}

// The level of each arc: above all the arcs that it spans.
function levelsOf(arcs) {
  const bounds = arcs.map(({ from, to }) => [Math.min(from, to), Math.max(from, to)]);
  const byLength = arcs.map((_, k) => k).sort((a, b) => bounds[a][1] - bounds[a][0] - (bounds[b][1] - bounds[b][0]));
  const levels = [];
  for (const k of byLength) {
    const [left, right] = bounds[k];
    const below = byLength.filter((j) => levels[j] !== undefined && bounds[j][0] < right && bounds[j][1] > left);
    levels[k] = 1 + Math.max(0, ...below.map((j) => levels[j]));
  }
  return levels;
}

// The first row in which each span overlaps with no earlier one.
function rowsOf(spans) {
  const rows = [];
  spans.forEach((span, k) => {
    let row = 0;
    const overlaps = (other, j) => rows[j] === row && other.start < span.end && span.start < other.end;
    while (spans.slice(0, k).some(overlaps)) row++;
    rows.push(row);
  });
  return rows;
}

// A color per label, in the order in which labels occur.
function colorsOf(labels) {
  const distinct = [...new Set(labels)];
  return (label) => `color-${distinct.indexOf(label) % NUM_COLORS}`;
}

let canvas = null;

function textWidth(text, font) {
  canvas ??= document.createElement("canvas").getContext("2d");
  canvas.font = font;
  return Math.ceil(canvas.measureText(text).width);
}
