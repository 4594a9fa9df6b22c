// The page "Joins in the browser" (docs/joins.md): what is typed goes to `proof.cases.run_to_json`, which Pyodide runs,
// and what comes back is shown. All that a user or a link gives is shown as text, never as markup.

const HOME = new URL("../joins/", import.meta.url);
const MAPPER = "value itself; null when the value is null or starts with 'n'";
const JOINS = {
  "stream-stream": ["KStream-KStream", ["inner", "left", "outer"]],
  "stream-table": ["KStream-KTable", ["inner", "left"]],
  "stream-globaltable": ["KStream-GlobalKTable", ["inner", "left"]],
  "table-table": ["KTable-KTable", ["inner", "left", "outer"]],
  "fk-table-table": ["KTable-KTable by foreign key", ["inner", "left"]],
  "three-way": ["Three KTables", ["inner", "left", "outer"]],
};
const THREE_WAY = `operator: three-way
type: inner
then: left

left a A @1
right a B @2
third a C @3
right a null @4
left b D @5
right b E @6
third a null @7
right a F @8
`;
const WINDOW = /^(-?\d+) ms before, (-?\d+) ms after, grace (\d+) ms$/;
const FACT = /^(\w+): (\S.*)$/;

const at = (name) => document.getElementById(`joins-${name}`);
const text = at("text");
let about = { pages: [], pyodide: false };
let run = null; // from the text of a case to its steps as JSON
let shown = null; // the last result
let chosen = 0; // the step whose state is shown

function made(tag, content = "", properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...[content].flat());
  return element;
}

/* ---- the case: its text is the only truth, all other inputs are read from it and write into it ---- */

function facts() {
  const lines = text.value.split("\n").map((line) => FACT.exec(line.trim()));
  return Object.fromEntries(lines.filter(Boolean).map((found) => [found[1], found[2]]));
}

function setFact(name, value) {
  const lines = text.value.split("\n");
  const found = lines.findIndex((line) => line.trim().startsWith(`${name}: `));
  if (found >= 0) lines[found] = `${name}: ${value}`;
  else lines.splice(lines.findLastIndex((line) => FACT.test(line.trim())) + 1, 0, `${name}: ${value}`);
  text.value = lines.join("\n");
}

function fill(select, options, value) {
  const known = options.some(([name]) => name === value);
  const all = known ? options : [...options, [value ?? "", value ? `${value} (as the case says)` : "—"]];
  select.replaceChildren(...all.map(([name, label]) => made("option", label, { value: name })));
  select.value = value ?? "";
}

function showFacts() {
  const { operator, type, then, window: span } = facts();
  fill(at("operator"), Object.entries(JOINS).map(([name, [label]]) => [name, label]), operator);
  const types = JOINS[operator]?.[1] ?? [];
  fill(at("type"), types.map((each) => [each, each]), type);
  fill(at("then"), types.map((each) => [each, each]), then);
  const lengths = WINDOW.exec(span ?? "");
  ["before", "after", "grace"].forEach((name, number) => {
    if (document.activeElement !== at(name)) at(name).value = lengths?.[number + 1] ?? "";
  });
  const wanted = { type: type !== undefined, then: operator === "three-way", window: operator === "stream-stream" };
  for (const label of document.querySelectorAll("#joins-form [data-fact]")) label.hidden = !wanted[label.dataset.fact];
}

function operatorChosen() {
  const wanted = at("operator").value;
  if (wanted === "three-way") return setCase(THREE_WAY);
  for (const page of about.pages)
    for (const [number, [, known]] of page.cases.entries())
      if (known.startsWith(`operator: ${wanted}\n`)) return setGolden(page.name, number + 1);
}

function windowChosen() {
  const [before, after, grace] = ["before", "after", "grace"].map((name) => parseInt(at(name).value, 10) || 0);
  setFact("window", `${before} ms before, ${after} ms after, grace ${Math.max(0, grace)} ms`);
  edited();
}

/* ---- links: #golden=page/section for a case of a golden page, #case=text for any other ---- */

function setGolden(name, number) {
  const found = about.pages.find((page) => page.name === name)?.cases[number - 1];
  if (!found) return false;
  text.value = found[1];
  at("golden").value = `${name}/${number}`;
  history.replaceState(null, "", `#golden=${name}/${number}`);
  refresh();
  return true;
}

function setCase(value) {
  text.value = value;
  edited();
}

function edited() {
  at("golden").value = "";
  history.replaceState(null, "", `#case=${encodeURIComponent(text.value)}`);
  refresh();
}

function fromAddress() {
  const [, kind, value] = /^#(golden|case)=(.*)$/s.exec(location.hash) ?? [];
  if (kind === "golden") {
    const [name, number] = value.split("/");
    if (setGolden(name, Number(number))) return;
  }
  if (kind === "case") {
    try {
      return setCase(decodeURIComponent(value));
    } catch {
      at("error").textContent = "The link is damaged: its case does not read. The first example is shown.";
    }
  }
  if (about.pages.length && !text.value) setGolden(about.pages[0].name, 2);
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    at("copied").textContent = "Copied.";
  } catch {
    at("copied").textContent = "The link stands in the address bar.";
  }
}

/* ---- results ---- */

function refresh() {
  at("copied").textContent = "";
  showFacts();
  if (!run) return;
  const found = JSON.parse(run(text.value));
  at("error").textContent = found.error ?? "";
  at("shown").hidden = Boolean(found.error) || !found.steps.length;
  if (at("shown").hidden) return;
  shown = found;
  chosen = Math.min(chosen, found.steps.length - 1);
  showTable();
  showState();
}

function resultCell(results, latest) {
  const differs = latest !== undefined && JSON.stringify(results) !== JSON.stringify(latest);
  const lines = results?.map(([key, value, ts]) => `${key} = ${value} @${ts}`) ?? ["the engine fails"];
  const content = lines.length ? lines.flatMap((line, number) => (number ? [made("br"), line] : [line])) : ["—"];
  const mark = differs ? [made("span", "≠ ", { title: "differs from the last release of Kafka Streams" })] : [];
  const names = [differs && "differs", !lines.length && "joins-none"].filter(Boolean);
  return made("td", [...mark, ...content], { className: names.join(" ") });
}

// On a phone the column of watersmeet comes first: of the others only one has room beside it.
function ordered(cells) {
  const own = shown.columns.findIndex((name) => name.includes("watersmeet"));
  if (own < 0 || !matchMedia("(max-width: 30em)").matches) return cells;
  return [cells[own], ...cells.filter((_, number) => number !== own)];
}

function showTable() {
  const heads = ["Step", "Record", ...ordered(shown.columns)].map((name) => made("th", name, { scope: "col" }));
  const rows = shown.steps.map(({ record: [topic, key, value, ts], results }, number) => {
    const button = made("button", String(number + 1), { type: "button", tabIndex: -1 });
    button.setAttribute("aria-label", `Step ${number + 1}: show the state after it`);
    const latest = shown.latest === null ? undefined : results[shown.latest];
    const cells = results.map((each) => resultCell(each, latest));
    const row = made("tr", [made("th", button, { scope: "row" }), made("td", `${topic} ${key} ${value} @${ts}`), ...ordered(cells)]);
    row.addEventListener("click", () => choose(number));
    return row;
  });
  at("table").replaceChildren(made("thead", made("tr", heads)), made("tbody", rows));
  const differ = shown.steps.filter(({ results }) => new Set(results.map((each) => JSON.stringify(each))).size > 1).length;
  at("legend").textContent =
    shown.columns.length === 1
      ? `${shown.columns[0]}: the same for all records.`
      : `${shown.columns.length} ways; they differ at ${differ} of ${shown.steps.length} records. ` +
        "Choose a step (click, or arrow keys) to see the state after it.";
}

function choose(number, focus = false) {
  chosen = Math.max(0, Math.min(number, shown.steps.length - 1));
  showState();
  if (focus) at("table").tBodies[0].rows[chosen].querySelector("button").focus();
}

function keyPressed(event) {
  const moves = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, Home: 0, End: shown.steps.length - 1 };
  if (!(event.key in moves)) return;
  event.preventDefault();
  choose(moves[event.key], true);
}

/* ---- state ---- */

function showState() {
  [...at("table").tBodies[0].rows].forEach((row, number) => {
    row.classList.toggle("chosen", number === chosen);
    const button = row.querySelector("button");
    button.tabIndex = number === chosen ? 0 : -1;
    button.setAttribute("aria-pressed", String(number === chosen));
  });
  const { record: [topic, key, value, ts], state } = shown.steps[chosen];
  at("step").textContent = `After step ${chosen + 1}, ${topic} ${key} ${value} @${ts}. New rows are bold and have a +; struck ones are gone.`;
  const before = chosen ? shown.steps[chosen - 1].state : state.map((each) => each && []);
  const groups = new Map();
  state.forEach((rows, number) => {
    const same = JSON.stringify([rows, before[number]]);
    groups.set(same, [...(groups.get(same) ?? []), number]);
  });
  at("state").replaceChildren(...[...groups.values()].map((numbers) => stateOf(numbers, state[numbers[0]], before[numbers[0]])));
}

function stateOf(numbers, rows, before) {
  const name = made("h3", numbers.map((number) => shown.generations[number]).join("; "));
  if (rows === null) return made("section", [name, made("p", "This operator's state is not shown.")]);
  const [now, then] = [rows, before].map((each) => each.map((row) => JSON.stringify(row)));
  const all = [...rows.map((row, n) => [row, then.includes(now[n]) ? "" : "new"]), ...before.filter((_, n) => !now.includes(then[n])).map((row) => [row, "gone"])];
  if (!all.length) return made("section", [name, made("p", "Nothing.", { className: "joins-none" })]);
  const signs = { new: "+ ", gone: "− ", "": "" };
  const lines = all.map(([[where, what, ...cells], change]) =>
    made("tr", [made("td", `${signs[change]}${where ? `${where} ${what}` : what}`), ...cells.map((cell) => made("td", String(cell)))], { className: change }),
  );
  const heads = ["", "key", "value", "ts"].map((head) => made("th", head, { scope: "col" }));
  const table = made("table", [made("thead", made("tr", heads)), made("tbody", lines)], { className: "joins-table" });
  return made("section", [name, table]);
}

/* ---- start ---- */

function listen() {
  let waits;
  text.addEventListener("input", () => {
    clearTimeout(waits);
    waits = setTimeout(edited, 250);
  });
  at("golden").addEventListener("change", () => {
    const [name, number] = at("golden").value.split("/");
    setGolden(name, Number(number));
  });
  at("operator").addEventListener("change", operatorChosen);
  for (const name of ["type", "then"])
    at(name).addEventListener("change", () => (setFact(name, at(name).value), edited()));
  for (const name of ["before", "after", "grace"]) at(name).addEventListener("input", windowChosen);
  at("form").addEventListener("submit", (event) => event.preventDefault());
  at("link").addEventListener("click", copyLink);
  at("table").addEventListener("keydown", keyPressed);
  window.addEventListener("hashchange", fromAddress);
}

function showExamples() {
  const groups = about.pages.map((page) => {
    const options = page.cases.map(([title], n) => made("option", `${title} – ${page.title}`, { value: `${page.name}/${n + 1}` }));
    return made("optgroup", options, { label: page.title });
  });
  at("golden").replaceChildren(made("option", "a case of your own", { value: "" }), ...groups);
}

async function python() {
  const { loadPyodide } = await import(new URL("pyodide.mjs", HOME).href);
  const [pyodide, packed] = await Promise.all([
    loadPyodide({ indexURL: HOME.href }),
    fetch(new URL("proof.zip", HOME)).then((answer) => answer.arrayBuffer()),
  ]);
  pyodide.FS.writeFile("/proof.zip", new Uint8Array(packed));
  pyodide.runPython("import sys; sys.path.insert(0, '/proof.zip')");
  return pyodide.pyimport("proof.cases").run_to_json;
}

async function start() {
  at("status").closest("#joins").hidden = false;
  try {
    about = await (await fetch(new URL("about.json", HOME))).json();
    listen();
    showExamples();
    fromAddress();
    if (!about.pyodide) {
      at("status").textContent =
        "This site was built without Python for the browser, so cases are not run here. To add it: install Node.js, which brings npm, and run make docs again.";
      return;
    }
    at("status").textContent = "Loading Python (13 MB)…";
    run = await python();
    at("status").textContent = "";
    refresh();
  } catch (problem) {
    at("status").textContent = `Python could not be loaded: ${problem.message}`;
  }
}

start();
