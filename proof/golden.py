"""Golden tables: Markdown pages that are documentation and test at once (house rule 9).

A page has one section per join type, or fold; a section states its operator, its joiner and, where a join has one, its
window in a list, and its records in a table, a step a line, with all results that the step causes. The key of a
window is written as key and both ends, `a 0..10`. `read` gives each section as a History, which every runner takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proof.oracle.records import Result, Windowed
from proof.recordings import History, RecordedStep, RecordingError

_BAR = re.compile(r"(?<!\\)\|")
"""What parts two cells; one in a value has a backslash before it."""
_FACT = re.compile(r"^- (\w+): (.+)$")
_RESULT = re.compile(r"^(?P<key>.+?) = (?P<value>.*) @(?P<ts>-?\d+)$")
_WINDOW = re.compile(r"^(?P<before_ms>-?\d+) ms before, (?P<after_ms>-?\d+) ms after, grace (?P<grace_ms>\d+) ms$")
_WINDOW_FACT = "- window: {before_ms} ms before, {after_ms} ms after, grace {grace_ms} ms"
_WINDOWS = re.compile(r"^(?P<window>\w+)(?P<lengths>(?:, \w+ \d+ ms)+)(?P<emit>, results on close)?$")
_HELD = re.compile(r"^until (?:(?P<close>windows close)|(?P<ms>\d+) ms have passed)$")
_LENGTH = re.compile(r"(\w+) (\d+) ms")
_KEY = re.compile(r"^(?P<key>.*) (?P<start>\d+)\.\.(?P<end>\d+)$")
_FUNCTIONS = {"foreign_key": "fk_extractor", "on": "compared", "key_mapper": "key_mapper", "view": "view_type"}
# what recordings say where all records of a join meet; a page's introduction says it for its sections
_WIDE = {"stream-stream": {"window": "large enough that all records meet"}}
_WTABLES = ("stream-wtable", "table-wtable", "wtable-table", "wtable-wtable")
_VERSIONS = {"current": "4.3.0", "spurious": "0.10.2.2", "old": "0.10.1.1", "old-0.10.0": "0.10.0.1"}


def read(path: Path) -> list[History]:
    """The sections of a golden page.

    Raises
    ------
    RecordingError : a line does not read; the message names page and line.
    """
    return [history_of(path, *section) for section in sections(path)]


def sections(path: Path) -> list[tuple[str, dict[str, str], list[RecordedStep]]]:
    """Title, facts and steps of each section of a page, unread."""
    found: list[tuple[str, dict[str, str], list[RecordedStep]]] = []
    title = ""
    facts: dict[str, str] = {}
    steps: list[RecordedStep] = []
    for number, line in enumerate([*path.read_text(encoding="utf-8").split("\n"), "## end"], start=1):
        if line.startswith("## "):
            if steps:
                found.append((title, facts, steps))
            title, facts, steps = line[3:].strip(), {}, []
        elif fact := _FACT.match(line):
            facts[fact[1]] = fact[2]
        elif line.startswith("| ") and not line.startswith(("| step", "|---")):
            steps.append(_step(path, number, line))
    return found


def page(title: str, intro: str, histories: list[History]) -> str:
    """The text of a golden page; `read` gives the histories back."""
    return "\n".join([f"# {title}", "", intro, "", *_sections(histories)]) + "\n"


def _sections(histories: list[History]) -> Iterator[str]:
    for history in histories:
        vector = history.vector or {}
        generation = next(name for name, version in _VERSIONS.items() if version == history.version)
        yield f"## {history.id}"
        yield ""
        yield from _facts(vector, generation) if vector else _window_facts(history.params, generation)
        yield ""
        yield "| step | side | key | value | ts | results |"
        yield "|---|---|---|---|---|---|"
        for number, step in enumerate(history.steps, start=1):
            results = "; ".join(f"{text_of(r.key)} = {text_of(r.value)} @{r.ts}" for r in step.expect or ())
            cells = (number, step.topic, text_of(step.key), text_of(step.value), step.ts, results)
            yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
        yield ""


def _facts(vector: Mapping[str, Any], generation: str) -> Iterator[str]:
    yield f"- operator: {vector['operator']}"
    if vector["join_type"] is None:
        yield f"- fold: {vector['params']['operators'][0]['type']}"
    else:
        yield f"- type: {vector['join_type']}"
    yield f"- generation: {generation}"
    if vector["joiner"] is not None:
        yield f"- joiner: {vector['joiner']}"
    if "before_ms" in vector["params"]:
        yield _WINDOW_FACT.format_map(vector["params"])
    yield from (f"- {fact}: {vector[name]}" for fact, name in _FUNCTIONS.items() if name in vector)
    if "note" in vector:
        yield f"- {vector['note'].replace(' ', ': ')} ms"
    yield from (f"- grace: {o['grace_ms']} ms" for o in vector["params"].get("operators", ()) if "grace_ms" in o)


def _window_facts(params: Mapping[str, Any], generation: str) -> Iterator[str]:
    if "match" in params:
        yield "- operator: stream-match"
        yield f"- type: {params['type']}"
        yield f"- match: {params['match']}"
        yield _WINDOW_FACT.format_map(params)
        yield f"- generation: {generation}"
        return
    if "since" in params:
        yield "- operator: expiry"
        yield f"- ttl: {params['ttl_ms']} ms"
        yield f"- since: {params['since']}"
        yield f"- generation: {generation}"
        return
    if "types" in params:
        yield "- operator: multi-join"
        yield f"- type: {', '.join(params['types'])}"
        yield "- joiner: all values, a + between two"
        yield f"- generation: {generation}"
        return
    if "by" in params:
        within = params["within_ms"]
        yield "- operator: distinct"
        yield f"- by: {params['by']}"
        yield f"- within: {'for ever' if within is None else f'{within} ms'}"
        yield f"- generation: {generation}"
        return
    lengths = "".join(f", {name[:-3]} {ms} ms" for name, ms in params.items() if name.endswith("_ms"))
    yield "- operator: window-aggregate"
    yield f"- fold: {params['agg']}"
    yield f"- generation: {generation}"
    yield f"- windows: {params['window']}{lengths}{', results on close' if params.get('emit') == 'close' else ''}"
    if "suppress" in params:
        held = params["suppress"]
        until = "windows close" if held["until"] == "window_closes" else f"{held['ms']} ms have passed"
        yield f"- held: until {until}"


def history_of(path: Path | str, title: str, facts: dict[str, str], steps: list[RecordedStep]) -> History:
    """The history of a section; path and title are for messages.

    Raises
    ------
    RecordingError : a fact is missing, or does not read.
    """
    owned = {
        "distinct": ("within", "by"),
        "expiry": ("ttl", "since"),
        "stream-match": ("type", "match", "window"),
        "three-way": ("type", "then"),
        "table-set": ("type",),
    }
    wanted = ("fold",) if "fold" in facts else owned.get(facts.get("operator", ""), ("type", "joiner"))
    missing = {"operator", "generation", *wanted} - set(facts)
    if missing:
        raise RecordingError(f"{path}: section {title!r} does not say its {sorted(missing)}")
    of_kind = _of_kind(path, title, facts)
    if of_kind is not None:
        return History(title, *of_kind, facts["generation"], _VERSIONS[facts["generation"]], tuple(steps))
    vector: dict[str, Any] = {
        "name": f"golden.{title}",
        "operator": facts["operator"],
        "join_type": facts.get("type"),
        "joiner": facts.get("joiner"),
        **{name: facts[fact] for fact, name in _FUNCTIONS.items() if fact in facts},
        "params": _params(path, title, facts),
        "inputs": sorted({str(step.topic) for step in steps}),
        "observes_changes": False,
        "emits_text": "fold" in facts,
    }
    if "history" in facts:
        vector["note"] = f"history {_ms(facts['history'])}"
    if facts["operator"] == "table-aggregate":
        vector["grouping"] = "probe"
    return History(
        id=title,
        kind=f"vector:{facts['operator']}",
        params={},
        semantics=facts["generation"],
        version=_VERSIONS[facts["generation"]],
        steps=tuple(steps),
        vector=vector,
    )


def _of_kind(path: Path | str, title: str, facts: dict[str, str]) -> tuple[str, dict[str, Any]] | None:
    """Kind and parameters of a history; None where the operator is told as recorded vectors tell it."""
    if facts["operator"] in _WTABLES:
        params = _windows(path, title, facts) | _of_wtable(path, title, facts)
        return facts["operator"].replace("-", "_"), params
    if facts["operator"] == "window-aggregate":
        return "windowed_aggregate", _windows(path, title, facts) | _held(path, title, facts)
    if facts["operator"] == "stream-match":
        params = {"type": facts["type"], "match": facts["match"], **_window(path, title, facts["window"])}
        return "stream_match", params
    if facts["operator"] == "expiry":
        return "expiry", {"ttl_ms": _ms(facts["ttl"]), "since": facts["since"]}
    if facts["operator"] == "distinct":
        within = None if facts["within"] == "for ever" else _ms(facts["within"])
        return "distinct", {"within_ms": within, "by": facts["by"]}
    if facts["operator"] == "three-way":
        return "three_way", {"type": facts["type"], "type2": facts["then"]}
    if facts["operator"] == "multi-join":
        return "multi_join", {"types": facts["type"].split(", ")}
    return None


def _params(path: Path | str, title: str, facts: dict[str, str]) -> dict[str, Any]:
    if "fold" in facts:
        return {"operators": [{"op": facts["operator"], "type": facts["fold"]}], "stores": []}
    if "history" in facts:
        grace = {"grace_ms": _ms(facts["grace"])} if "grace" in facts else {}
        operator = {"op": facts["operator"], "type": facts["type"], **grace}
        return {"operators": [operator], "stores": [{"versioned": True}]}
    return _window(path, title, facts["window"]) if "window" in facts else _WIDE.get(facts["operator"], {})


def _ms(text: str) -> int:
    """A length of time as a page has it."""
    return int(text.removesuffix(" ms"))


def _window(path: Path | str, title: str, text: str) -> dict[str, int]:
    match = _WINDOW.match(text)
    if match is None:
        raise RecordingError(
            f"{path}: section {title!r}: a window is '1 ms before, 1 ms after, grace 0 ms', not {text!r}"
        )
    return {name: int(number) for name, number in match.groupdict().items()}


def _windows(path: Path | str, title: str, facts: Mapping[str, str]) -> dict[str, Any]:
    match = _WINDOWS.match(facts.get("windows", ""))
    if match is None:
        raise RecordingError(
            f"{path}: section {title!r}: windows are 'tumbling, size 10 ms, grace 5 ms', not {facts.get('windows')!r}"
        )
    lengths = {f"{name}_ms": int(ms) for name, ms in _LENGTH.findall(match["lengths"])}
    emit = {"emit": "close"} if match["emit"] else {}
    return {"window": match["window"], "agg": facts["fold"], **lengths, **emit}


def _of_wtable(path: Path | str, title: str, facts: Mapping[str, str]) -> dict[str, Any]:
    """Of a join with a table by key and window: its type, how long windows are kept, and which ones meet."""
    missing = {"type", "keep"} - set(facts)
    if missing or facts["joiner"] != "L + '+' + R":
        raise RecordingError(f"{path}: section {title!r} says {sorted(missing) or 'another joiner'}")
    params: dict[str, Any] = {"type": facts["type"], "keep_ms": int(facts["keep"].removesuffix(" ms"))}
    if "shift" in facts:
        params["previous"] = int(facts["shift"].removeprefix("previous "))
    if "both" in facts:
        params["topic"] = facts["both"]
    return params


def _held(path: Path | str, title: str, facts: Mapping[str, str]) -> dict[str, Any]:
    if "held" not in facts:
        return {}
    match = _HELD.match(facts["held"])
    if match is None:
        raise RecordingError(
            f"{path}: section {title!r}: changes are held 'until windows close' or 'until 10 ms have passed', "
            f"not {facts['held']!r}"
        )
    until: dict[str, Any] = (
        {"until": "window_closes"} if match["close"] else {"until": "time_limit", "ms": int(match["ms"])}
    )
    return {"suppress": until}


def _step(path: Path, number: int, line: str) -> RecordedStep:
    cells = [cell.strip().replace("\\|", "|") for cell in _BAR.split(line.strip().strip("|"))]
    if len(cells) != 6:
        raise RecordingError(f"{path}: line {number}: six cells are wanted, not {len(cells)}: {line}")
    _, side, key, value, ts, results = cells
    expect = tuple(_result(path, number, text) for text in results.split("; ") if text)
    return RecordedStep(side, value_of(key), value_of(value), int(ts), expect)


def _result(path: Path, number: int, text: str) -> Result:
    match = _RESULT.match(text)
    if match is None:
        raise RecordingError(f"{path}: line {number}: a result reads 'key = value @ts', not {text!r}")
    return Result(_key(match["key"]), value_of(match["value"]), int(match["ts"]))


def _key(text: str) -> Any:
    match = _KEY.match(text)
    return value_of(text) if match is None else Windowed(match["key"], int(match["start"]), int(match["end"]))


def text_of(value: Any) -> str:
    """A key or value as a page has it; that of a window has both ends."""
    if isinstance(value, Windowed):
        return f"{value.key} {value.start}..{value.end}"
    return "null" if value is None else str(value)


def value_of(text: str) -> str | None:
    """A value from what a page has."""
    return None if text == "null" else text
