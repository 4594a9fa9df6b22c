"""What the tests of windowed stream joins share: recordings, the oracle's word, a small topology."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proof.arrow import arrow_builder
from proof.conformance_runners import run_oracle
from proof.engine import EngineDriver
from proof.oracle import functions as text
from proof.oracle.semantics import Semantics
from proof.recordings import History, RecordedStep, read
from proof.runners.library import ArrowLibrary
from watersmeet.windows import JoinWindows

HISTORIES = Path(__file__).parent.parent / "recordings" / "histories"
PLUS = ArrowLibrary().lift(text.plus, "string")
METHOD = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def histories(name: str, every: int = 1) -> list[History]:
    """Each `every`-th history of a file."""
    return read(HISTORIES / f"{name}.jsonl.gz")[::every]


def repaired(history: History) -> Any:
    """What watersmeet is to say: the oracle with every row of section A repaired."""
    return run_oracle(history, Semantics(history.version, faithful=False))


def joined(how: str, windows: JoinWindows, *, rekeyed: bool = False) -> Any:
    builder = arrow_builder("time")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    left = left.select_key(lambda key, value: key) if rekeyed else left
    getattr(left, METHOD[how])(right, PLUS, windows).to("out")
    return builder


def run(driver: EngineDriver, steps: list[RecordedStep], size: int) -> list[tuple[Any, Any, int]]:
    results = []
    for start in range(0, len(steps), size):
        for step in steps[start : start + size]:
            driver.pipe(str(step.topic), step.key, step.value, ts=step.ts)
        driver.run_batch()
        results += [(r.key, r.value, r.ts) for r in driver.read("out")]
    return results


def steps_of(
    records: Sequence[tuple[str, str | None, bool, int]], topics: dict[str, str] | None = None, start: int = 20
) -> list[RecordedStep]:
    """Records whose timestamps are steps from one to the next; every seventh value is null."""
    steps, ts = [], start
    for number, (topic, key, present, step) in enumerate(records):
        ts = max(0, ts + step)
        value = f"{topic[0]}{number}" if present or number % 7 else None
        steps.append(RecordedStep((topics or {}).get(topic, topic), key, value, ts, ()))
    return steps


def history_of(kind: str, how: str, window: tuple[int, int, int], eager: bool, steps: list[RecordedStep]) -> History:
    params = {
        "type": how,
        "before_ms": window[0],
        "after_ms": window[1],
        "grace_ms": window[2],
        "eager": eager,
    }
    return History("random", kind, params, "current", "4.3.0", tuple(steps))
