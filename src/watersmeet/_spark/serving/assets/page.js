// The page of a query in a place of its own: a document, or the shadow of a notebook's widget. It asks its host for
// the status, draws the topology once, and shows a table as it changes.

import { Numbers } from "./numbers.js";
import { pause, seconds } from "./shown.js";
import { Tables } from "./tables.js";
import { Topology } from "./topology.js";
import { Trace } from "./trace.js";

const LONG_SECONDS = 30; // then a batch may hang

// A question that is refused, with the status of the answer.
export class Failed extends Error {
  constructor(text, status) {
    let said = text;
    try { said = JSON.parse(text).error ?? text; } catch { /* it is no JSON */ }
    super(said);
    this.status = status;
  }
}

export function setState(root, text, kind) {
  const state = root.getElementById("state");
  if (state.textContent !== text) state.textContent = text;
  state.className = kind;
}

// host: ask(path, signal), changes(table, signal), wanted(), chosen(table, key), titled(name), pauseMs(). The function
// that is returned ends it.
export function watchQuery(root, host) {
  const at = (id) => root.getElementById(id);
  const topology = new Topology(at, host.ask);
  const numbers = new Numbers(at, host.ask, (node) => topology.mark(node));
  const tables = new Tables(at, host, new Trace(at, host));
  let isClosed = false;

  function show(status) {
    at("query").textContent = status.query;
    host.titled(status.query);
    const long = status.under_way_seconds > LONG_SECONDS ? `, a batch for ${seconds(status.under_way_seconds)}` : "";
    if (status.error !== null) setState(root, "failed", "bad");
    else if (!status.active) setState(root, "ended", "bad");
    else setState(root, `running${long}`, "good");
    const error = status.error ?? status.served.error;
    at("error").hidden = error === null;
    if (error !== null && at("whole").textContent !== error) {
      at("reason").textContent = status.reason ?? error.split("\n")[0];
      at("whole").textContent = error;
    }
    numbers.show(status);
    at("main").hidden = false;
  }

  async function follow() {
    while (!isClosed) {
      try {
        const status = await (await host.ask("status")).json();
        show(status);
        await topology.show(status);
        if (!tables.isThere) await tables.open();
      } catch (error) {
        if (error.isLogin) continue;
        setState(root, "not reachable: the numbers below are the last ones", "bad");
        console.debug(error);
      }
      await pause(host.pauseMs());
    }
  }

  follow();
  return () => {
    isClosed = true;
    tables.close();
  };
}
