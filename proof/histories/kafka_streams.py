"""Drawn topologies beside the real Kafka Streams: oracle and engine against Kafka Streams' own test driver.

The soak holds the engine against the oracle; this holds the oracle against Kafka Streams, over blueprints that are
drawn in the same way, and the engine where watersmeet promises the same. `dev/record/Programs.java` builds a blueprint
with Kafka Streams' DSL. The oracle has every oddity of Kafka Streams here; what differs all the same and is a row of
section A is not drawn (`_is_known`).
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from dev.jars import ROOT, classpath
from dev.jvm import find_java
from proof.histories.blueprint import Blueprint, Op, Ref, as_data, name_of
from proof.histories.case import Case, of_json, to_json
from proof.histories.check import (
    Difference,
    Steps,
    cuts_of,
    driver_of,
    first_difference,
    run_engine,
    topology_of,
)
from proof.histories.draw import draw_blueprint, draw_records
from proof.histories.draw_order import with_clock
from proof.histories.kinds import named
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.kinds.registry import goes_by_wall, holds_back, is_limited, oracle_by_op
from proof.histories.kinds.streams import grace_of
from proof.histories.kinds.suppressed import aggregate_above
from proof.histories.last_results import all_above, forks, out_of_step
from proof.histories.report import page
from proof.histories.shrink import shrink
from proof.oracle.functions import ref
from proof.oracle.graph import EngineFailsError
from proof.oracle.records import Result, Windowed
from proof.oracle.semantics import AS_BY_TOPICS, Semantics

PROGRAMS = ROOT / "dev" / "record" / "Programs.java"
KINDS_OF_KAFKA = frozenset(
    (
        *("stream", "table", "global", "filter", "map_values", "select_key", "select_one", "map", "flat_map"),
        *("flat_map_values", "peek", "merge", "split", "repartition", "to", "to_table", "to_stream", "table_to"),
        *("table_filter", "table_map_values", "table_table", "foreign_key", "stream_table", "stream_global"),
        *("stream_stream", "stream_aggregate", "cogroup", "table_aggregate", "window_aggregate", "window_cogroup"),
        *("windowed_filter", "windowed_map_values", "windowed_stream", "windowed_group"),
        *("suppress", "windowed_suppress", "process", "transform_values"),
    )
)
"""The kinds that `Programs.java` builds; the others are watersmeet's own, or another generation's."""
_MANY_TABLES = frozenset(
    (
        *("stream", "table", "global", "map_values", "to", "to_table", "to_stream", "table_to", "table_filter"),
        *("table_map_values", "table_table", "foreign_key", "stream_table", "stream_global", "stream_aggregate"),
        *("table_aggregate", "transform_values"),
    )
)
_MANY_PROCESSORS = frozenset(
    (
        *("stream", "table", "map_values", "merge", "to", "to_table", "table_to", "stream_table", "stream_aggregate"),
        *("window_aggregate", "stream_stream", "process"),
    )
)
_MEET_OTHERWISE = frozenset(
    ("select_key", "select_one", "map", "flat_map", "repartition", "windowed_stream", "suppress", "windowed_suppress")
)
"""Kinds behind which Kafka Streams has what one record causes by several ways in another order."""
_LETS_TIME_PASS = frozenset(("stream", "map_values", "peek", "merge", "to"))
"""What each record goes through at once: a processor behind it knows the time of its inputs."""
_REFUSED = "TopologyException"
Rows: TypeAlias = Mapping[Any, tuple[str, int]]
"""Value and timestamp by key."""


class Outcome(NamedTuple):
    """What one side makes of a case: the results of each record, and in the end the rows of its named stores."""

    steps: Steps
    stores: Mapping[str, Rows]


KafkaStreams: TypeAlias = Callable[[Case], Outcome | str]
"""What it makes of a case, or why Kafka Streams refuses the topology."""
Beside: TypeAlias = Callable[[Case, Outcome], Difference | None]
"""The first difference from what Kafka Streams made of a case."""


def drawn_program(seed: int, number: int) -> Case:
    """The topology and the records of a seed and a number."""
    dice = Dice(f"{seed}/program/{number}")
    kinds = (KINDS_OF_KAFKA, _MANY_TABLES, _MANY_PROCESSORS, KINDS_OF_KAFKA)[number % 4]
    while True:
        drawn = draw_blueprint(dice, keys="string", generation="current", kinds=kinds, most=7)
        blueprint = _with_histories(dice, drawn) if number % 4 == 1 else drawn
        if _is_known(blueprint := _transforming(dice, blueprint)):
            break
    records = draw_records(dice, blueprint)
    # the test driver takes no negative timestamps, and an empty text is null behind a foreign-key join
    case = Case(blueprint, tuple(r._replace(ts=max(0, r.ts), value=r.value or None) for r in records))
    if any(op.kind == "process" for op in blueprint.ops):
        # a record without a key moves the time of a task, and ends before a processor here
        case = replace(case, records=tuple(r._replace(key="a") if r.key is None else r for r in case.records))
    case = replace(with_clock(dice, case), idle_after=0) if goes_by_wall(blueprint) else case
    # the engine takes them in batches, on some shards; the limits of a buffer hold for each shard
    cuts = sorted(dice.number(0, len(case.records)) for _ in range(dice.number(0, 3)))
    return replace(case, cuts=tuple(cuts), shards=1 if is_limited(blueprint) else dice.pick((1, 2, 3)))


def _with_histories(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """Some more of its tables with a history."""
    ops = [
        replace(op, params={**op.params, "history": choices.pick((0, 5, 30, 200))})
        if op.kind in ("table", "to_table") and choices.chance(40)
        else op
        for op in blueprint.ops
    ]
    return replace(blueprint, ops=tuple(ops))


def _transforming(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """With transformers of values in the place of some functions; of Kafka Streams' own none sends anything."""
    program: dict[str, Any] = {"record": [], "timer": [], "lasts": {}}
    ops = [
        Op("transform_values", op.inputs, {**op.params, **program})
        if op.kind == "table_map_values" and choices.chance(50)
        else op
        for op in blueprint.ops
    ]
    return replace(blueprint, ops=tuple(ops))


@contextmanager
def kafka_streams() -> Iterator[KafkaStreams]:
    """Kafka Streams' test driver in a process of its own, to be asked for the results of cases."""
    with tempfile.TemporaryDirectory() as folder:
        options = [f"-Djava.io.tmpdir={folder}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
        command = [find_java(), *options, "-cp", classpath("streams"), str(PROGRAMS)]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "encoding": "utf-8"}
        with subprocess.Popen(command, **pipes) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            lines, answers = process.stdin, process.stdout

            def results(case: Case) -> Outcome | str:
                lines.write(_as_json(case) + "\n")
                lines.flush()
                answer = json.loads(answers.readline())
                if "error" in answer:
                    return str(answer["error"])
                stores = answer["stores"].items()
                rows = {name: {key: (value, ts) for key, value, ts in listed} for name, listed in stores}
                return Outcome(_steps(answer["steps"]), rows)

            yield results
            lines.close()


def record_programs(seed: int, count: int, path: Path) -> None:
    """Write so many programs of a seed and what Kafka Streams makes of them, a line each."""
    lines = list[str]()
    with kafka_streams() as kafka:
        for number in range(count):
            outcome = kafka(case := drawn_program(seed, number))
            if not isinstance(outcome, str):
                recording = {"case": to_json(case), "steps": _written(outcome.steps), "stores": outcome.stores}
                lines.append(json.dumps(recording, separators=(",", ":")) + "\n")
    # without the time of day, so that the same seed gives the same bytes
    path.write_bytes(gzip.compress("".join(lines).encode("utf-8"), mtime=0))


def recorded_programs(path: Path) -> Iterator[tuple[Case, Outcome]]:
    """The programs of such a file, and what Kafka Streams made of them."""
    for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines():
        recording = json.loads(line)
        stores = {name: {key: tuple(row) for key, row in rows.items()} for name, rows in recording["stores"].items()}
        yield of_json(recording["case"]), Outcome(_steps(recording["steps"]), stores)


def check_program(case: Case, kafka: KafkaStreams, also: Beside | None = None) -> Difference | None:
    """The first record for which an output differs: of each output the order counts.

    Parameters
    ----------
    also : holds something else against what Kafka Streams made, where the oracle makes the same.
    """
    got = kafka(case)
    if not isinstance(got, str):
        return beside_oracle(case, got) or (beside_engine if also is None else also)(case, got)
    try:
        of_oracle(case)
    except EngineFailsError:
        return None
    return None if _REFUSED in got else Difference(case, "error", f"Kafka Streams fails: {got}")


def of_oracle(case: Case, semantics: Semantics | None = None) -> Outcome:
    """What the oracle makes of a case, with every oddity of Kafka Streams unless told otherwise."""
    topology, built = oracle_by_op(case.blueprint, semantics or Semantics(faithful=True))
    nodes: list[list[Any]] = list(built)
    steps: Steps = []
    for number, record in enumerate(case.records, start=1):
        results = list(topology.pipe(record.source, record.key, record.value, record.ts, record.partition))
        for wall in (wall for place, wall in case.clock if place == number):
            results += topology.show_wall_clock(wall, 0)
        steps.append(results)
    known = set(_keys_of(case))
    asked = known | {result.key for step in steps for result in step if isinstance(result.key, str)}
    stores = dict[str, Rows]()
    for number, op in enumerate(case.blueprint.ops):
        if _has_named_store(op):
            # of a table with a history Kafka Streams has no list of its keys
            rows = {key: nodes[number][0].get(key) for key in sorted(known if "history" in op.params else asked)}
            stores[name_of(number)] = {key: (str(row.value), row.ts) for key, row in rows.items() if row is not None}
    return Outcome(steps, stores)


def _has_named_store(op: Op) -> bool:
    return bool(op.params.get("stored") or "history" in op.params) and not op.kind.startswith("window")


def _keys_of(case: Case) -> list[str]:
    """The keys that rows may have: those of records, and those that functions make of their values."""
    values = [record.value for record in case.records]
    keys = {"a", *(record.key for record in case.records), *(piece for value in values for piece in _refs(value))}
    keys |= {f"{key}x" for key in keys if key is not None}
    return sorted(key for key in keys if key is not None)


def _refs(value: str | None) -> list[str | None]:
    return [] if value is None else [ref(value), *map(ref, value.split("|"))]


def beside_oracle(case: Case, got: Outcome) -> Difference | None:
    """The same of results that are there."""
    try:
        expected = of_oracle(case)
    except Exception as error:  # a case that the oracle cannot run is a finding too
        return Difference(case, "oracle", f"{type(error).__name__}: {error}")
    step = first_difference(got.steps, expected.steps, lambda result: result.sink)
    if step is not None:
        return Difference(case, "results", f"step {step}: not as in Kafka Streams", step, got.steps, expected.steps)
    for name, rows in got.stores.items():
        if rows != expected.stores[name]:
            message = f"the store of {name} has {rows} in Kafka Streams, and here {expected.stores[name]}"
            return Difference(case, "stores", message, None, got.steps, expected.steps)
    return None


def beside_engine(case: Case, got: Outcome) -> Difference | None:
    """The same of the engine, in batches and on shards, where nothing of section A has a say."""
    if not _is_ours(case, got):
        return None
    try:
        made = run_engine(case, driver_of(case, topology_of(case.blueprint)), cuts_of(case))
    except Exception as error:  # whatever the engine raises is the finding
        return Difference(case, "engine", f"{type(error).__name__}: {error}", expected=got.steps)
    return _first(case, "engine", got.steps, made)


def beside_driver(case: Case, got: Outcome) -> Difference | None:
    """The same of the public test driver, over Spark's own Columns."""
    from proof.histories.spark import run_on_spark

    if case.clock or not _is_ours(case, got):
        return None
    return _first(case, "driver", got.steps, run_on_spark((case,))[0])


def _is_ours(case: Case, got: Outcome) -> bool:
    """Whether watersmeet promises what Kafka Streams made: no row of section A counts, nor the order of messages."""
    promised = Semantics(faithful=False, rows=AS_BY_TOPICS)
    return not out_of_step(case.blueprint) and of_oracle(case, promised).steps == got.steps


def _first(case: Case, check: str, expected: Steps, got: Steps) -> Difference | None:
    step = first_difference(expected, got, lambda result: result.sink)
    if step is None:
        return None
    return Difference(case, check, f"step {step}: not as in Kafka Streams", step, expected, got)


def check_programs(
    seed: int, count: int, say: Callable[[str], None], *, shown: int = 5, also: Beside | None = None
) -> int:
    """How many programs of a seed differ; the first ones are shrunk and said."""
    differ = 0
    with kafka_streams() as kafka:
        for number in range(count):
            found = check_program(drawn_program(seed, number), kafka, also)
            if found is None:
                continue
            differ += 1
            if differ <= shown:
                smaller = shrink(
                    found, lambda case: check_program(case, kafka, also) if _is_known(case.blueprint) else None
                )
                say(f"FAILED program {number} of seed {seed}: expected is Kafka Streams\n{page(smaller)}")
    say(f"{count} programs of seed {seed} beside Kafka Streams: {differ} differ")
    return differ


def _as_json(case: Case) -> str:
    """A line for `Programs.java`."""
    ops = as_data(case.blueprint)["ops"]
    for (kind, _, params), (grace, closes) in zip(ops, _decisions(case.blueprint), strict=True):
        if kind == "stream_table":
            params.pop("grace", None)
            params |= {} if grace is None else {"grace": grace}
        if kind == "windowed_suppress":
            params["closes"] = closes
    records = [record[:4] for record in case.records]
    return json.dumps({"ops": ops, "records": records, "clock": case.clock, "keys": _keys_of(case)})


def _decisions(blueprint: Blueprint) -> Iterator[tuple[int | None, bool]]:
    """Of each operator what depends on those above it: the grace of its join; whether it waits for its windows."""
    _, built = oracle_by_op(blueprint, Semantics(faithful=True))
    nodes = list(built)
    for op in blueprint.ops:
        inputs = [nodes[ref.op][ref.port] for ref in op.inputs]
        grace = grace_of(op.params, inputs[1]) if op.kind == "stream_table" else None
        aggregate = aggregate_above(inputs[0]) if op.kind == "windowed_suppress" else None
        yield grace, aggregate is not None and bool(op.params["close"]) and aggregate.closes


def _is_known(blueprint: Blueprint) -> bool:
    """Whether Kafka Streams has all of it: folds of its own methods, and no cogroup that emits on close.

    Rows of section A that the oracle repairs always: a suppressed table joined with itself (44), a stream merged with
    itself (45), what goes through a repartition topic and around it (47), a filter of what is transformed (50).
    """
    for number, op in enumerate(blueprint.ops):
        higher = all_above(blueprint, Ref(number)) - {number}
        above = {blueprint.ops[place].kind for place in higher}
        meets = any(_meets_otherwise(blueprint.ops[place]) for place in (number, *higher))
        if forks(blueprint, number) and meets:
            return False
        if (op.kind == "merge" and op.inputs[0] == op.inputs[1]) or _filters_what_is_transformed(blueprint, op):
            return False
        if named.is_named(op.params.get("fold", "")) or (op.kind == "window_cogroup" and op.params["close"]):
            return False
        if op.kind == "process" and _asks_time(op):
            others = _sources(blueprint, _connected(blueprint, number)) - _sources(blueprint, higher)
            if others or not above <= _LETS_TIME_PASS:
                return False
    return True


def _filters_what_is_transformed(blueprint: Blueprint, op: Op) -> bool:
    """Whether a filter asks a transformer for the old values of its table, perhaps by way of mapped values."""
    above = blueprint.ops[op.inputs[0].op] if op.kind == "table_filter" else op
    while above.kind == "table_map_values" and not above.params.get("stored"):
        above = blueprint.ops[above.inputs[0].op]
    return op.kind == "table_filter" and above.kind == "transform_values" and not above.params.get("stored")


def _meets_otherwise(op: Op) -> bool:
    return op.kind in _MEET_OTHERWISE or bool(op.params.get("rekeys"))


def _asks_time(op: Op) -> bool:
    """Whether a processor goes by time.

    Kafka Streams punctuates behind the record of a task that moves time, and not before it: here authors look for what
    is due before each record, which is the same where all records of the task are theirs.
    """
    asks = any(word in ("time", "set_soon") for part in ("record", "timer") for word, *_ in op.params[part])
    return asks or holds_back(op)


def _connected(blueprint: Blueprint, number: int) -> set[int]:
    """The operators that are connected with one: those of its task, and others behind topics."""
    ways = [{place, *(ref.op for ref in op.inputs)} for place, op in enumerate(blueprint.ops)]
    found = {number}
    while more := {place for way in ways if way & found for place in way} - found:
        found |= more
    return found


def _sources(blueprint: Blueprint, numbers: set[int]) -> set[int]:
    return {number for number in numbers if blueprint.ops[number].kind in ("stream", "table")}


def _written(steps: Steps) -> list[Any]:
    return [[[r.sink, r.key, r.value, r.ts] for r in step] for step in steps]


def _steps(steps: list[Any]) -> Steps:
    return [[_result(*result) for result in step] for step in steps]


def _result(sink: str, key: Any, value: str | None, ts: int) -> Result:
    return Result(Windowed(*key) if isinstance(key, list) else key, value, ts, sink)
