"""A level as Spark gets it: what a process only asks for its state variables needs nothing of watersmeet's.

When a query starts Spark asks each level for its variables, one level after the other, each time in a Python process of
its own that no daemon has prepared. To import watersmeet there, with numpy, pyarrow and pandas, took as long as all the
rest. So the class that Spark sees is pickled by its value, as one that is made in a function is, and the level within
it stays bytes until there are rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming import StatefulProcessor

from watersmeet._worker.state import CHUNKS, MANIFEST, MAP, VALUE


def pickled_small(level: StatefulProcessor) -> StatefulProcessor:
    """The level, unpickled when its first rows come; it keeps its state in the variables of a `SparkChunkStore`."""

    class Level(StatefulProcessor):
        """Declares the variables, and hands everything else to the level."""

        def __init__(self, content: bytes, takes_wire: bool) -> None:
            self._content = content
            # `straight.TAKES_WIRE`, by its value: nothing of watersmeet's is imported for the variables
            self.takes_wire = takes_wire
            self._level: Any = None
            self._variables: dict[str, Any] = {}

        def init(self, handle: Any) -> None:
            self._level = None
            self._variables = {MANIFEST: handle.getValueState(*VALUE), CHUNKS: handle.getMapState(*MAP)}

        def getValueState(self, name: str, *_: Any) -> Any:
            """As a handle: what is declared already."""
            return self._variables[name]

        getMapState = getValueState

        def keeps_state(self, label: int) -> bool:
            """Whether a label has state that is read; not known before the first rows."""
            return self._level is not None and self._level.keeps_state(label)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Any:
            if self._level is None:
                self._level = pickle.loads(self._content)
                self._level.init(self)
            return self._level.handleInputRows(key, rows, timerValues)

        def close(self) -> None:
            if self._level is not None:
                self._level.close()

    content: bytes = CloudPickleSerializer().dumps(level)  # type: ignore[no-untyped-call]
    return Level(content, getattr(level, "takes_wire", False))
