"""Parts of the page in a real browser, and the same page as a notebook's widget: a standing query, and no Spark."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import MOST_MS, Shown
from tests.spark.serving.standing import numbers, standing, status_of, topology
from watersmeet._plan.pictures import nodes_picture, svg
from watersmeet._spark.serving import widget as widget_script
from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.page import Explainer, QueryStatus, letter_of
from watersmeet._spark.serving.server import Listeners, widget_of
from watersmeet._spark.stores.comparison import Comparison, RowDifference
from watersmeet.errors import ConfigError
from watersmeet.provenance import InputRecord
from watersmeet.replay import Trace, TraceStep, _Pipe

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
# a notebook's front end, as far as the script of a widget sees it
FRONT_END = """async ({ script, status }) => {
  const state = { status };
  const listeners = new Map();
  const model = {
    get: (name) => state[name],
    on: (event, call) => listeners.set(event, call),
    off: (event) => listeners.delete(event),
    send: async (said) => { const answer = await toKernel(said); listeners.get("msg:custom")?.(answer); },
  };
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { default: widget } = await import(url);
  const el = document.body.appendChild(document.createElement("div"));
  window.told = (text) => { state.status = text; };
  window.ended = widget.render({ model, el });
}"""


class StatusWithLetters(QueryStatus):
    """A query with dead letters."""

    def last_dead_letters(self) -> list[dict[str, Any]]:
        headers = {"operator": b"clicks", "reason": b"undecodable", "message": HOSTILE.encode(), "topic": b"clicks"}
        headers |= {"partition": b"0", "offset": b"7"}
        told = [("__streams.errors." + name, text) for name, text in headers.items()]
        other = [("__streams.errors.operator", b"count"), ("__streams.errors.reason", b"null_key")]
        return [
            letter_of(("bad", 0, 3, 9_000), HOSTILE.encode(), b"\xff", told),
            letter_of(("bad", 0, 2, 8_000), None, b"{}", other),
        ]


def explained(table: str, key: Any) -> Any:
    if key == 9:
        raise ValueError("told to fail")
    record = {"input": "clicks", "topic": "clicks", "partition": 0, "offset": 1, "batch": 0, "ts": 5}
    cause = {**record, "place": "clicks-0@1", "key": HOSTILE, "value": 2**62, "role": "made", "drops": []}
    said = {"batch": 7, "rows": [], "notes": ["The journal begins with batch 3."]}
    text = json.dumps({**said, "causes": [{**cause, "waited_for": None}]})
    return SimpleNamespace(as_json=lambda: text, to_svg=lambda: svg(nodes_picture(topology())))


def traced(place: str) -> Trace:
    if place == "clicks-0@9":
        raise ConfigError(f"The journal has no record {place!r} in its batches 0 to 7.", hint="Name another.")
    record = InputRecord("clicks", "clicks", 0, 1, 0, 5, HOSTILE, 2**62)
    rows = RowDifference(HOSTILE, (), None, 1, "added"), RowDifference("k", (0, 60_000), 2**62, None, "removed")
    step = TraceStep(
        "count", "aggregate", ('{"key": "k"}',), ("null_key",), (Comparison("store counts", 0, 1, 0, 1, rows),)
    )
    return Trace(record, (step,), {"out": (("k", 3, 7),)}, (_Pipe("clicks", "k", "v", 5, ()),))


EXPLAINER = Explainer(explained, traced)


def status() -> StatusWithLetters:
    return StatusWithLetters(**vars(status_of(None)))


@pytest.fixture
def page(browser: Browser) -> Iterator[Shown]:
    listeners = Listeners(standing(), Access.of("127.0.0.1:0", None, None, None), status(), EXPLAINER)
    context = browser.new_context()
    try:
        shown = Shown(context.new_page())
        shown.page.goto(listeners.url)
        expect(shown.page.locator("#rows tbody tr").first).to_be_visible(timeout=MOST_MS)
        yield shown
    finally:
        context.close()
        listeners.close()


def test_the_last_dead_letters_are_listed_and_a_reason_chooses_its_own_and_marks_its_operator(page: Shown) -> None:
    rows = page.page.locator("#letter-list tbody tr")
    expect(rows).to_have_count(2, timeout=MOST_MS)
    first = rows.first.locator("td").all_inner_texts()
    assert first[1:] == ["bad", "clicks-0@7", "clicks: undecodable", HOSTILE, "\\xff", HOSTILE]
    page.page.get_by_role("button", name="count: null_key").click()
    expect(rows).to_have_count(1, timeout=MOST_MS)
    expect(page.page.locator("#letters-note")).to_have_text("The last 1 of count: null_key.")
    marked = page.page.locator("#topology g.box.marked")
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text("count")
    page.page.get_by_role("button", name="count: null_key").click()
    expect(rows).to_have_count(2, timeout=MOST_MS)
    expect(marked).to_have_count(0)
    assert page.page.title() == "q · watersmeet"
    assert page.complaints == []


def test_the_topology_shows_the_users_nodes_and_its_levels_when_they_are_asked_for(page: Shown) -> None:
    boxes = page.page.locator("#topology g.box")
    expect(boxes).to_have_count(6, timeout=MOST_MS)
    assert not page.page.get_by_text("clicks-dead-letters", exact=True).count()
    boxes.filter(has_text="count").hover()
    expect(page.page.locator("#topology-note")).to_contain_text("store counts: 6 rows, 0.2 kB")
    page.page.get_by_label("Levels").check()
    expect(boxes).to_have_count(7, timeout=MOST_MS)
    expect(page.page.locator("#topology text").filter(has_text="level 1")).to_be_visible()
    assert page.complaints == []


def test_the_topology_fits_its_place_is_zoomed_dragged_and_says_where_it_is_cut(page: Shown) -> None:
    place, picture = page.page.locator("#topology"), page.page.locator("#topology svg")
    expect(place).to_have_attribute("data-cut", "", timeout=MOST_MS)
    whole = str(picture.get_attribute("viewBox"))
    for _ in range(7):
        page.page.get_by_role("button", name="Zoom in").click()
    expect(place).to_have_attribute("data-cut", "left right top bottom")
    zoomed, box = str(picture.get_attribute("viewBox")), place.bounding_box()
    assert box is not None
    page.page.mouse.move(box["x"] + 50, box["y"] + 50)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 50 + box["width"], box["y"] + 50, steps=50)
    page.page.mouse.up()
    expect(place).to_have_attribute("data-cut", "right top bottom")
    assert float(str(picture.get_attribute("viewBox")).split()[0]) < float(zoomed.split()[0])
    page.page.get_by_role("button", name="Fit").click()
    expect(picture).to_have_attribute("viewBox", whole)
    assert page.complaints == []


def test_the_page_speaks_in_words_and_no_tile_stands_alone(page: Shown) -> None:
    parts = page.page.locator("#parts")
    expect(parts).to_contain_text("computing and writing", timeout=MOST_MS)
    assert "addBatch" not in parts.inner_text()
    assert page.page.locator("#bars-scale li").all_inner_texts() == ["0.50 s", "0.25 s", "0.00 s"]
    assert page.page.locator("#outputs td").all_inner_texts() == ["output", "6", "bad", "1"]
    for width in (400, 800, 1280):
        page.page.set_viewport_size({"width": width, "height": 900})
        tops = page.page.evaluate("[...document.querySelectorAll('#tiles > div')].map((each) => each.offsetTop)")
        assert len(set(Counter(tops).values())) == 1
        assert page.page.evaluate("document.documentElement.scrollWidth") == width


def test_why_a_row_is_so_is_shown_as_a_picture_and_a_list(page: Shown) -> None:
    button = page.page.get_by_role("button", name="Why?")
    assert button.is_hidden()
    page.page.get_by_role("button", name="4", exact=True).click()
    button.click()
    cells = page.page.locator("#causes tbody td")
    expect(cells).to_have_text(["clicks-0@1", HOSTILE, str(2**62), "made it"], timeout=MOST_MS)
    expect(page.page.locator("#causes-note")).to_contain_text("The journal begins with batch 3.")
    expect(page.page.locator("#causes-picture svg")).to_be_visible()
    page.page.get_by_role("searchbox", name="Key").fill("5")
    page.page.keyboard.press("Enter")
    expect(page.page.locator("#explanation")).to_be_hidden()
    assert page.complaints == []


def test_a_record_goes_through_the_topology_step_by_step_and_is_saved_as_a_test(page: Shown) -> None:
    page.page.get_by_role("searchbox", name="Record").fill("clicks-0@9")
    page.page.get_by_role("button", name="Trace").click()
    expect(page.page.locator("#trace-note")).to_contain_text("no record 'clicks-0@9'", timeout=MOST_MS)
    expect(page.page.get_by_role("button", name="Save as a test")).to_be_hidden()
    # a record behind a row leads to its way
    page.page.get_by_role("button", name="4", exact=True).click()
    page.page.get_by_role("button", name="Why?").click()
    page.page.get_by_role("button", name="clicks-0@1", exact=True).click()
    rows = page.page.locator("#trace-steps tbody tr")
    expect(rows).to_have_count(5, timeout=MOST_MS)
    assert [row.locator("td").all_inner_texts() for row in rows.all()] == [
        ["count (aggregate)", "gets", "", '{"key": "k"}'],
        ["count (aggregate)", "drops a row: null_key", "", ""],
        ["count (aggregate)", f"store counts: {HOSTILE}", "no row", "1"],
        ["count (aggregate)", "store counts: k, 0 ms, 60000 ms", str(2**62), "no row"],
        ["output out", "k, 7 ms", "", "3"],
    ]
    expect(page.page.locator("#trace-note")).to_have_text(f"clicks-0@1 {HOSTILE}: {2**62}")
    page.page.get_by_role("textbox", name="Topology").fill("shop.topologies:orders")
    with page.page.expect_download() as download:
        page.page.get_by_role("button", name="Save as a test").click()
    assert download.value.suggested_filename == "test_clicks_0_1.py"
    assert download.value.path().read_text() == traced("clicks-0@1").to_test("shop.topologies:orders")
    # the refusal of a record that is not there
    assert [text for text in page.complaints if "400" not in text] == []


def test_latency_restarts_memory_and_the_last_error_are_shown(page: Shown) -> None:
    expect(page.page.locator("#tiles")).to_contain_text("Read to written\n0.50 s", use_inner_text=True)
    expect(page.page.locator("#ages")).to_contain_text("10.2 s")
    expect(page.page.locator("#last-error")).to_have_text(
        "Last error, 1970-01-01T00:00:04.000Z: SinkError: Kafka does not answer."
    )
    expect(page.page.locator("#memory")).to_contain_text("driver, limit of the heap")
    expect(page.page.locator("#writes")).to_contain_text("transactions")


def in_a_notebook(page: Page, widget: Any) -> None:
    """The widget in a page that stands for a notebook; its messages go to the widget in this process."""

    def answer(said: Any) -> Any:
        work = widget._fetch(f"/{said['path']}")
        code, text = asyncio.run_coroutine_threadsafe(work, widget._loop).result()
        return {"id": said["id"], "status": code, "text": text}

    page.expose_function("toKernel", answer)
    page.evaluate(FRONT_END, {"script": widget_script.module(), "status": widget.status})


def test_a_widget_shows_the_page_in_a_notebook_and_leaves_the_notebook_alone(browser: Browser) -> None:
    with browser.new_context() as context, warnings.catch_warnings():
        # without a notebook's kernel a widget has nobody to talk to
        warnings.simplefilter("ignore")
        shown = Shown(context.new_page())
        shown.page.goto("about:blank")
        made = widget_of(status(), standing(), EXPLAINER)
        in_a_notebook(shown.page, made)
        page = shown.page
        expect(page.locator("#state")).to_have_text("running", timeout=MOST_MS)
        expect(page.locator("#rows tbody tr").first).to_be_visible(timeout=MOST_MS)
        expect(page.locator("#topology svg")).to_be_visible()
        expect(page.locator("#letter-list tbody tr")).to_have_count(2, timeout=MOST_MS)
        page.get_by_role("searchbox", name="Key").fill("5")
        page.keyboard.press("Enter")
        expect(page.locator("#rows tbody tr")).to_have_count(1, timeout=MOST_MS)
        page.get_by_role("button", name="Why?").click()
        expect(page.locator("#causes tbody td").first).to_have_text("clicks-0@1", timeout=MOST_MS)
        said = json.loads(made.status) | {"active": False}
        page.evaluate("(text) => told(text)", json.dumps(said))
        expect(page.locator("#state")).to_have_text("ended", timeout=MOST_MS)
        # its style is its own
        assert page.evaluate("getComputedStyle(document.body).maxWidth") == "none"
        assert page.title() == ""
        assert page.url == "about:blank"
        assert shown.complaints == []
        made.close()


def test_a_widget_of_a_query_that_serves_nothing_shows_its_numbers(browser: Browser) -> None:
    with browser.new_context() as context, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        page = context.new_page()
        page.goto("about:blank")
        now = replace(numbers(), last_error=None)
        made = widget_of(replace(status_of(None), metrics=lambda: now), None, None)
        in_a_notebook(page, made)
        expect(page.locator("#tiles")).to_contain_text("Records/s", timeout=MOST_MS)
        expect(page.locator("#tables")).to_be_hidden(timeout=MOST_MS)
        made.close()
