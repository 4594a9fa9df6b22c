"""The page of joins, built and served, in Chromium: it gives what was recorded, and loads nothing from elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import Browser, BrowserContext, Page, expect

from dev.docs import joins
from dev.docs.fetch_pyodide import PyodideMissing, fetch
from proof import cases, golden
from proof.recordings import History
from tests.browser import MOST_MS, Shown, absent
from tests.oracle.test_cases import case_of, recorded

ROOT = Path(__file__).resolve().parents[2]
WIKI = golden.read(ROOT / "tests" / "golden" / "stream_stream_current.md")[1]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site without its reference and search, which take most of a build."""
    try:
        fetch()
    except PyodideMissing as missing:
        absent(f"no Pyodide: {missing}")
    made = tmp_path_factory.mktemp("site")
    menu = [{"Joins": "joins.md"}, {"Golden": "golden/"}]
    config = load_config(str(ROOT / "mkdocs.yml"), plugins=[], site_dir=str(made), strict=False, nav=menu)
    build(config)
    return made


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def opened(context: BrowserContext, url: str) -> Shown:
    """The page, when it has run its first case."""
    shown = Shown(context.new_page())
    shown.page.goto(url)
    expect(shown.page.locator("#joins-table tbody tr").first).to_be_visible(timeout=MOST_MS)
    return shown


def column_of(page: Page, generation: str) -> list[str]:
    """The cells of the column that has a generation in its title."""
    titles = page.locator("#joins-table thead th").all_inner_texts()
    at = next(number for number, title in enumerate(titles) if generation in title)
    cells = page.locator(f"#joins-table tbody tr > :nth-child({at + 1})").all_inner_texts()
    return [cell.removeprefix("≠ ").strip() for cell in cells]


def wanted(history: History) -> list[str]:
    told = (
        [f"{cases.in_line(r.key)} = {cases.in_line(r.value)} @{r.ts}" for r in step.expect or ()]
        for step in history.steps
    )
    return ["\n".join(lines) or "—" for lines in told]


def test_the_wikis_table_opens_from_its_golden_page_and_a_recorded_history_from_a_link(
    browser: Browser, served: str
) -> None:
    with browser.new_context() as context:
        shown = Shown(context.new_page())
        page = shown.page
        page.goto(f"{served}/golden/stream_stream_current.html")
        page.get_by_role("link", name="Open in “Joins in the browser”").nth(1).click()
        expect(page.locator("#joins-table tbody tr")).to_have_count(len(WIKI.steps), timeout=MOST_MS)
        assert column_of(page, "watersmeet") == wanted(WIKI)
        assert page.locator("#joins-table td.differs").count() > 0
        for name, title in (("stream_stream", "later"), ("table_table.0.10.0.1", "0.10.0"), ("three_way", "later")):
            history = recorded(name, 3)[2]
            page.goto(f"{served}/joins.html#case={quote(case_of(history))}")
            expect(page.locator("#joins-table tbody tr")).to_have_count(len(history.steps), timeout=MOST_MS)
            assert column_of(page, title) == wanted(history)
        assert [each for each in shown.asked if not each.startswith(served)] == []
        assert shown.complaints == []


def test_what_is_typed_and_chosen_changes_results_state_and_link(browser: Browser, served: str) -> None:
    with browser.new_context() as context:
        shown = opened(context, f"{served}/joins.html#golden=stream_stream_current/2")
        page = shown.page
        page.get_by_label("Type").select_option("inner")
        expect(page.locator("#joins-table thead th").nth(3)).to_have_text("0.10.2 and later, watersmeet")
        page.get_by_role("textbox", name="Case").fill(
            "operator: table-table\ntype: left\n\nleft <b>k</b> 1 @5\nright <b>k</b> 2 @3"
        )
        expect(page.locator("#joins-table tbody tr")).to_have_count(2, timeout=MOST_MS)
        assert column_of(page, "watersmeet") == ["<b>k</b> = 1-null @5", "<b>k</b> = 1-2 @5"]
        page.locator("#joins-table tbody button").first.focus()
        page.keyboard.press("ArrowDown")
        expect(page.locator("#joins-step")).to_contain_text("After step 2")
        expect(page.locator("#joins-state tr.new").first).to_contain_text("+ right row")
        assert page.locator("#joins b").count() == 0
        copy = opened(context, page.url)
        assert (
            copy.page.get_by_role("textbox", name="Case").input_value()
            == page.get_by_role("textbox", name="Case").input_value()
        )
        page.get_by_role("textbox", name="Case").fill("operator: table-table\ntype: left\nleft k")
        expect(page.get_by_role("alert")).to_contain_text("line 3: 'left k' is no record", timeout=MOST_MS)
        assert page.locator("#joins-shown").is_hidden()
        page.locator("#joins-operator").select_option("fk-table-table")
        expect(page.locator("#joins-table tbody tr")).to_have_count(9, timeout=MOST_MS)
        assert shown.complaints == []


def test_the_page_is_dark_where_dark_is_wanted_and_as_wide_as_a_phone(browser: Browser, served: str) -> None:
    grounds = {}
    for scheme in ("light", "dark"):
        with browser.new_context(color_scheme=scheme, viewport={"width": 360, "height": 740}) as context:
            page = opened(context, f"{served}/joins.html").page
            assert page.evaluate("document.documentElement.scrollWidth") == 360
            grounds[scheme] = page.evaluate("getComputedStyle(document.querySelector('#joins-text')).backgroundColor")
    assert grounds["light"] != grounds["dark"]


def test_a_site_without_pyodide_and_a_page_opened_as_a_file_say_how_to_go_on(
    browser: Browser, served: str, site: Path
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto((site / "joins.html").as_uri())
        expect(page.get_by_text("This page was opened as a file")).to_be_visible(timeout=MOST_MS)
        about = (site / "joins" / "about.json").read_text()
        joins.put(site, pyodide=site / "nowhere")
        try:
            page.goto(f"{served}/joins.html")
            expect(page.locator("#joins-status")).to_contain_text("install Node.js", timeout=MOST_MS)
            assert "operator: stream-stream" in page.get_by_role("textbox", name="Case").input_value()
        finally:
            (site / "joins" / "about.json").write_text(about)
