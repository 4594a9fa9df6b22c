// The topology as it is drawn by the server, with the query's numbers beside its arrows and boxes.

import { bytes, count, drawn, pictureOf } from "./shown.js";
import { Viewport } from "./viewport.js";

const LABEL_WIDTH = 52; // of a number of millions
const HINT = "At an arrow: records since the start. In red: records dropped at the box. Point at a box to see its stores.";

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
  #ask; #place; #levels; #note; #viewport; #status = null; #kind = null; #arrows = []; #boxes = []; #over = -1;

  // at: elements by id; ask: the server
  constructor(at, ask) {
    [this.#ask, this.#place, this.#levels, this.#note] = [ask, at("topology"), at("levels"), at("topology-note")];
    this.#viewport = new Viewport(this.#place);
    at("zoom-in").addEventListener("click", () => this.#viewport.in());
    at("zoom-out").addEventListener("click", () => this.#viewport.out());
    at("fit").addEventListener("click", () => this.#viewport.fit());
    this.#levels.addEventListener("change", () => this.show(this.#status).catch(() => {}));
    this.#place.addEventListener("pointerover", (event) => this.#tell(event));
    this.#place.addEventListener("pointerleave", () => this.#tell(null));
    this.#place.addEventListener("click", (event) => { if (!this.#viewport.isDragged) this.#tell(event); });
  }

  // The user's nodes, or what they become: operators in levels.
  async show(status) {
    this.#status = status;
    const kind = this.#levels.checked ? "levels" : "picture";
    if (kind !== this.#kind) {
      const text = await (await this.#ask(kind === "levels" ? "topology.svg?levels" : "topology.svg")).text();
      if (kind !== (this.#levels.checked ? "levels" : "picture")) return; // it was switched meanwhile
      this.#draw(text);
      this.#kind = kind;
    }
    this.#count(this.#status[kind]);
  }

  #draw(text) {
    const picture = pictureOf(text);
    this.#viewport.show(picture);
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
    this.#boxes = rects.map((rect, at) => {
      const label = drawn("text", { class: "dropped", x: rect.right + 3, y: (rect.top + rect.bottom) / 2 + 4 }, "");
      picture.append(label);
      const title = boxes[at].querySelector("title");
      return { box: boxes[at], label, rect, title, about: title.textContent };
    });
    this.#over = -1;
  }

  #count(picture) {
    this.#arrows.forEach((arrow, at) => {
      const now = picture.arrows[at];
      arrow.label.textContent = now === null ? "" : count(now);
      arrow.path.classList.toggle("moves", arrow.last !== null && now > arrow.last);
      arrow.last = now;
    });
    this.#boxes.forEach(({ label, title, about }, at) => {
      label.textContent = picture.drops[at] ? `−${count(picture.drops[at])}` : "";
      const stores = picture.stores[at].map((name) => {
        const table = this.#status.tables[name];
        return table === undefined ? `store ${name}` : `store ${name}: ${count(table.rows)} rows, ${bytes(table.bytes)}`;
      });
      // the picture names the stores, too, without their rows
      const named = picture.stores[at].map((name) => `; ${name}`).join("");
      title.textContent = [about.slice(0, about.length - named.length), ...stores].join("; ");
    });
    this.#say();
  }

  // What the pointer is at, in the line below the picture.
  #tell(event) {
    const box = event?.target.closest?.("g.box") ?? null;
    this.#over = this.#boxes.findIndex((each) => each.box === box);
    this.#boxes.forEach((each, at) => each.box.classList.toggle("over", at === this.#over));
    this.#say();
  }

  #say() {
    const text = this.#boxes[this.#over]?.title.textContent ?? HINT;
    if (this.#note.textContent !== text) this.#note.textContent = text;
  }

  // Mark the boxes of a node, and have the first one seen.
  mark(node) {
    const nodes = this.#status[this.#kind].nodes;
    this.#boxes.forEach(({ box }, at) => box.classList.toggle("marked", nodes[at].includes(node)));
    const first = this.#boxes.find((each, at) => nodes[at].includes(node));
    if (first !== undefined) this.#viewport.reveal(first.rect);
  }
}
