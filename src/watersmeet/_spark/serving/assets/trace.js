// The way of a record through the topology: what comes to each operator, and its stores before and after.

import { exactly, fill, made, written } from "./shown.js";

const HEADS = ["operator", "what", "before", "after"];

export class Trace {
  #at; #host; #place = "";

  // at: elements by id; host: where the page is
  constructor(at, host) {
    [this.#at, this.#host] = [at, host];
    at("trace-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.show(at("record").value.trim());
    });
    at("test-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask(this.#place, at("test-topology").value.trim(), (said) => save(this.#place, said.test));
    });
  }

  // isThere: whether the query has a journal
  open(isThere) { this.#at("trace").hidden = !isThere; }

  async show(place) {
    const at = this.#at;
    at("record").value = place;
    at("trace-steps").replaceChildren();
    at("test-form").hidden = true;
    await this.#ask(place, null, (said) => {
      this.#place = said.record.place;
      fill(at("trace-steps"), "", HEADS, [...said.steps.flatMap(rowsOfStep), ...rowsOfOutputs(said.outputs)], { texts: 4 });
      at("trace-note").textContent = `${this.#place}  ${written(said.record.key)}: ${written(said.record.value)}`;
      at("test-form").hidden = false;
    });
    at("trace").scrollIntoView({ block: "nearest" });
  }

  async #ask(place, topology, use) {
    const [note, buttons] = [this.#at("trace-note"), [this.#at("trace-button"), this.#at("test-button")]];
    const before = note.textContent;
    note.textContent = "The server is reading the journal.";
    for (const button of buttons) button.disabled = true;
    try {
      const asked = topology === null ? "" : `?test=${encodeURIComponent(topology)}`;
      const answer = await this.#host.ask(`trace/${encodeURIComponent(place)}${asked}`);
      note.textContent = before;
      use(JSON.parse(await answer.text(), exactly));
    } catch (error) {
      if (!error.isLogin) note.textContent = error.message;
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  }
}

function rowsOfStep(step) {
  const head = `${step.node} (${step.operator})`;
  return [
    ...step.rows.map((row) => [head, "gets", "", row]),
    ...step.drops.map((reason) => [head, `drops a row: ${reason}`, "", ""]),
    ...step.stores.flatMap((store) => store.rows.map((row) => [
      head,
      `${store.name}: ${[written(row.key), ...row.times.map((time) => `${written(time)} ms`)].join(", ")}`,
      row.kind === "added" ? "no row" : written(row.old),
      row.kind === "removed" ? "no row" : written(row.new),
    ])),
  ];
}

const rowsOfOutputs = (outputs) => Object.entries(outputs).flatMap(([name, records]) => records.map((record) => [
  `output ${name}`, `${written(record.key)}, ${written(record.timestamp)} ms`, "", written(record.value),
]));

function save(place, text) {
  const name = place.toLowerCase().replace(/[^0-9a-z]+/g, "_").replace(/^_|_$/g, "");
  const href = URL.createObjectURL(new Blob([text], { type: "text/x-python" }));
  made("a", { href, download: `test_${name}.py` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}
