// The page as a widget of a notebook (anywidget): the kernel sends the status, and answers what else is asked.

const WIDGET_LOOK_MS = 1000;

function render({ model, el }) {
  const root = el.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];
  const place = made("div", { className: "page" });
  place.append(...new DOMParser().parseFromString(PAGE, "text/html").body.childNodes);
  root.append(place);

  const waiting = new Map();
  let number = 0;
  const answered = ({ id, status, text }) => {
    waiting.get(id)?.({ status, text });
    waiting.delete(id);
  };
  model.on("msg:custom", answered);

  const said = (text) => ({ json: async () => JSON.parse(text), text: async () => text });
  async function ask(path, signal) {
    if (path === "status") return said(model.get("status"));
    const id = ++number;
    const { status, text } = await new Promise((resolve, reject) => {
      waiting.set(id, resolve);
      signal?.addEventListener("abort", () => {
        waiting.delete(id);
        reject(signal.reason);
      });
      model.send({ id, path });
    });
    if (status !== 200) throw new Failed(text, status);
    return said(text);
  }

  // A table is read again with each batch.
  async function* changes(table, signal) {
    for (let last; !signal.aborted; await pause(WIDGET_LOOK_MS)) {
      const now = JSON.parse(model.get("status")).served.batch;
      if (now !== last || now === null) yield true;
      last = now;
    }
  }

  const chosen = {};
  const close = watchQuery(root, {
    ask,
    changes,
    wanted: () => chosen,
    chosen: (table, key) => Object.assign(chosen, { table, key }),
    titled: () => {},
    pauseMs: () => WIDGET_LOOK_MS,
  });
  return () => {
    close();
    model.off("msg:custom", answered);
  };
}

export default { render };
