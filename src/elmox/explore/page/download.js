// Figures as files: SVG and PNG as they are drawn, CSV of the numbers behind them.

const STYLES = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity"],
  ...["font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline"],
];
const PNG_SCALE = 2;

// The picture by itself: style sheets do not travel with a file, so computed styles become attributes.
export function svgText(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["style", "class", "tabindex"]) element.removeAttribute(name);
  });
  for (const element of copy.querySelectorAll("[data-screen-only]")) element.remove();
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const background = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  background.setAttribute("width", "100%");
  background.setAttribute("height", "100%");
  background.setAttribute("fill", getComputedStyle(document.documentElement).getPropertyValue("--card"));
  copy.prepend(background);
  return new XMLSerializer().serializeToString(copy);
}

export function downloadSvg(svg, name) {
  save(new Blob([svgText(svg)], { type: "image/svg+xml" }), `${name}.svg`);
}

export async function downloadPng(svg, name) {
  const { width, height } = svg.getBoundingClientRect();
  const image = new Image(width, height);
  image.src = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * PNG_SCALE;
  canvas.height = height * PNG_SCALE;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (blob === null) throw new Error("The browser could not draw this picture.");
  save(blob, `${name}.png`);
}

// Rows of strings and numbers; the first row is the heading.
export function downloadCsv(rows, name) {
  const cell = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  const text = rows.map((row) => row.map(cell).join(",")).join("\r\n");
  save(new Blob([`${text}\r\n`], { type: "text/csv" }), `${name}.csv`);
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
