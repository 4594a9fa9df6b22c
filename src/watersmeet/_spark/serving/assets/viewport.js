// A picture of the server's that fits its place. It can be zoomed and dragged; shades at the edges say that it goes on.

const LEAST_FIT = 0.7, MOST_SCALE = 4, STEP = 1.25, KEY_PIXELS = 60, DRAG_PIXELS = 4;

export class Viewport {
  #place; #picture = null; #width = 0; #height = 0; #view = { scale: 1, x: 0, y: 0 }; #isFit = true;
  #pointers = new Map(); #moved = 0;

  constructor(place) {
    this.#place = place;
    place.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    place.addEventListener("pointerdown", (event) => this.#press(event));
    place.addEventListener("pointermove", (event) => this.#drag(event));
    for (const name of ["pointerup", "pointercancel"]) {
      place.addEventListener(name, (event) => this.#pointers.delete(event.pointerId));
    }
    place.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => { if (this.#isFit) this.fit(); else this.#apply(); }).observe(place);
  }

  // picture: an element that stands nowhere yet, with a size of its own
  show(picture) {
    const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
    [this.#picture, this.#width, this.#height] = [picture, width, height];
    picture.setAttribute("width", "100%");
    picture.setAttribute("height", "100%");
    this.#place.replaceChildren(picture);
    this.fit();
  }

  // The whole picture, unless its texts became too small to read: then its upper part.
  fit() {
    if (this.#picture === null || this.#place.clientWidth === 0) return;
    const [most, edges] = [0.7 * window.innerHeight, this.#place.offsetHeight - this.#place.clientHeight];
    const scale = Math.max(LEAST_FIT, Math.min(1, this.#place.clientWidth / this.#width, most / this.#height));
    const height = Math.min(this.#height * scale, most);
    this.#place.style.height = `${Math.ceil(height) + edges}px`;
    this.#isFit = true;
    this.#view = { scale, x: (this.#width - this.#place.clientWidth / scale) / 2, y: 0 };
    this.#apply();
  }

  zoom(factor, at = { x: this.#place.clientWidth / 2, y: this.#place.clientHeight / 2 }) {
    const { scale, x, y } = this.#view;
    const next = Math.min(MOST_SCALE, Math.max(0.1, scale * factor));
    this.#isFit = false;
    // what is below the pointer stays there
    this.#view = { scale: next, x: x + at.x / scale - at.x / next, y: y + at.y / scale - at.y / next };
    this.#apply();
  }

  in() { this.zoom(STEP); }

  out() { this.zoom(1 / STEP); }

  // Move so that a part of the picture, in its own units, is in the middle, if it is not in sight.
  reveal({ left, right, top, bottom }) {
    const { scale, x, y } = this.#view;
    const [width, height] = [this.#place.clientWidth / scale, this.#place.clientHeight / scale];
    if (left >= x && right <= x + width && top >= y && bottom <= y + height) return;
    this.#view = { scale, x: (left + right - width) / 2, y: (top + bottom - height) / 2 };
    this.#isFit = false;
    this.#apply();
  }

  // Whether the pointer that was pressed last has dragged the picture: then its release is no click.
  get isDragged() { return this.#moved > DRAG_PIXELS; }

  #apply() {
    if (this.#picture === null) return;
    const view = this.#view;
    const [width, height] = [this.#place.clientWidth / view.scale, this.#place.clientHeight / view.scale];
    // what is smaller than its place stands in the middle, what is larger leaves no empty edge
    const within = (at, shown, whole) => (shown >= whole ? (whole - shown) / 2 : Math.min(Math.max(at, 0), whole - shown));
    [view.x, view.y] = [within(view.x, width, this.#width), within(view.y, height, this.#height)];
    this.#picture.setAttribute("viewBox", `${view.x} ${view.y} ${width} ${height}`);
    const cut = {
      left: view.x > 1, right: view.x + width < this.#width - 1, top: view.y > 1, bottom: view.y + height < this.#height - 1,
    };
    this.#place.dataset.cut = Object.keys(cut).filter((side) => cut[side]).join(" ");
  }

  #move(right, down) {
    const { scale, x, y } = this.#view;
    this.#view = { scale, x: x - right / scale, y: y - down / scale };
    this.#isFit = false;
    this.#apply();
  }

  #at(event) {
    const { left, top } = this.#place.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  // A wheel alone scrolls the page.
  #wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? STEP : 1 / STEP, this.#at(event));
  }

  #press(event) {
    if (event.button !== 0) return;
    this.#pointers.set(event.pointerId, this.#at(event));
    this.#moved = 0;
  }

  #drag(event) {
    const last = this.#pointers.get(event.pointerId);
    if (last === undefined) return;
    const now = this.#at(event);
    this.#moved += Math.hypot(now.x - last.x, now.y - last.y);
    if (!this.isDragged) return;
    this.#place.setPointerCapture(event.pointerId);
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.#pointers.set(event.pointerId, now);
    if (other === undefined) this.#move(now.x - last.x, now.y - last.y);
    else {
      const apart = (one) => Math.max(1, Math.hypot(one.x - other.x, one.y - other.y));
      this.zoom(apart(now) / apart(last), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
    }
  }

  #key(event) {
    const moves = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const calls = { "+": () => this.in(), "-": () => this.out(), 0: () => this.fit() };
    if (event.key in moves) this.#move(...moves[event.key].map((step) => step * KEY_PIXELS));
    else if (event.key in calls && !event.ctrlKey && !event.metaKey) calls[event.key]();
    else return;
    event.preventDefault();
  }
}
