// A table of the query: its first rows, or those of a key, read again when a batch has changed it; and why a row is so.

import { count, exactly, fill, isShort, made, pause, pictureOf, written } from "./shown.js";
import { Viewport } from "./viewport.js";

const PAGE_ROWS = 50, MOST_ROWS = 10000, AGAIN_MS = 2000;
const NUMBER = /^(byte|short|integer|long|float|double|decimal.*)$/;
const ROLES = {
  made: "made it", time: "moved time for it", replaced: "has no part in it any more", dropped: "was dropped",
  may: "may have a part in it",
};

export class Tables {
  #at; #host; #trace; #schemas = new Map(); #explains = false;
  #picture; #table = null; #key = ""; #limit = PAGE_ROWS; #shown = new Map(); #watch = null; #loads = 0;

  // at: elements by id; host: where the page is; trace: shows the way of a record
  constructor(at, host, trace) {
    [this.#at, this.#host, this.#trace, this.#picture] = [at, host, trace, new Viewport(at("causes-picture"))];
    at("search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#search(at("table").value, at("key").value);
    });
    at("table").addEventListener("change", () => this.#search(at("table").value, ""));
    at("more").addEventListener("click", () => {
      this.#limit = Math.min(MOST_ROWS, this.#limit * 4);
      this.#load(this.#watch.signal).catch(() => {});
    });
    at("why").addEventListener("click", () => this.#why(this.#watch.signal));
  }

  get isThere() { return this.#table !== null; }

  close() { this.#watch?.abort(); }

  // Show the first table, or the one that the host remembers.
  async open() {
    const said = await (await this.#host.ask("tables")).json();
    this.#explains = said.why;
    this.#trace.open(said.why);
    this.#at("tables").hidden = said.tables.length === 0;
    for (const each of said.tables) this.#schemas.set(each.name, each.schema);
    this.#at("table").replaceChildren(
      ...said.tables.map((each) => made("option", { value: each.name, textContent: each.name })),
    );
    this.#table = "";
    if (said.tables.length === 0) return;
    const wanted = this.#host.wanted();
    const table = this.#schemas.has(wanted.table) ? wanted.table : said.tables[0].name;
    this.#search(table, (table === wanted.table && wanted.key) || "");
  }

  #columns() {
    const fields = this.#schemas.get(this.#table).fields;
    return fields.flatMap((field) => {
      const plain = { name: field.name, isNumber: NUMBER.test(field.type), of: (row) => row[field.name] };
      if (field.name !== "value" || field.type?.type !== "struct") return [plain];
      const inner = field.type.fields.map((each) => ({
        name: each.name, isNumber: NUMBER.test(each.type), of: (row) => row.value?.[each.name] ?? null,
      }));
      return inner.length ? inner : [plain];
    });
  }

  #show(answer) {
    const shape = this.#columns();
    const before = this.#shown;
    this.#shown = new Map();
    const rows = answer.rows.map((row) => {
      const { value, timestamp, ...identity } = row;
      const name = JSON.stringify(identity);
      const texts = shape.map((column) => written(column.of(row)));
      const old = before.get(name);
      this.#shown.set(name, texts);
      return made("tr", {}, ...texts.map((text, at) => {
        const fresh = before.size > 0 && old?.[at] !== text;
        const cell = made("td", { className: fresh ? "fresh" : "" });
        cell.classList.toggle("short", isShort(text));
        cell.classList.toggle("number", shape[at].isNumber);
        if (shape[at].name === "key") {
          const onclick = () => this.#search(this.#table, text);
          cell.append(made("button", { type: "button", className: "key", textContent: text, onclick }));
        } else cell.textContent = text;
        return cell;
      }));
    });
    this.#at("rows").replaceChildren(
      made("thead", {}, made("tr", {}, ...shape.map((each) => (
        made("th", { scope: "col", className: each.isNumber ? "number" : "", textContent: each.name })
      )))),
      made("tbody", {}, ...rows),
    );
    const which = this.#key === "" ? `${count(rows.length)} rows${answer.next === null ? "" : " and more"}`
      : rows.length ? `${count(rows.length)} row${rows.length > 1 ? "s" : ""} of this key` : "The table has no row of this key";
    this.#at("answer").textContent = `${which}, as of batch ${written(answer.batch)}.`;
    this.#at("more").hidden = answer.next === null || this.#limit >= MOST_ROWS;
  }

  // Whether the question is answered, or will not be: false where it may be later, as when the tables are yet to be read.
  async #load(signal) {
    const number = ++this.#loads;
    const asked = this.#key === "" ? `limit=${this.#limit}` : `key=${encodeURIComponent(this.#key)}`;
    try {
      const path = `tables/${encodeURIComponent(this.#table)}?${asked}`;
      const text = await (await this.#host.ask(path, signal)).text();
      if (number === this.#loads) this.#show(JSON.parse(text, exactly));
    } catch (error) {
      if (signal.aborted || error.status === undefined) throw error;
      if (number !== this.#loads) return true;
      this.#at("rows").replaceChildren();
      this.#at("more").hidden = true;
      this.#at("answer").textContent = error.message;
      return error.status < 500;
    }
    return true;
  }

  // The rows are asked for again when a batch has changed the table: so windows, ranges and versions are as they are.
  async #follow(signal) {
    while (!signal.aborted) {
      try {
        for await (const changed of this.#host.changes(this.#table, signal)) {
          if (changed) while (!(await this.#load(signal))) await pause(AGAIN_MS);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (!error.isLogin) this.#at("answer").textContent = error.message;
      }
      await pause(AGAIN_MS);
    }
  }

  #search(table, key) {
    [this.#table, this.#key, this.#limit, this.#shown] = [table, key, PAGE_ROWS, new Map()];
    this.#at("table").value = table;
    this.#at("key").value = key;
    this.#at("why").hidden = !this.#explains || key === "";
    this.#at("explanation").hidden = true;
    this.#host.chosen(table, key);
    this.#watch?.abort();
    this.#watch = new AbortController();
    this.#follow(this.#watch.signal);
  }

  #place(place) {
    const onclick = () => this.#trace.show(place);
    return made("button", { type: "button", className: "key", textContent: place, onclick });
  }

  async #why(signal) {
    const [at, button] = [this.#at, this.#at("why")];
    at("explanation").hidden = false;
    at("causes-note").textContent = "The server is reading the journal.";
    at("causes-picture").replaceChildren();
    at("causes").replaceChildren();
    button.disabled = true;
    try {
      const path = `why/${encodeURIComponent(this.#table)}/${encodeURIComponent(this.#key)}?picture=true`;
      const said = JSON.parse(await (await this.#host.ask(path, signal)).text(), exactly);
      this.#picture.show(pictureOf(said.picture));
      at("causes-note").textContent =
        [`The input records of the row, as of batch ${written(said.batch)}.`, ...said.notes].join(" ");
      fill(at("causes"), "", ["record", "key", "value", "its part"], said.causes.map((cause) => [
        this.#place(cause.place), written(cause.key), written(cause.value), partOf(cause),
      ]), { texts: 4 });
    } catch (error) {
      if (!signal.aborted) at("causes-note").textContent = error.message;
    } finally {
      button.disabled = false;
    }
  }
}

function partOf(cause) {
  const drops = cause.drops.map((each) => `, ${each.reason} at ${each.operator}`).join("");
  const waited = cause.waited_for === null ? "" : `, waited for ${cause.waited_for.place}`;
  return `${ROLES[cause.role]}${drops}${waited}`;
}
