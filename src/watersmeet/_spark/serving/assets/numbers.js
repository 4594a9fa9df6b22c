// The numbers of the query: tiles, batches, sources, stores, outputs, drops with the last dead letters, memory.

import { bytes, count, drawn, fill, made, seconds } from "./shown.js";

const KEPT_BATCHES = 60;
// Spark's names for the parts of a batch, in words.
const PARTS = {
  triggerExecution: "the whole batch", addBatch: "computing and writing", latestOffset: "asking how far inputs reach",
  getBatch: "preparing what is read", queryPlanning: "planning", walCommit: "noting what is read",
  commitOffsets: "noting the batch as done",
};
const WRITES = {
  offsets: "log of offsets", commits: "log of commits", state: "state, all tasks together",
  transactions: "longest of Kafka's transactions",
};
const MEMORY = { python: "Python", jvm: "JVM", heap: "heap in use", heap_limit: "limit of the heap" };
// The smallest 1, 2 or 5 times a power of ten that is not smaller.
const roundUp = (value) => {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value * 0.999999);
};
const sum = (found) => Object.values(found).reduce((all, each) => all + each, 0);
const orDash = (value, show) => (value === null || value === undefined ? "–" : show(value));

export class Numbers {
  #at; #ask; #mark; #batches = []; #letters = []; #asked = null; #chosen = null; #dropped = null;

  // at: elements by id; ask: the server; mark: shows a node of the topology
  constructor(at, ask, mark) { [this.#at, this.#ask, this.#mark] = [at, ask, mark]; }

  show(status) {
    this.#bars(status);
    this.#tiles(status);
    this.#lists(status);
    this.#drops(status);
    this.#look(status);
    const { watersmeet, spark } = status.versions;
    const error = status.last_error;
    this.#at("last-error").textContent = error === null ? ""
      : `Last error, ${new Date(error.at_ms).toISOString()}: ${error.error}: ${error.reason}`;
    this.#at("about").textContent = `Folder of the checkpoint: ${status.checkpoint} · watersmeet ${watersmeet} · Spark ${spark}`;
  }

  #tiles(status) {
    const lag = Object.values(status.lag).reduce((all, parts) => all + sum(parts), 0);
    // a null value that ends is a deletion, and no record that is missed
    const dropped = status.drops.reduce((all, each) => all + (each.reason === "null_value" ? 0 : each.records), 0);
    const letters = status.dead_letters.reduce((all, each) => all + (each.records ?? 0), 0);
    const batch = status.batch;
    // a record waits as long as its batch takes: from the question how far inputs reach to the outputs
    const times = this.#batches.map((each) => each.whole);
    const found = [
      ["Records", count(sum(status.consumed))],
      ["Records/s", batch === null ? "–" : count(Math.round(status.rate))],
      ["Read to written", orDash(times.at(-1), seconds)],
      ["Longest so far", times.length ? seconds(Math.max(...times)) : "–"],
      ["To be read", count(lag)],
      ["Dropped", count(dropped), dropped > 0],
      ["Dead letters", count(letters), letters > 0],
      ["Restarts", count(status.restarts), status.last_error !== null],
    ];
    this.#at("progress").textContent = batch === null ? "no batch yet"
      : `batch ${count(batch.number)}`;
    this.#at("tiles").replaceChildren(
      ...found.map(([name, value, bad]) => made(
        "div", { className: bad ? "bad" : "" }, made("dt", { textContent: name }), made("dd", { textContent: value }),
      )),
    );
  }

  #bars(status) {
    const [batch, kept, bars] = [status.batch, this.#batches, this.#at("bars")];
    if (batch === null) return;
    const whole = batch.seconds.triggerExecution ?? 0;
    if (kept.at(-1)?.number !== batch.number) kept.push({ number: batch.number, whole });
    kept.splice(0, Math.max(0, kept.length - KEPT_BATCHES));
    const most = roundUp(Math.max(...kept.map((each) => each.whole), 0.001));
    const width = 300 / KEPT_BATCHES;
    const drawnBars = kept.map((each, at) => {
      const height = Math.max(1, (each.whole / most) * 60);
      const bar = drawn("rect", { x: at * width, y: 60 - height, width: width - 1, height });
      bar.append(drawn("title", {}, `batch ${count(each.number)}: ${seconds(each.whole)}`));
      return bar;
    });
    bars.replaceChildren(bars.querySelector("title"), drawn("path", { class: "grid", d: "M0,0 h300 M0,30 h300" }), ...drawnBars);
    this.#at("bars-scale").replaceChildren(...[most, most / 2, 0].map((each) => made("li", { textContent: seconds(each) })));
    this.#at("bars-range").textContent = kept.length < 2 ? `batch ${count(batch.number)}`
      : `batches ${count(kept[0].number)} to ${count(batch.number)}`;
    const sorted = (found, words) => Object.entries(found).sort((one, other) => other[1] - one[1])
      .map(([name, value]) => [made("span", { title: name, textContent: words[name] ?? name }), seconds(value)]);
    fill(this.#at("parts"), `Batch ${count(batch.number)}, by part`, ["part", "time"], sorted(batch.seconds, PARTS));
    fill(this.#at("writes"), "Writes", ["to", "time"], sorted(batch.writes, WRITES));
  }

  #lists(status) {
    const latency = status.batch?.latency ?? {};
    fill(this.#at("sources"), "", ["source", "records", "behind the clock"],
      Object.entries(status.consumed).map(([name, records]) => [
        name, count(records), orDash(status.stream_time_lag_ms[name], (ms) => seconds(ms / 1000)),
      ]));
    fill(this.#at("ages"), "From record to outputs (older than the query: from its read)", ["source", "p50", "p99"],
      Object.entries(latency).map(([name, { p50, p99 }]) => [name, orDash(p50, seconds), orDash(p99, seconds)]));
    const lag = Object.entries(status.lag).flatMap(([topic, parts]) =>
      Object.entries(parts).map(([part, records]) => [`${topic}, partition ${part}`, count(records)]));
    fill(this.#at("lag"), "To be read", ["topic", "records"], lag);
    fill(this.#at("stores"), "", ["store", "rows", "size"], Object.entries(status.tables).map(([name, found]) =>
      [name, count(found.rows), bytes(found.bytes)]));
    const memory = [
      ...Object.entries(status.driver_bytes).map(([part, size]) => [`driver, ${MEMORY[part] ?? part}`, bytes(size)]),
      ["largest worker", bytes(status.worker_bytes)], ["stores of Spark", bytes(status.state_bytes)],
    ];
    fill(this.#at("memory"), "Memory", ["of", "size"], memory);
    // as the user calls them, and not their nodes
    const { names, nodes } = status.picture;
    const called = Object.fromEntries(names.map((name, at) => [nodes[at][0], name]));
    fill(this.#at("outputs"), "", ["output", "records"],
      Object.entries(status.produced).map(([name, records]) => [called[name] ?? name, count(records)]));
  }

  // A reason leads to the operator in the topology, and chooses its dead letters.
  #drops(status) {
    const now = JSON.stringify([status.drops, status.dead_letters, this.#chosen]);
    if (this.#dropped === now) return;
    this.#dropped = now;
    const rows = status.drops.map(({ operator, reason, records }) => {
      const text = `${operator}: ${reason}`;
      const isChosen = this.#chosen?.operator === operator && this.#chosen?.reason === reason;
      const link = made("button", { type: "button", className: "key", textContent: text, onclick: () => {
        this.#chosen = isChosen ? null : { operator, reason };
        this.#mark(this.#chosen?.operator);
        this.#drops(status);
        this.#list();
      } });
      link.setAttribute("aria-pressed", String(isChosen));
      return [link, count(records)];
    });
    const focused = this.#at("drops").querySelector("button:focus")?.textContent;
    fill(this.#at("drops"), "", ["operator, reason", "records"], rows.length ? rows : [["none", "0"]]);
    if (focused !== undefined) {
      [...this.#at("drops").querySelectorAll("button")].find((each) => each.textContent === focused)?.focus();
    }
    fill(this.#at("letters"), "Dead letters", ["topic, of", "records"], status.dead_letters.map((each) =>
      [each.of ? `${each.topic}, of ${each.of}` : each.topic, count(each.records)]));
  }

  // The last letters are asked for when their number has changed.
  async #look(status) {
    const number = JSON.stringify(status.dead_letters);
    if (status.dead_letters.length === 0 || this.#asked === number) return;
    this.#asked = number;
    this.#at("letters-section").hidden = false;
    try {
      this.#letters = (await (await this.#ask("dead-letters")).json()).letters;
      this.#list();
    } catch (error) {
      this.#asked = undefined; // with the next status
      this.#at("letters-note").textContent = error.message;
    }
  }

  #list() {
    const chosen = this.#chosen;
    const fits = (letter) => chosen === null || (letter.operator === chosen.operator
      && (chosen.reason === "dead_letter" || letter.reason === chosen.reason));
    const found = this.#letters.filter(fits);
    const of = chosen === null ? "" : ` of ${chosen.operator}: ${chosen.reason}`;
    this.#at("letters-note").textContent = found.length ? `The last ${count(found.length)}${of}.` : `None${of}.`;
    fill(this.#at("letter-list"), "", ["time", "topic", "record", "reason", "key", "value", "error"],
      found.map((letter) => [
        letter.time, letter.topic, letter.record ?? "–", `${letter.operator}: ${letter.reason}`,
        letter.key_text ?? "null", letter.value_text ?? "null", letter.message ?? "–",
      ]), { texts: 7 });
  }
}
