// Small line charts of the last minutes.

import { h } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 240;
const HEIGHT = 40;

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** A tile with a name, its present value in words, and one or two lines. */
export class Tile {
  constructor(name) {
    this.value = h("strong", {}, "–");
    this.most = h("span", { class: "most" });
    this.drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true", class: "spark" });
    this.lines = ["second", "first"].map((kind) => this.drawing.appendChild(svg("polyline", { class: kind, points: "" })));
    this.element = h("div", { class: "tile" }, h("span", { class: "name" }, name), this.value, this.drawing, this.most);
  }

  /** `lines`: numbers from the oldest to the newest, null where there are none. */
  draw(text, lines, unit) {
    if (this.value.textContent !== text) this.value.textContent = text;
    const most = Math.max(...lines.flat().filter((value) => value !== null), 0);
    const label = most ? `most ${unit(most)}` : "";
    if (this.most.textContent !== label) this.most.textContent = label;
    this.lines.forEach((line, place) => line.setAttribute("points", points(lines[1 - place] ?? [], most)));
  }
}

function points(values, most) {
  const step = WIDTH / Math.max(values.length - 1, 1);
  return values
    .map((value, place) => (value === null ? null : `${(place * step).toFixed(1)},${(HEIGHT - 2 - (most ? value / most : 0) * (HEIGHT - 4)).toFixed(1)}`))
    .filter(Boolean)
    .flatMap((point) => [point, point]) // a point by itself is a dot
    .join(" ");
}
