// The topology as it is drawn by the server, with the query's numbers beside its arrows and boxes.

import { count, drawn, pictureOf } from "./shown.js";

const LABEL_WIDTH = 52; // of a number of millions

// Beside an arrow, where no box is and no other label; what is taken is noted.
function freePlace(path, taken) {
  const places = [0.5, 0.3, 0.7, 0.2, 0.8].flatMap((part) => {
    const { x, y } = path.getPointAtLength(path.getTotalLength() * part);
    const [top, bottom] = [y - 7, y + 7];
    return [
      { rect: { left: x + 4, right: x + 4 + LABEL_WIDTH, top, bottom }, x: x + 5, y: y + 4, "text-anchor": "start" },
      { rect: { left: x - 4 - LABEL_WIDTH, right: x - 4, top, bottom }, x: x - 5, y: y + 4, "text-anchor": "end" },
    ];
  });
  const meets = (one, other) =>
    one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
  const { rect, ...place } = places.find((each) => !taken.some((other) => meets(each.rect, other))) ?? places[0];
  taken.push(rect);
  return place;
}


export class Topology {
  #place; #arrows = null; #boxes = []; #nodes = [];

  constructor(place) { this.#place = place; }

  get isDrawn() { return this.#arrows !== null; }

  draw(text) {
    const picture = pictureOf(text);
    this.#place.replaceChildren(picture);
    const boxes = [...picture.querySelectorAll("g.box")];
    const rects = boxes.map((box) => {
      const rect = box.querySelector("rect");
      const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(rect.getAttribute(name)));
      return { left: x, right: x + width, top: y, bottom: y + height };
    });
    const taken = [...rects];
    this.#arrows = [...picture.querySelectorAll("path.arrow")].map((path) => {
      const label = drawn("text", { class: "count", ...freePlace(path, taken) }, "");
      picture.append(label);
      return { path, label, last: null };
    });
    this.#boxes = rects.map(({ right, top }, at) => {
      const label = drawn("text", { class: "dropped", x: right, y: top - 4, "text-anchor": "end" }, "");
      picture.append(label);
      return { box: boxes[at], label };
    });
  }

  show(picture) {
    this.#nodes = picture.nodes;
    this.#arrows.forEach((arrow, at) => {
      const now = picture.arrows[at];
      arrow.label.textContent = now === null ? "" : count(now);
      arrow.path.classList.toggle("moves", arrow.last !== null && now > arrow.last);
      arrow.last = now;
    });
    this.#boxes.forEach(({ label }, at) => {
      label.textContent = picture.drops[at] ? `−${count(picture.drops[at])}` : "";
    });
  }

  // Mark the boxes of a node, and have the first one seen.
  mark(node) {
    this.#boxes.forEach(({ box }, at) => box.classList.toggle("marked", this.#nodes[at] === node));
    this.#boxes.find((each, at) => this.#nodes[at] === node)?.box.scrollIntoView({ block: "nearest" });
  }
}
