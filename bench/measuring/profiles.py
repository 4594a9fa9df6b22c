"""Where a turn's CPU goes in its second half: threads from /proc, tasks by flight recorder, workers by samples.

The totals are the kernel's, thread by thread and process by process; the recording (part of every JDK) only says
how the threads that run tasks share theirs out, the samples (`sampled_daemon`) how the Python workers do. The
recorder sees Java code alone: what a task spends in native calls is shared out like the rest of it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from bench.measuring.measure import Usage
from bench.measuring.sampled_daemon import FOLDER

RECORDING, SAMPLES = "flight.jfr", "samples"
Rules = Sequence[tuple[str, str]]
"""(pattern of a frame, part): the innermost frame that any pattern fits decides; of several, the first."""

THREADS: Rules = (
    ("Executor task", "JVM tasks"),
    ("C[12] Compiler", "JVM: compiler (C1, C2)"),
    ("GC Thread|G1 |VM Thread", "JVM: garbage collector"),
    ("rocksdb|state-store-mai", "JVM: RocksDB's own threads, state maintenance"),
    ("stateConnection", "JVM: state server"),
    ("stream execution|stream executio", "JVM: planning and running batches"),
    ("Thread$", "JVM: calls from Python (planning in foreachBatch)"),
    ("dag-|dispatcher|task-result|spark-listener|element-tracki|block-manager|map-output", "JVM: scheduler"),
    ("programs", "programs started by the JVM (chmod ...)"),
    ("JFR", "profiling itself"),
    ("", "JVM: other"),
)
JAVA: Rules = (
    (r"\.janino\.|codegen\.Code|CodeGenerator", "compiling generated code"),
    (r"apache\.kafka\.|sql\.kafka010", "Kafka source"),
    (r"fasterxml\.jackson|JacksonGenerator|JacksonParser", "JSON in Spark's columns"),
    (r"parquet|execution\.datasources|execution\.vectorized", "file source"),
    (r"ArrowOutput|ArrowColumnVector|ArrowStreamReader|ArrowReader|ColumnarBatchRow", "rows from Python"),
    (r"ArrowInput|execution\.arrow\.|ArrowStreamWriter", "rows to Arrow to Python"),
    (r"rocksdb|streaming\.state\.|TransformWithState", "state"),
    (r"execution\.exchange|spark\.shuffle\.|UnsafeRowSerializer|spark\.storage\.|Shuffle|UnsafeRowChecksum", "shuffle"),
    (r"execution\.Sort|unsafe\.sort", "sort by label"),
    (r"GeneratedClass|BufferedRowIterator|catalyst\.expressions", "columns (generated code)"),
    (r"spark\.scheduler\.|spark\.executor\.|spark\.serializer\.", "starting and ending tasks"),
    (r"spark\.api\.python|execution\.python", "handling Python workers"),
)
PYTHON: Rules = (
    (r"importlib|zipimport", "imports"),
    (
        r"_worker/formats/json\.py:(_json_encode|encoded|_joined|_with_nulls|_escaped|_content|_strings|_exponents)",
        "JSON: written",
    ),
    (r"_worker/formats/json\.py", "JSON: read"),
    (r"_worker/formats/serdes\.py", "keys and values from bytes"),
    # a function calls kernels of Arrow, which it shares with operators
    (r"_engine/expressions/", "functions in the level"),
    (r"_worker/(kafka_client|writers/kafka\.py:send)", "produce"),
    (r"_worker/writers/kafka\.py", "sink: into order, to bytes"),
    # what serves the calls of both lies in between: it belongs to whoever calls
    (r"_worker/spark_worker\.py|streaming/.*client", "state: sent to and from the state server"),
    (r"pyspark/worker|pandas/serializers|sql/", "Spark's worker: rows and Arrow"),
    (r"_engine/state/cache\.py", "state: the machine's cache"),
    (r"_engine/state/(runs\.py:.*(point|rows|range|as_of)|lookups\.py)", "state: lookups"),
    (r"_engine/state/(runs|manifest|merge)\.py", "state: new runs and merges"),
    (r"_engine/operators/__init__\.py:run_operator", "level: operators"),
    (r"LevelProcessor", "level: blobs in and out"),
    (r"pack\.py:Pack\.", "pack"),
    (r"pack\.py:Unpack\.", "unpack"),
    (r"pack\.py:UnpackExits\.", "unpack (ordering exchange)"),
    (r"wall_clock\.py", "wall clock"),
)


def environment(work: Path) -> dict[str, str]:
    """Environment of a turn that is profiled; makes the folder of its samples."""
    (work / SAMPLES).mkdir()
    given = {name: os.environ.get(name, "") for name in ("BENCH_JAVA", "BENCH_CONF")}
    return {
        FOLDER: str(work / SAMPLES),
        "BENCH_JAVA": f"{given['BENCH_JAVA']} {_java_options(work)}".strip(),
        "BENCH_CONF": f"{given['BENCH_CONF']};spark.python.daemon.module=bench.measuring.sampled_daemon".strip(";"),
    }


def _java_options(work: Path) -> str:
    """Options of a JVM that records itself."""
    recording = f"filename={work / RECORDING},settings=profile,dumponexit=true"
    return f"-XX:StartFlightRecording={recording} -XX:FlightRecorderOptions=stackdepth=128"


def parts(usage: Usage, begin: float, end: float, work: Path | None = None) -> dict[str, float]:
    """CPU-seconds between two times by part, from the most on.

    Parameters
    ----------
    usage : with parts.
    begin, end : seconds since the epoch.
    work : folder with recording and samples; None: there are none, threads are all that is known.
    """
    found: defaultdict[str, float] = defaultdict(float)
    for name, seconds in usage.parts_between(begin, end).items():
        found[_part_of(name)] += seconds
    if work is not None:
        _share_out(found, "JVM tasks", _recorded(work / RECORDING, begin, end))
        _share_out(found, "Python workers", sampled(work, begin, end))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def programs(work: Path, begin: float, end: float) -> Counter[str]:
    """How often the JVM started which program between two times, by its first two words."""
    counts: Counter[str] = Counter()
    for event in _events(work / RECORDING, "jdk.ProcessStart", begin, end):
        command = next(line.split('"')[1] for line in event if "command = " in line)
        counts[" ".join(command.split()[:2])] += 1
    return counts


def part_of(stack: Iterable[str], rules: Rules) -> str:
    """The part that a stack belongs to, given from its innermost frame on."""
    for frame in stack:
        for pattern, part in rules:
            if re.search(pattern, frame):
                return part
    return "other"


def _part_of(name: str) -> str:
    if name.startswith("java/"):
        return part_of([name.removeprefix("java/")], THREADS)
    return {"driver": "Python: driver", "python": "Python workers"}.get(name, f"program {name}")


def _share_out(found: dict[str, float], whole: str, shares: Mapping[str, float]) -> None:
    """Replace a part by its own parts."""
    total = sum(shares.values())
    if total:
        seconds = found.pop(whole, 0.0)
        found.update({f"{whole}: {name}": seconds * share / total for name, share in shares.items()})


def _recorded(recording: Path, begin: float, end: float) -> Counter[str]:
    """Samples of the threads that run tasks, by part."""
    counts: Counter[str] = Counter()
    for event in _events(recording, "jdk.ExecutionSample", begin, end):
        if any("sampledThread" in line and "Executor task" in line for line in event):
            counts[part_of((line for line in event if " line:" in line), JAVA)] += 1
    return counts


def _events(recording: Path, kind: str, begin: float, end: float) -> Iterator[list[str]]:
    """Lines of the recorded events of a kind between two times."""
    command = ["jfr", "print", "--events", kind, "--stack-depth", "128", str(recording)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as printing:
        event: list[str] = []
        assert printing.stdout is not None
        for line in printing.stdout:
            event.append(line)
            if line == "}\n":
                if began_between(event, begin, end):
                    yield event
                event = []


def began_between(event: Sequence[str], begin: float, end: float) -> bool:
    """Whether an event began between two times: of its own time the recorder tells the time of day alone."""
    shown = next((line.split("=")[1].strip() for line in event if "startTime" in line), None)
    if shown is None:
        return False
    start = datetime.fromtimestamp(begin)
    at = datetime.strptime(shown, "%H:%M:%S.%f")
    seconds = at.hour * 3600 + at.minute * 60 + at.second + at.microsecond / 1e6
    first = start.hour * 3600 + start.minute * 60 + start.second + start.microsecond / 1e6
    return (seconds - first) % 86_400 <= end - begin


def sampled(work: Path, begin: float, end: float, rules: Rules = PYTHON) -> dict[str, float]:
    """CPU-seconds in the workers' samples between two times, by part.

    Parameters
    ----------
    work : folder of the turn.
    rules : say which part a stack belongs to.
    """
    found: defaultdict[str, float] = defaultdict(float)
    for file in (work / SAMPLES).iterdir():
        for line in file.read_text(errors="replace").splitlines():
            at, own, others, stack = line.split(" ", 3)
            if begin <= float(at) <= end:
                found[part_of(stack.split(";"), rules)] += float(own)
                found["other threads (Arrow, Kafka's client)"] += float(others)
    return found
