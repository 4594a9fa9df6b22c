"""The page as a widget of a notebook, without a browser: its script, its status, its answers. No Spark."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spark.serving.kit import until
from tests.spark.serving.standing import ask, served, standing, status_of
from watersmeet import errors
from watersmeet._spark.metrics.texts import as_html, as_text, status_lines
from watersmeet._spark.serving import widget as notebook
from watersmeet._spark.serving.page import Explainer
from watersmeet._spark.serving.replica import Replica
from watersmeet._spark.serving.server import widget_of
from watersmeet.errors import ConfigError


def explained(table: str, key: Any) -> Any:
    return SimpleNamespace(as_json=lambda: json.dumps({"table": table, "key": key}), to_svg=lambda: "<svg/>")


def traced(record: str) -> Any:
    return SimpleNamespace(as_dict=lambda: {"record": record}, to_test=lambda named: f"import {named}")


EXPLAINER = Explainer(explained, traced)


@pytest.fixture(scope="module")
def replica() -> Replica:
    return standing()


@contextmanager
def shown(replica: Replica | None, status: Any = None) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """A widget, and what it has sent to its script."""
    with warnings.catch_warnings():
        # a widget without a notebook's kernel has nobody to talk to
        warnings.simplefilter("ignore")
        made = widget_of(status or status_of(None), replica, EXPLAINER)
        sent: list[dict[str, Any]] = []
        made.send = lambda said, buffers=None: sent.append(said)
        try:
            yield made, sent
        finally:
            made.close()


def answer(widget: Any, sent: list[dict[str, Any]], path: str) -> tuple[int, Any]:
    """What the widget answers its script."""
    number = len(sent)
    widget._message(widget, {"id": number, "path": path}, [])
    until(lambda: len(sent) > number)
    assert sent[-1]["id"] == number
    return sent[-1]["status"], sent[-1]["text"]


def test_a_widget_answers_its_script_as_the_server_answers_the_page(replica: Replica) -> None:
    with served(replica, explainer=EXPLAINER) as servers, shown(replica) as (widget, sent):
        paths = ["tables", "tables/t?limit=3", "tables/t?key=5", "why/t/4?picture=true", "trace/x-0%401?test=a:b"]
        for path in (*paths, "dead-letters"):
            code, text = answer(widget, sent, path)
            wanted = ask(f"{servers.url}/{path}")
            given = json.loads(text)
            if path == "tables":
                assert given.pop("flight_port") == 0
                del wanted[1]["flight_port"]
            assert (code, given) == wanted
        assert answer(widget, sent, "topology.svg")[1].startswith("<svg")
        code, text = answer(widget, sent, "tables/none")
        assert (code, "No table 'none'" in json.loads(text)["error"]) == (404, True)
        assert json.loads(widget.status) == ask(f"{servers.url}/status")[1]


def test_the_status_moves_until_the_query_has_ended(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "LOOK_SECONDS", 0.01)
    active = [True]
    status = status_of(None)
    now = status.metrics()
    moving = replace(status, is_active=lambda: active[0], metrics=lambda: replace(now, active=active[0]))
    with shown(replica, moving) as (widget, _):
        assert json.loads(widget.status)["active"]
        active[0] = False
        until(widget._following.done)
        assert not json.loads(widget.status)["active"]


@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "no numbers"])
def test_a_query_whose_session_is_gone_has_ended_for_its_widget(
    replica: Replica, monkeypatch: pytest.MonkeyPatch, numbers: bool
) -> None:
    monkeypatch.setattr(notebook, "LOOK_SECONDS", 0.01)
    gone, status = [False], status_of(None)
    now = status.metrics()

    def is_active() -> bool:
        if gone[0]:
            raise ConnectionRefusedError("no JVM")
        return True

    def metrics() -> Any:
        if gone[0] and not numbers:
            raise ConnectionRefusedError("no JVM")
        return replace(now, active=not gone[0])

    moving = replace(status, is_active=is_active, metrics=metrics)
    with shown(replica, moving) as (widget, _):
        gone[0] = True
        until(widget._following.done)
        assert widget._following.exception() is None
        assert not json.loads(widget.status)["active"]


def test_a_query_that_serves_nothing_is_shown_without_tables() -> None:
    with shown(None) as (widget, sent):
        assert json.loads(widget.status)["served"] == {"tables": [], "batch": None, "error": None}
        assert json.loads(answer(widget, sent, "tables")[1])["tables"] == []


def test_the_script_of_a_widget_is_one_module_that_imports_nothing() -> None:
    script = notebook.module()
    assert not re.search(r"^import ", script, re.MULTILINE)
    assert script.count("export default") == 1
    declared = re.findall(r"^(?:export )?(?:const|let|function\*?|async function\*?|class) (\w+)", script, re.MULTILINE)
    assert len(declared) == len(set(declared)) > 10


def test_where_no_script_runs_a_notebook_shows_the_same_status_as_a_table() -> None:
    status = status_of(ConfigError("No <b>page</b>.")).as_json()
    text = as_html(status_lines(status))
    cells = re.findall(r"<th [^>]*>([^<>]*)</th><td [^>]*>([^<>]*)</td>", text)
    assert as_text(cells)[0] == "q: failed, 2 batches, in /cp"
    assert as_text(cells)[2:] == as_text(status_lines(status))[2:]
    assert cells[1] == ("reason", "No &lt;b&gt;page&lt;/b&gt;.")


def test_a_missing_package_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"(?s)anywidget.*\[notebook\]"):
        widget_of(status_of(None), None, None)
