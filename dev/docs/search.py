"""The first three hits of the site's search for questions of users: `python -m dev.docs.search`, after `make docs`.

Ends with status 1 if the page that a question is for is not among them. `SOUGHT` of `dev/docs/hooks.py` repairs that.
"""

from __future__ import annotations

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from playwright.sync_api import Page, TimeoutError, sync_playwright

from tests.browser import chromium

SITE = Path(__file__).resolve().parents[2] / ".site"
HITS = 3
SETTLED_MS = 700
"""In which the list of hits is complete."""
QUESTIONS = {
    "pandas": "tutorials/in_a_notebook",
    "top N per hour": "recipes",
    "add a column": "change",
    "exactly once": "concepts",
    "late records": "bad_records",
    "dead letter": "bad_records",
    "null key": "bad_records",
    "session window": "semantics/windows",
    "tumbling window": "semantics/windows",
    "join two tables": "semantics/table_table",
    "join two streams": "semantics/stream_stream",
    "foreign key join": "semantics/foreign_key",
    "Debezium": "debezium",
    "Schema Registry": "formats",
    "test without Kafka": "test",
    "restart after a crash": "checkpoints",
    "Kubernetes": "deploy",
    "password": "secrets",
    "Prometheus metrics": "watch",
    "slow query": "runbook",
    "why is this row": "why",
    "Delta table": "lakehouse",
    "SQL views": "sql",
    "Python UDF": "functions",
    "checkpoint on S3": "checkpoints",
    "deduplicate": "semantics/distinct",
    "rename a field": "change",
    "global table": "semantics/global_lookup",
    "start from a snapshot": "start_from_what_is_there",
    "read the state of a store": "state",
    "count distinct": "aggregates",
    "query from a notebook": "tutorials/in_a_notebook",
    "out of memory": "runbook",
    "consumer lag": "watch",
    "increase partitions": "checkpoints",
    "delete old rows": "semantics/expiry",
    "stop a query": "runbook",
    "processor timer": "processors",
    "wall clock": "processors",
    "group by several columns": "reference/grouped",
}
"""The page that answers each."""


class Quiet(SimpleHTTPRequestHandler):
    """The site's files, without a line for each."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def hits(page: Page, question: str) -> list[str]:
    """The pages of the first hits, without `.html`."""
    box = page.locator("input.md-search__input")
    box.click()
    box.fill("")
    box.press_sequentially(question)
    try:
        page.locator(".md-search-result__item a").first.wait_for(timeout=10_000)
    except TimeoutError:
        return []
    page.wait_for_timeout(SETTLED_MS)
    links = page.locator(".md-search-result__item").evaluate_all(
        "items => items.map(item => item.querySelector('a').href)"
    )
    return [urlsplit(link).path.strip("/").removesuffix(".html") for link in links[:HITS]]


def main() -> int:
    """Print a line for each question; 1 if one is not answered."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    missed = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        for question, wanted in QUESTIONS.items():
            found = hits(page, question)
            missed += wanted not in found
            print("ok  " if wanted in found else "MISS", question, "->", ", ".join(found), flush=True)
        browser.close()
    server.shutdown()
    print(f"{len(QUESTIONS) - missed} of {len(QUESTIONS)} are answered by one of the first {HITS} hits.")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
