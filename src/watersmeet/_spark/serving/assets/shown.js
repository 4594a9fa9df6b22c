// What all parts of the page show with: elements, numbers, times. Texts of the query become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

// Numbers of rows are shown as the server writes them: JavaScript's would round those of 64 bits.
export const exactly = (name, value, context) =>
  typeof value === "number" && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;

const raw = (value) => (JSON.isRawJSON?.(value) ? value.rawJSON : value);

export function written(value) {
  const plain = raw(value);
  if (plain === null || plain === undefined) return "null";
  return typeof plain === "string" ? plain : JSON.stringify(value);
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function made(name, options = {}, ...inner) {
  const element = document.createElement(name);
  Object.assign(element, options);
  element.append(...inner);
  return element;
}

export function drawn(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [each, value] of Object.entries(attributes)) element.setAttribute(each, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

export const count = (value) => (value === null || value === undefined ? "not counted" : value.toLocaleString("en"));
export const bytes = (value) => {
  const unit = value >= 1e9 ? [1e9, "GB"] : value >= 1e6 ? [1e6, "MB"] : [1e3, "kB"];
  return `${(value / unit[0]).toFixed(1)} ${unit[1]}`;
};
export const seconds = (value) => {
  if (value < 120) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86400).toLocaleString("en")} days`;
};

// A picture of the server's, as an element of this page.
export function pictureOf(text) {
  return document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
}

const SHORT = 44; // characters that stand in one line, as a time does

export const isShort = (text) => text.length <= SHORT && !text.includes("\n");

// A table whose first column is text and whose others are numbers, unless they are said to be text, too.
export function fill(table, caption, heads, rows, { texts = 1 } = {}) {
  const cell = (tag, content, at) => {
    const text = content?.textContent ?? content;
    const kind = at >= texts ? "number" : typeof text === "string" && isShort(text) ? "short" : "";
    return made(tag, { className: kind }, content);
  };
  table.replaceChildren();
  if (rows.length === 0) return;
  if (caption) table.append(made("caption", { textContent: caption }));
  table.append(
    made("thead", {}, made("tr", {}, ...heads.map((text, at) => cell("th", text, at)))),
    made("tbody", {}, ...rows.map((row) => made("tr", {}, ...row.map((content, at) => cell("td", content, at))))),
  );
}
