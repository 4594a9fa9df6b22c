"""The page in a real browser, before a query that runs: Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pyspark.sql import SparkSession

from tests.browser import MOST_MS, Shown
from tests.spark.serving.kit import Inputs, RunningQuery, until
from tests.spark.serving.served_run import topology

TOKEN = "a token of enough length"
HOSTILE_KEY = """<img src=x onerror="document.title='owned'">&amp;"""
HOSTILE_VALUE = """</td></table><script>document.title='owned'</script>"""


def running(spark: SparkSession, folder: Path, token: str | None) -> tuple[RunningQuery, str]:
    made = RunningQuery(spark, folder, Inputs(spark, folder / "in"))
    query = made.start(topology(made.inputs, "seen", key="string"))
    put(made, ("a", "first"), ("b", "other"), (None, "of no key"), (HOSTILE_KEY, HOSTILE_VALUE))
    query.processAllAvailable()
    served = query.serve("127.0.0.1:0", tables=["counts", "last"], token=token)
    until(lambda: served.batch is not None)
    return made, str(served.url)


def put(query: RunningQuery, *records: tuple[str | None, str]) -> None:
    query.inputs.put("events", *[{"k": key, "v": value, "ts": 1_000 + at} for at, (key, value) in enumerate(records)])


@pytest.fixture(scope="module")
def served(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningQuery, str]]:
    made, url = running(spark, tmp_path_factory.mktemp("seen"), TOKEN)
    try:
        yield made, url
    finally:
        made.query.stop()


def opened(context: BrowserContext, url: str) -> Shown:
    """A page that has been let in and shows its first rows."""
    shown = Shown(context.new_page())
    shown.page.goto(url)
    shown.page.get_by_label("Token of the query").fill(TOKEN)
    shown.page.get_by_role("button", name="Show").click()
    expect(shown.page.locator("#rows tbody tr").first).to_be_visible(timeout=MOST_MS)
    shown.complaints.clear()
    return shown


def arrow_counts(page: Page) -> dict[str, int]:
    texts = page.locator("#topology text.count").all_text_contents()
    return {str(at): int(text.replace(",", "")) for at, text in enumerate(texts) if text}


def test_a_wrong_token_is_refused_and_the_right_one_shows_the_query(
    browser: Browser, served: tuple[RunningQuery, str]
) -> None:
    page = browser.new_page()
    page.goto(served[1])
    expect(page.get_by_text("a token is needed")).to_be_visible(timeout=MOST_MS)
    assert page.locator("#main").is_hidden()
    page.get_by_label("Token of the query").fill("wrong wrong wrong")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#refused")).to_have_text("This token is wrong.", timeout=MOST_MS)
    page.get_by_label("Token of the query").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_have_text("running", timeout=MOST_MS)
    expect(page.get_by_role("heading", name="seen")).to_be_visible(timeout=MOST_MS)
    assert TOKEN not in page.url
    page.close()


def test_counts_move_and_a_key_that_was_searched_changes_without_a_reload(
    browser: Browser, served: tuple[RunningQuery, str]
) -> None:
    query, url = served
    with browser.new_context() as context:
        shown = opened(context, url)
        page = shown.page
        page.locator("#table").select_option("last")
        page.get_by_role("searchbox", name="Key").fill("a")
        page.keyboard.press("Enter")
        cells = page.locator("#rows tbody td")
        expect(cells.nth(1)).to_have_text("first", timeout=MOST_MS)
        expect(page.locator("#rows tbody tr")).to_have_count(1)
        expect(page.locator("#topology text.count").first).not_to_be_empty(timeout=MOST_MS)
        before = arrow_counts(page)
        put(query, ("a", "second"), ("b", "other"))
        expect(cells.nth(1)).to_have_text("second", timeout=MOST_MS)
        expect(page.locator("#topology text.count").first).not_to_have_text(f"{before['0']:,}", timeout=MOST_MS)
        assert arrow_counts(page)["0"] > before["0"]
        expect(page.locator("#topology text.dropped").filter(has_text="1").first).to_be_visible(timeout=MOST_MS)
        page.get_by_role("searchbox", name="Key").fill("nobody")
        page.keyboard.press("Enter")
        expect(page.locator("#answer")).to_contain_text("no row of this key", timeout=MOST_MS)
        assert [each for each in shown.asked if not each.startswith(url)] == []
        assert shown.complaints == []


def test_a_hostile_key_and_value_are_shown_as_the_texts_that_they_are(
    browser: Browser, served: tuple[RunningQuery, str]
) -> None:
    with browser.new_context() as context:
        shown = opened(context, served[1])
        page = shown.page
        page.locator("#table").select_option("last")
        page.get_by_role("button", name=HOSTILE_KEY).click()
        cells = page.locator("#rows tbody td")
        expect(page.locator("#rows tbody tr")).to_have_count(1, timeout=MOST_MS)
        assert [cells.nth(0).inner_text(), cells.nth(1).inner_text()] == [HOSTILE_KEY, HOSTILE_VALUE]
        page.reload()
        expect(cells.nth(1)).to_have_text(HOSTILE_VALUE, timeout=MOST_MS)
        assert page.locator("main img, main script").count() == 0
        assert page.title() == "seen · watersmeet"
        assert shown.complaints == []


def test_the_page_is_dark_where_dark_is_wanted_and_as_wide_as_a_phone(
    browser: Browser, served: tuple[RunningQuery, str]
) -> None:
    grounds = {}
    for scheme in ("light", "dark"):
        with browser.new_context(color_scheme=scheme, viewport={"width": 360, "height": 740}) as context:
            page = opened(context, served[1]).page
            grounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            expect(page.locator("#topology rect.ground")).to_have_css("fill", grounds[scheme])
            assert page.evaluate("document.documentElement.scrollWidth") == 360
            for name in ("#key", "#table", "#tiles", "#bars"):
                box = page.locator(name).bounding_box()
                assert box is not None
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= 360
    assert grounds["light"] == "rgb(255, 255, 255)"
    assert sum(map(int, grounds["dark"][4:-1].split(","))) < 150


def test_the_keyboard_alone_reaches_the_tables_and_searches(browser: Browser, served: tuple[RunningQuery, str]) -> None:
    with browser.new_context() as context:
        page = opened(context, served[1]).page
        page.reload()
        expect(page.locator("#rows tbody tr").first).to_be_visible(timeout=MOST_MS)
        focused = "document.activeElement.id || document.activeElement.className"
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "skip"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "table"
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "key"
        page.keyboard.type("b")
        page.keyboard.press("Enter")
        expect(page.locator("#rows tbody tr")).to_have_count(1, timeout=MOST_MS)


def test_a_query_that_fails_shows_its_error_and_its_last_rows(
    browser: Browser, spark: SparkSession, tmp_path: Path
) -> None:
    made, url = running(spark, tmp_path, None)
    try:
        with browser.new_context() as context:
            shown = Shown(context.new_page())
            shown.page.goto(url)
            expect(shown.page.locator("#state")).to_have_text("running", timeout=MOST_MS)
            put(made, ("a", "fail"))
            expect(shown.page.locator("#state")).to_have_text("failed", timeout=MOST_MS)
            expect(shown.page.locator("#reason")).to_contain_text("told to fail", timeout=MOST_MS)
            expect(shown.page.locator("#rows tbody tr")).to_have_count(3, timeout=MOST_MS)
            assert shown.complaints == []
    finally:
        made.query.stop()
