"""A level as Spark gets it: who asks for its variables alone needs nothing of watersmeet's. No session needed."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming import StatefulProcessor

from watersmeet._spark.dataflow.level import LevelOperators, LevelProcessor, pickled_small
from watersmeet._worker.counts import Measures
from watersmeet._worker.spark_worker import MAP, VALUE, SparkChunkStore
from watersmeet._worker.wire import Labels, WireSettings

ASKED = """
import pickle, sys

class Handle:
    def getValueState(self, *given):
        print(given)

    def getMapState(self, *given):
        print(given)

processor = pickle.load(open(sys.argv[1], "rb"))
processor.init(Handle())
processor.close()
print([name for name in ("watersmeet", "numpy", "pandas", "pyarrow") if name in sys.modules])
"""


class Handle:
    """Gives what it is asked for as it was asked."""

    def getValueState(self, *given: Any) -> Any:
        return given

    getMapState = getValueState


class Told(StatefulProcessor):
    """A level that says what it was given, and where its state is."""

    def init(self, handle: Any) -> None:
        self.store = SparkChunkStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        yield key, list(rows), self.store._manifest, self.store._chunks

    def close(self) -> None:
        pass


def pickled(level: StatefulProcessor) -> bytes:
    content: bytes = CloudPickleSerializer().dumps(pickled_small(level))  # type: ignore[no-untyped-call]
    return content


def test_a_process_that_asks_for_the_variables_alone_imports_nothing_of_watersmeets(tmp_path: Path) -> None:
    file = tmp_path / "level"
    file.write_bytes(
        pickled(
            LevelProcessor(
                LevelOperators({}, {}, {}), WireSettings(Labels(1, 1, (0,), (1,)), Measures({}, frozenset()))
            )
        )
    )
    ended = subprocess.run([sys.executable, "-c", ASKED, str(file)], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [str(VALUE), str(MAP), "[]"]


def test_the_level_itself_gets_the_rows_and_the_variables_that_were_declared() -> None:
    processor = pickle.loads(pickled(Told()))
    for _ in range(2):  # as for two tasks of one process
        processor.init(Handle())
        assert list(processor.handleInputRows((7,), iter([1, 2]), None)) == [((7,), [1, 2], VALUE, MAP)]


def test_large_functions_stay_below_the_size_that_spark_would_broadcast() -> None:
    level: Any = Told()
    level.functions = [f"when {number % 100} then x" for number in range(200_000)]
    assert len(pickled(level)) < 1 << 20 < len(CloudPickleSerializer().dumps(level))  # type: ignore[no-untyped-call]
