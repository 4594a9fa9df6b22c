"""Drawn topologies beside the real Kafka Streams: the oracle against Kafka Streams' own test driver.

The soak holds the engine against the oracle; this holds the oracle against Kafka Streams, over blueprints that are
drawn in the same way. `dev/record/Programs.java` builds a blueprint with Kafka Streams' DSL. The oracle has every
oddity of Kafka Streams here; what differs all the same and is a row of section A is not drawn (`_is_known`).
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from dev.jars import ROOT, classpath
from dev.jvm import find_java
from proof.histories.blueprint import Blueprint, Ref, as_data
from proof.histories.case import Case, of_json, to_json
from proof.histories.check import Difference, Steps, first_difference
from proof.histories.draw import draw_blueprint, draw_records
from proof.histories.kinds import named
from proof.histories.kinds.choices import Dice
from proof.histories.kinds.registry import oracle_by_op
from proof.histories.kinds.streams import grace_of
from proof.histories.kinds.suppressed import aggregate_above
from proof.histories.last_results import all_above, forks
from proof.histories.report import page
from proof.histories.shrink import shrink
from proof.oracle.graph import EngineFailsError
from proof.oracle.records import Result, Windowed
from proof.oracle.semantics import Semantics

PROGRAMS = ROOT / "dev" / "record" / "Programs.java"
KINDS_OF_KAFKA = frozenset(
    (
        *("stream", "table", "global", "filter", "map_values", "select_key", "select_one", "map", "flat_map"),
        *("flat_map_values", "peek", "merge", "split", "repartition", "to", "to_table", "to_stream", "table_to"),
        *("table_filter", "table_map_values", "table_table", "foreign_key", "stream_table", "stream_global"),
        *("stream_stream", "stream_aggregate", "cogroup", "table_aggregate", "window_aggregate", "window_cogroup"),
        *("windowed_filter", "windowed_map_values", "windowed_stream", "windowed_group"),
        *("suppress", "windowed_suppress"),
    )
)
"""The kinds that `Programs.java` builds; the others are watersmeet's own, or another generation's."""
_MEET_OTHERWISE = frozenset(
    ("select_key", "select_one", "map", "flat_map", "repartition", "windowed_stream", "suppress", "windowed_suppress")
)
"""Kinds behind which Kafka Streams has what one record causes by several ways in another order."""
_REFUSED = "TopologyException"
KafkaStreams: TypeAlias = Callable[[Case], Steps | str]
"""Results per record, or why Kafka Streams refuses the topology."""


def drawn_program(seed: int, number: int) -> Case:
    """The topology and the records of a seed and a number."""
    dice = Dice(f"{seed}/program/{number}")
    while True:
        blueprint = draw_blueprint(dice, keys="string", generation="current", kinds=KINDS_OF_KAFKA, most=7)
        if _is_known(blueprint):
            break
    # the test driver takes no negative timestamps, and an empty text is null behind a foreign-key join
    records = draw_records(dice, blueprint)
    return Case(blueprint, tuple(r._replace(ts=max(0, r.ts), value=r.value or None) for r in records))


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

            def results(case: Case) -> Steps | str:
                lines.write(_as_json(case) + "\n")
                lines.flush()
                answer = json.loads(answers.readline())
                if "error" in answer:
                    return str(answer["error"])
                return _steps(answer["steps"])

            yield results
            lines.close()


def record_programs(seed: int, count: int, path: Path) -> None:
    """Write so many programs of a seed and what Kafka Streams makes of them, a line each."""
    lines = list[str]()
    with kafka_streams() as kafka:
        for number in range(count):
            steps = kafka(case := drawn_program(seed, number))
            if not isinstance(steps, str):
                lines.append(
                    json.dumps({"case": to_json(case), "steps": _written(steps)}, separators=(",", ":")) + "\n"
                )
    # without the time of day, so that the same seed gives the same bytes
    path.write_bytes(gzip.compress("".join(lines).encode("utf-8"), mtime=0))


def recorded_programs(path: Path) -> Iterator[tuple[Case, Steps]]:
    """The programs of such a file, and what Kafka Streams made of them."""
    for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines():
        recording = json.loads(line)
        yield of_json(recording["case"]), _steps(recording["steps"])


def check_program(case: Case, kafka: KafkaStreams) -> Difference | None:
    """The first record for which an output differs: of each output the order counts."""
    got = kafka(case)
    if not isinstance(got, str):
        return beside_oracle(case, got)
    try:
        of_oracle(case)
    except EngineFailsError:
        return None
    return None if _REFUSED in got else Difference(case, "error", f"Kafka Streams fails: {got}")


def of_oracle(case: Case) -> Steps:
    """What the oracle makes of a case, with every oddity of Kafka Streams."""
    topology, built = oracle_by_op(case.blueprint, Semantics(faithful=True))
    list(built)
    return [list(topology.pipe(r.source, r.key, r.value, r.ts, r.partition)) for r in case.records]


def beside_oracle(case: Case, got: Steps) -> Difference | None:
    """The same of results that are there."""
    try:
        expected = of_oracle(case)
    except Exception as error:  # a case that the oracle cannot run is a finding too
        return Difference(case, "oracle", f"{type(error).__name__}: {error}")
    step = first_difference(got, expected, lambda result: result.sink)
    if step is None:
        return None
    return Difference(case, "results", f"step {step}: not as in Kafka Streams", step, got, expected)


def check_programs(seed: int, count: int, say: Callable[[str], None], *, shown: int = 5) -> int:
    """How many programs of a seed differ; the first ones are shrunk and said."""
    differ = 0
    with kafka_streams() as kafka:
        for number in range(count):
            found = check_program(drawn_program(seed, number), kafka)
            if found is None:
                continue
            differ += 1
            if differ <= shown:
                smaller = shrink(found, lambda case: check_program(case, kafka) if _is_known(case.blueprint) else None)
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
    return json.dumps({"ops": ops, "records": [record[:4] for record in case.records]})


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
    itself (45), what goes through a repartition topic and around it (47).
    """
    for number, op in enumerate(blueprint.ops):
        above = {blueprint.ops[place].kind for place in all_above(blueprint, Ref(number))}
        if forks(blueprint, number) and above & _MEET_OTHERWISE:
            return False
        if op.kind == "merge" and op.inputs[0] == op.inputs[1]:
            return False
        if named.is_named(op.params.get("fold", "")) or (op.kind == "window_cogroup" and op.params["close"]):
            return False
    return True


def _written(steps: Steps) -> list[Any]:
    return [[[r.sink, r.key, r.value, r.ts] for r in step] for step in steps]


def _steps(steps: list[Any]) -> Steps:
    return [[_result(*result) for result in step] for step in steps]


def _result(sink: str, key: Any, value: str | None, ts: int) -> Result:
    return Result(Windowed(*key) if isinstance(key, list) else key, value, ts, sink)
