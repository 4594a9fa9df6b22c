// The page of a query: it asks for /status, draws the topology once, and shows a table as it changes.
// All that comes from the query is set as text, never as markup.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const PAGE_ROWS = 50, MOST_ROWS = 10000, KEPT_BATCHES = 60;
const LABEL_WIDTH = 52; // of a number of millions
const LONG_SECONDS = 30; // then a batch may hang
const LOOK_MS = 1000, HIDDEN_MS = 10000, AGAIN_MS = 2000;

// -- asking ------------------------------------------------------------------------------------------------------

class Refused extends Error {}

class Failed extends Error {
  constructor(message, status) {
    super(message);
    this.mayPass = status >= 500;
  }
}

let token = sessionStorage.getItem("watersmeet-token");
let admitted = null;

async function ask(path, signal) {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  const answer = await fetch(path, { headers, signal, cache: "no-store" });
  if (answer.status === 401) {
    await login();
    throw new Refused();
  }
  if (!answer.ok) {
    const text = await answer.text();
    let said = text;
    try { said = JSON.parse(text).error ?? text; } catch { /* it is no JSON */ }
    throw new Failed(said, answer.status);
  }
  return answer;
}

function login() {
  if (admitted === null) {
    $("refused").textContent = token === null ? "" : "This token is wrong.";
    $("main").hidden = true;
    $("login").hidden = false;
    setState("a token is needed", "bad");
    $("token").focus();
    admitted = Promise.withResolvers ? Promise.withResolvers() : withResolvers();
  }
  return admitted.promise;
}

function withResolvers() {
  const made = {};
  made.promise = new Promise((resolve) => { made.resolve = resolve; });
  return made;
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem("watersmeet-token", token);
  $("token").value = "";
  $("login").hidden = true;
  admitted?.resolve();
  admitted = null;
});

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Numbers of rows are shown as the server writes them: JavaScript's would round those of 64 bits.
const exactly = (name, value, context) =>
  typeof value === "number" && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;

// -- showing -----------------------------------------------------------------------------------------------------

function made(name, options = {}, ...inner) {
  const element = document.createElement(name);
  Object.assign(element, options);
  element.append(...inner);
  return element;
}

function drawn(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [each, value] of Object.entries(attributes)) element.setAttribute(each, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const count = (value) => (value === null || value === undefined ? "not counted" : value.toLocaleString("en"));
const bytes = (value) => {
  const unit = value >= 1e9 ? [1e9, "GB"] : value >= 1e6 ? [1e6, "MB"] : [1e3, "kB"];
  return `${(value / unit[0]).toFixed(1)} ${unit[1]}`;
};
const seconds = (value) => {
  if (value < 120) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86400).toLocaleString("en")} days`;
};

function setState(text, kind) {
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").className = kind;
}

// A table whose first column is text and whose others are numbers.
function fill(id, caption, heads, rows) {
  const table = $(id);
  const cell = (tag, text, at) => made(tag, { className: at ? "number" : "", textContent: text });
  table.replaceChildren();
  if (rows.length === 0) return;
  if (caption) table.append(made("caption", { textContent: caption }));
  table.append(
    made("thead", {}, made("tr", {}, ...heads.map((text, at) => cell("th", text, at)))),
    made("tbody", {}, ...rows.map((row) => made("tr", {}, ...row.map((text, at) => cell("td", text, at))))),
  );
}

function tiles(status) {
  const sum = (found) => Object.values(found).reduce((all, each) => all + each, 0);
  const lag = Object.values(status.lag).reduce((all, parts) => all + sum(parts), 0);
  const dropped = status.drops.reduce((all, each) => all + each.records, 0);
  const letters = status.dead_letters.reduce((all, each) => all + (each.records ?? 0), 0);
  const behind = Math.max(...Object.values(status.stream_time_lag_ms));
  const batch = status.batch;
  const found = [
    ["Batch", batch === null ? "none yet" : count(batch.number)],
    ["Records", count(sum(status.consumed))],
    ["Records/s", batch === null ? "–" : count(Math.round(status.rate))],
    ["Batch time", batch === null ? "–" : seconds(batch.seconds.triggerExecution ?? 0)],
    ["Lag, records", count(lag)],
    ["Behind the clock", Number.isFinite(behind) ? seconds(behind / 1000) : "–"],
    ["Dropped", count(dropped), dropped > 0],
    ["Dead letters", count(letters), letters > 0],
  ];
  $("tiles").replaceChildren(
    ...found.map(([name, value, bad]) =>
      made("div", { className: bad ? "bad" : "" }, made("dt", { textContent: name }), made("dd", { textContent: value }))),
  );
}

const kept = [];

function batches(status) {
  const batch = status.batch;
  if (batch === null) return;
  const whole = batch.seconds.triggerExecution ?? 0;
  if (kept.at(-1)?.number !== batch.number) kept.push({ number: batch.number, whole, records: 0 });
  kept.splice(0, Math.max(0, kept.length - KEPT_BATCHES));
  const most = Math.max(...kept.map((each) => each.whole), 0.001);
  const width = 300 / KEPT_BATCHES;
  const bars = kept.map((each, at) => {
    const height = Math.max(1, (each.whole / most) * 56);
    const bar = drawn("rect", { x: at * width, y: 60 - height, width: width - 1, height });
    bar.append(drawn("title", {}, `batch ${each.number}: ${seconds(each.whole)}`));
    return bar;
  });
  $("bars").replaceChildren($("bars").querySelector("title"), ...bars);
  const parts = Object.entries(batch.seconds).sort((one, other) => other[1] - one[1]);
  fill("parts", `Batch ${batch.number}, by part`, ["part", "time"], parts.map(([name, value]) => [name, seconds(value)]));
}

function lists(status) {
  fill("sources", "", ["source", "records", "behind the clock"], Object.entries(status.consumed).map(([name, records]) => {
    const late = status.stream_time_lag_ms[name];
    return [name, count(records), late === undefined ? "–" : seconds(late / 1000)];
  }));
  const lag = Object.entries(status.lag).flatMap(([topic, parts]) =>
    Object.entries(parts).map(([part, records]) => [`${topic}, partition ${part}`, count(records)]));
  fill("lag", "To be read", ["topic", "records"], lag);
  fill("stores", "", ["store", "rows", "size"], Object.entries(status.tables).map(([name, found]) =>
    [name, count(found.rows), bytes(found.bytes)]));
  fill("outputs", "", ["output", "records"], Object.entries(status.produced).map(([name, records]) => [name, count(records)]));
  const drops = status.drops.map((each) => [`${each.operator}: ${each.reason}`, count(each.records)]);
  fill("drops", "", ["operator, reason", "records"], drops.length ? drops : [["none", "0"]]);
  fill("letters", "Dead letters", ["topic, of", "records"], status.dead_letters.map((each) =>
    [each.of ? `${each.topic}, of ${each.of}` : each.topic, count(each.records)]));
  const { watersmeet, spark } = status.versions;
  $("about").textContent =
    `checkpoint ${status.checkpoint} · watersmeet ${watersmeet} · Spark ${spark} · stores of Spark ` +
    `${bytes(status.state_bytes)} · largest worker ${bytes(status.worker_bytes)}`;
}

// -- the topology ------------------------------------------------------------------------------------------------

let labels = null;

async function draw() {
  const text = await (await ask("topology.svg")).text();
  const picture = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  $("topology").replaceChildren(picture);
  const rects = [...picture.querySelectorAll("g.box > rect")].map((box) => {
    const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
    return { left: x, right: x + width, top: y, bottom: y + height };
  });
  const taken = [...rects];
  const arrows = [...picture.querySelectorAll("path.arrow")].map((path) => {
    const label = drawn("text", { class: "count", ...freePlace(path, taken) }, "");
    picture.append(label);
    return { path, label, last: null };
  });
  const boxes = rects.map(({ right, top }) => {
    const label = drawn("text", { class: "dropped", x: right, y: top - 4, "text-anchor": "end" }, "");
    picture.append(label);
    return label;
  });
  labels = { arrows, boxes };
}

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

function counts(picture) {
  labels.arrows.forEach((arrow, at) => {
    const now = picture.arrows[at];
    arrow.label.textContent = now === null ? "" : count(now);
    arrow.path.classList.toggle("moves", arrow.last !== null && now > arrow.last);
    arrow.last = now;
  });
  labels.boxes.forEach((label, at) => {
    label.textContent = picture.drops[at] ? `−${count(picture.drops[at])}` : "";
  });
}

// -- a table -----------------------------------------------------------------------------------------------------

const view = { schemas: new Map(), table: null, key: "", limit: PAGE_ROWS, shown: new Map(), watch: null, loads: 0 };

const raw = (value) => (JSON.isRawJSON?.(value) ? value.rawJSON : value);

function written(value) {
  const plain = raw(value);
  if (plain === null || plain === undefined) return "null";
  return typeof plain === "string" ? plain : JSON.stringify(value);
}

function columns() {
  const fields = view.schemas.get(view.table).fields;
  return fields.flatMap((field) => {
    if (field.name !== "value" || field.type?.type !== "struct") return [{ name: field.name, of: (row) => row[field.name] }];
    const inner = field.type.fields.map((each) => ({ name: each.name, of: (row) => row.value?.[each.name] ?? null }));
    return inner.length ? inner : [{ name: "value", of: (row) => row.value }];
  });
}

function show(answer) {
  const shape = columns();
  const before = view.shown;
  view.shown = new Map();
  const rows = answer.rows.map((row) => {
    const { value, timestamp, ...identity } = row;
    const name = JSON.stringify(identity);
    const texts = shape.map((column) => written(column.of(row)));
    const old = before.get(name);
    view.shown.set(name, texts);
    return made("tr", {}, ...texts.map((text, at) => {
      const fresh = before.size > 0 && old?.[at] !== text;
      const cell = made("td", { className: fresh ? "fresh" : "" });
      cell.classList.toggle("time", shape[at].name === "timestamp");
      if (shape[at].name === "key") {
        cell.append(made("button", { type: "button", className: "key", textContent: text, onclick: () => search(view.table, text) }));
      } else cell.textContent = text;
      return cell;
    }));
  });
  $("rows").replaceChildren(
    made("thead", {}, made("tr", {}, ...shape.map((column) => made("th", { scope: "col", textContent: column.name })))),
    made("tbody", {}, ...rows),
  );
  const which = view.key === "" ? `${count(rows.length)} rows${answer.next === null ? "" : " and more"}`
    : rows.length ? `${count(rows.length)} row${rows.length > 1 ? "s" : ""} of this key` : "The table has no row of this key";
  $("answer").textContent = `${which}, as of batch ${written(answer.batch)}.`;
  $("more").hidden = answer.next === null || view.limit >= MOST_ROWS;
}

// Whether the question is answered, or will not be: false where it may be later, as when the tables are yet to be read.
async function load(signal) {
  const number = ++view.loads;
  const asked = view.key === "" ? `limit=${view.limit}` : `key=${encodeURIComponent(view.key)}`;
  try {
    const text = await (await ask(`tables/${encodeURIComponent(view.table)}?${asked}`, signal)).text();
    if (number === view.loads) show(JSON.parse(text, exactly));
  } catch (error) {
    if (signal.aborted || !(error instanceof Failed)) throw error;
    if (number !== view.loads) return true;
    $("rows").replaceChildren();
    $("more").hidden = true;
    $("answer").textContent = error.message;
    return !error.mayPass;
  }
  return true;
}

async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split("\n\n");
    rest = pieces.pop();
    for (const piece of pieces) {
      const event = /^event: (.*)$/m.exec(piece);
      if (event) yield event[1];
    }
  }
}

// The rows are asked for again when a batch has changed the table: so windows, ranges and versions are as they are.
async function watch(signal) {
  while (!signal.aborted) {
    try {
      const answer = await ask(`changes?table=${encodeURIComponent(view.table)}`, signal);
      while (!(await load(signal))) await pause(AGAIN_MS);
      let changed = false;
      for await (const event of eventsOf(answer)) {
        changed ||= event === "rows";
        if (event === "batch" && changed) {
          changed = false;
          await load(signal);
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refused)) $("answer").textContent = error.message;
    }
    await pause(AGAIN_MS);
  }
}

function search(table, key) {
  Object.assign(view, { table, key, limit: PAGE_ROWS, shown: new Map() });
  $("table").value = table;
  $("key").value = key;
  history.replaceState(null, "", `#${new URLSearchParams({ table, key })}`);
  view.watch?.abort();
  view.watch = new AbortController();
  watch(view.watch.signal);
}

$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search($("table").value, $("key").value);
});
$("table").addEventListener("change", () => search($("table").value, ""));
$("more").addEventListener("click", () => {
  view.limit = Math.min(MOST_ROWS, view.limit * 4);
  load(view.watch.signal).catch(() => {});
});

async function tables() {
  const found = (await (await ask("tables")).json()).tables;
  for (const each of found) view.schemas.set(each.name, each.schema);
  $("table").replaceChildren(...found.map((each) => made("option", { value: each.name, textContent: each.name })));
  const wanted = new URLSearchParams(location.hash.slice(1));
  const table = view.schemas.has(wanted.get("table")) ? wanted.get("table") : found[0].name;
  search(table, (table === wanted.get("table") && wanted.get("key")) || "");
}

// -- the query ---------------------------------------------------------------------------------------------------

function showStatus(status) {
  $("query").textContent = status.query;
  document.title = `${status.query} · watersmeet`;
  if (status.error !== null) setState("failed", "bad");
  else if (!status.active) setState("ended", "bad");
  else if (status.under_way_seconds > LONG_SECONDS) setState(`running, a batch for ${seconds(status.under_way_seconds)}`, "good");
  else setState("running", "good");
  const error = status.error ?? status.served.error;
  $("error").hidden = error === null;
  if (error !== null && $("whole").textContent !== error) {
    $("reason").textContent = status.reason ?? error.split("\n")[0];
    $("whole").textContent = error;
  }
  tiles(status);
  batches(status);
  lists(status);
  $("main").hidden = false;
}

async function follow() {
  for (;;) {
    try {
      const status = await (await ask("status")).json();
      showStatus(status);
      if (labels === null) await draw();
      counts(status.picture);
      if (view.table === null) await tables();
    } catch (error) {
      if (error instanceof Refused) continue;
      setState("not reachable: the numbers below are the last ones", "bad");
      console.debug(error);
    }
    await pause(document.hidden ? HIDDEN_MS : LOOK_MS);
  }
}

follow();
