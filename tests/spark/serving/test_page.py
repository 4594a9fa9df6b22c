"""The page of a query, without a browser: its files, its JSON, its picture, and who gets them. No Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from tests.spark.serving.standing import ask, numbers, served, standing, topology
from watersmeet._plan.pictures import nodes_picture
from watersmeet._spark.metrics.metrics import (
    OperatorMetrics,
    metrics_as_json,
    metrics_of_json,
    picture_counts,
    run_as_json,
)
from watersmeet._spark.serving.page import MODULES, text_of_file
from watersmeet._spark.serving.replica import Replica
from watersmeet._spark.serving.server import Listeners
from watersmeet.cli.commands import main
from watersmeet.errors import ConfigError

TOKEN = "a token of enough length"
SCRIPTS = [f"{name}.js" for name in (*MODULES, "start")]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def replica() -> Replica:
    return standing()


@pytest.fixture(scope="module")
def listeners(replica: Replica) -> Iterator[Listeners]:
    with served(replica, TOKEN) as made:
        yield made


def read(url: str, token: str | None = None) -> tuple[str, Message]:
    asked = urllib.request.Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=60) as given:
        return given.read().decode(), given.headers


class Links(HTMLParser):
    """What a page loads, and its elements with an id."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [given[name] or "" for name in ("href", "src") if name in given and tag != "a"]
        self.ids += [given["id"] or ""] if "id" in given else []
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        self.inline += [tag] if tag == "style" or (tag == "script" and "src" not in given) else []


def test_the_page_is_there_without_the_token_and_loads_its_own_files_alone(listeners: Listeners) -> None:
    page, headers = read(f"{listeners.url}/")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    links = Links()
    links.feed(page)
    assert sorted(links.found) == ["icon.svg", "page.css", "start.js"]
    assert links.inline == []
    kinds = {"icon.svg": "image/svg+xml", "page.css": "text/css"} | dict.fromkeys(SCRIPTS, "text/javascript")
    for name, kind in kinds.items():
        text, said = read(f"{listeners.url}/{name}")
        assert said["Content-Type"] == f"{kind}; charset=utf-8"
        assert said["X-Content-Type-Options"] == "nosniff"
        assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.\w+", text), name
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")


def test_the_script_knows_each_element_by_the_name_that_the_page_gives_it_and_sets_no_html(
    listeners: Listeners,
) -> None:
    links = Links()
    links.feed(read(f"{listeners.url}/")[0])
    scripts = [read(f"{listeners.url}/{name}")[0] for name in SCRIPTS] + [text_of_file("widget.js")]
    asked = {name for script in scripts for name in re.findall(r"\b(?:\$|at|getElementById)\(\"([\w-]+)\"\)", script)}
    assert len(asked) > 20
    assert asked <= set(links.ids)
    for script in scripts:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)


def test_each_script_imports_only_those_that_stand_before_it() -> None:
    for number, name in enumerate(MODULES):
        found = re.findall(r'^import .* from "\./(\w+)\.js";$', text_of_file(f"{name}.js"), re.MULTILINE)
        assert set(found) <= set(MODULES[:number]), name


def test_the_wheel_has_the_files_of_the_page(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-m", "flit_core.wheel", "--outdir", str(tmp_path), str(root)], check=True)
    (built,) = tmp_path.glob("*.whl")
    with ZipFile(built) as wheel:
        names = [Path(name).name for name in wheel.namelist() if "/serving/assets/" in name]
    assert {"index.html", "page.css", "icon.svg", "widget.js", *SCRIPTS} <= set(names)


def test_a_page_of_another_site_gets_neither_the_page_nor_the_status(replica: Replica) -> None:
    with served(replica) as open_to_here:
        for path in ("/", "/status", "/topology.svg"):
            assert ask(open_to_here.url + path, Host="evil.example")[0] == 403


def test_the_status_has_the_numbers_of_the_query(listeners: Listeners) -> None:
    assert ask(f"{listeners.url}/status")[0] == 401
    code, said = ask(f"{listeners.url}/status", TOKEN)
    assert code == 200
    wanted = {
        "query": "q",
        "application": "clicks by page",
        "checkpoint": "/cp",
        "active": True,
        "doing": "waits",
        "error": None,
        "rate": 8.0,
        "consumed": {"clicks": 10},
        "lag": {"clicks": {"0": 5, "1": 0}},
        "stream_time_lag_ms": {"clicks": 3_000},
        "tables": {"counts": {"rows": 6, "bytes": 240}},
        "drops": [{"operator": "count", "reason": "null_key", "records": 3}],
        "dead_letters": [{"topic": "bad", "of": "clicks", "records": 1}],
        "restarts": 2,
        "last_error": {"at_ms": 4_000, "error": "SinkError", "reason": "Kafka does not answer."},
        "served": {"tables": ["t"], "batch": 7, "error": None},
    }
    assert {name: said[name] for name in wanted} == wanted
    assert said["batch"]["latency"]["clicks"] == {"p50": 0.49, "p99": 10.173, "buckets": {"72": 3, "107": 1}}
    assert said["batch"]["seconds"] == {"triggerExecution": 0.5, "addBatch": 0.4}


def test_the_picture_has_a_place_for_each_number_of_the_status(listeners: Listeners) -> None:
    said = ask(f"{listeners.url}/status", TOKEN)[1]["picture"]
    text, _ = read(f"{listeners.url}/topology.svg", TOKEN)
    root = ElementTree.fromstring(text)
    assert len([path for path in root.iter(f"{SVG}path") if path.get("class") == "arrow"]) == len(said["arrows"])
    boxes = [group for group in root.iter(f"{SVG}g") if (group.get("class") or "").startswith("box ")]
    names = [group.findtext(f"{SVG}text") for group in boxes]
    assert dict(zip(names, said["drops"], strict=True))["count"] == 3
    assert sum(said["drops"]) == 3


def test_an_arrow_has_what_the_box_above_it_has_given_or_what_the_output_below_has_got() -> None:
    picture = nodes_picture(topology())
    found = picture_counts(picture, numbers())
    names = [(picture.boxes[arrow.tail].name, picture.boxes[arrow.head].name) for arrow in picture.arrows]
    assert dict(zip(names, found.arrows, strict=True)) == {
        ("clicks", "some"): 10,
        ("some", "count"): None,
        ("count", "told"): 6,
        ("told", "output"): 6,
        ("clicks", "bad"): 1,
    }
    several = replace(numbers(), operators={"count.other": OperatorMetrics(1, 1)})
    assert dict(zip(names, picture_counts(picture, several).arrows, strict=True))["count", "told"] is None


def test_the_numbers_come_back_from_json_as_they_were() -> None:
    said = json.loads(json.dumps(metrics_as_json(numbers()) | run_as_json(numbers()) | {"active": True}))
    assert metrics_of_json(said) == numbers()


def test_the_command_top_says_the_numbers_of_the_page(listeners: Listeners) -> None:
    refused = CliRunner().invoke(main, ["top", listeners.url])
    assert (refused.exit_code, "the token is missing or wrong" in refused.output) == (1, True)
    said = CliRunner().invoke(main, ["top", listeners.url], env={"WATERSMEET_TOKEN": TOKEN})
    assert said.exit_code == 0
    assert said.output.splitlines() == [
        "q: running, 2 batches, in /cp",
        "restarts: 2; last error at 1970-01-01T00:00:04.000+00:00: SinkError: Kafka does not answer.",
        "source clicks: 10 records; stream time 1970-01-01T00:00:07.000+00:00, 3.0 s behind the clock; "
        "records at most 0.020 s late",
        "latency of clicks: half within 0.490 s, 99 percent within 10.173 s",
        "lag of clicks: 5 in partition 0, 0 in partition 1",
        "operator count: 9 in, 6 out",
        "table counts: 6 rows, 240 bytes",
        "sink output: 6 records",
        "sink clicks-dead-letters-sink: 1 records",
        "dropped 3 at count: null_key",
        "batch 1: 4 in; 3 out; 3 dropped (count null_key 3); 0.50 s (addBatch 0.40, offsets 0.01, state 0.20, "
        "transactions 0.05), began 1970-01-01T00:00:05.000+00:00, 8 records/s",
        "driver: 100.0 MB python, 600.0 MB jvm, 200.0 MB heap, 1,000.0 MB heap_limit",
        "memory: 1.0 MB of the largest worker, 2.0 MB of stores",
        "dead letters in bad: 1 records",
    ]
    as_json = CliRunner().invoke(main, ["top", listeners.url, "--token", TOKEN, "--json"])
    assert json.loads(as_json.output) == ask(f"{listeners.url}/status", TOKEN)[1]


def test_the_reason_of_a_failed_query_is_told_to_those_with_the_token(replica: Replica) -> None:
    with served(replica, TOKEN, failure=ConfigError("A secret of the query.")) as failed:
        code, said = ask(f"{failed.url}/status")
        assert (code, "secret" in str(said)) == (401, False)
        told = ask(f"{failed.url}/status", TOKEN)[1]
        assert (told["error"], told["reason"]) == ("A secret of the query.", "A secret of the query.")
