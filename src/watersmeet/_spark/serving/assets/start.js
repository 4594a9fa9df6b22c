// The page as a browser has it: it asks by HTTP, with a token if the query has one.

import { Failed, setState, watchQuery } from "./page.js";

const LOOK_MS = 1000, HIDDEN_MS = 10000;
const $ = (id) => document.getElementById(id);

class Refused extends Error {
  isLogin = true;
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
  if (!answer.ok) throw new Failed(await answer.text(), answer.status);
  return answer;
}

function login() {
  if (admitted === null) {
    $("refused").textContent = token === null ? "" : "This token is wrong.";
    $("main").hidden = true;
    $("login").hidden = false;
    setState(document, "a token is needed", "bad");
    $("token").focus();
    admitted = {};
    admitted.promise = new Promise((resolve) => { admitted.resolve = resolve; });
  }
  return admitted.promise;
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

// Whether each batch has changed a table; first of all the table is there.
async function* changes(table, signal) {
  const answer = await ask(`changes?table=${encodeURIComponent(table)}`, signal);
  yield true;
  let changed = false;
  for await (const event of eventsOf(answer)) {
    changed ||= event === "rows";
    if (event === "batch") {
      yield changed;
      changed = false;
    }
  }
}

watchQuery(document, {
  ask,
  changes,
  wanted: () => Object.fromEntries(new URLSearchParams(location.hash.slice(1))),
  chosen: (table, key) => history.replaceState(null, "", `#${new URLSearchParams({ table, key })}`),
  titled: (name) => { document.title = `${name} · watersmeet`; },
  pauseMs: () => (document.hidden ? HIDDEN_MS : LOOK_MS),
});
