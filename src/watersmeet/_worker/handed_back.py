"""The changes of a batch in the tables that are served, as a level hands them back to the driver.

The driver asks with a property of the job, so that a query that serves nothing does nothing. The changes come back by
an accumulator of Spark's: with the result of the task, and only of a task that has succeeded. They are plain Arrow
bytes (law 5); a shard that is run again hands back the same once more.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from watersmeet._engine.rows import blob
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.table import Table
from watersmeet._worker.task import job_property

PROPERTY = "watersmeet.served"
"""The job's property that says what is to be handed back."""
MOST_BYTES = 64 << 20
"""Of a shard's changes of a table in a batch; where there are more, the driver reads the table from the checkpoint."""


class ServedChange(NamedTuple):
    """The changes of a batch in a shard of a table.

    Parameters
    ----------
    batch : its number.
    store : name of the table.
    label : the shard's.
    rows : the changed rows as runs have them, tombstones included; None: there are too many.
    floors : of the table's time domains; None: as they were.
    """

    batch: int
    store: str
    label: int
    rows: tuple[bytes, ...] | None
    floors: Mapping[int, int] | None


@dataclass(frozen=True)
class AskedChanges:
    """The question of the driver.

    Parameters
    ----------
    batch : number of the batch.
    labels : of each served table those of its shards.
    accumulator : where changes go, as text.
    """

    batch: int
    labels: Mapping[str, frozenset[int]]
    accumulator: str

    @staticmethod
    def text(batch: int, labels: Mapping[str, list[int]], to: Any) -> str:
        """The property that `of_job` reads."""
        place = base64.b64encode(pickle.dumps(to)).decode("ascii")
        return json.dumps({"batch": batch, "labels": labels, "accumulator": place})

    @classmethod
    def of_job(cls) -> AskedChanges | None:
        """The question to this task; None: nothing is asked."""
        given = job_property(PROPERTY)
        if not given:
            return None
        said = json.loads(given)
        return cls(said["batch"], {name: frozenset(some) for name, some in said["labels"].items()}, said["accumulator"])

    def hand_back(self, changes: list[ServedChange]) -> None:
        """Give changes to the driver, when the task has succeeded."""
        to: Any = pickle.loads(base64.b64decode(self.accumulator))
        to.add(changes)


@dataclass
class HandedBack:
    """Collects the changes of a shard's served tables.

    Parameters
    ----------
    label : the shard's.
    asked : what the driver asks for.
    """

    label: int
    asked: AskedChanges
    _rows: dict[str, list[bytes]] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begun(cls, label: int, state: State) -> HandedBack | None:
        """A watch of a shard's state until `end`; None where none of its tables is served."""
        asked = AskedChanges.of_job()
        if asked is None or not any(label in labels for labels in asked.labels.values()):
            return None
        made = cls(label, asked)
        state.watch = made._take
        return made

    @cached_property
    def _served(self) -> frozenset[str]:
        return frozenset(name for name, labels in self.asked.labels.items() if self.label in labels)

    def _take(self, table: Table, rows: pa.RecordBatch) -> None:
        if table.name not in self._served:
            return
        size = self._sizes[table.name] = self._sizes.get(table.name, 0) + rows.nbytes
        if size > MOST_BYTES:
            self._rows[table.name] = []
        else:
            named = rows.replace_schema_metadata(table.layout.stored.metadata)
            self._rows.setdefault(table.name, []).append(blob.encode(named))

    def end(self, state: State) -> None:
        """The shard's state is committed: hand back what was collected."""
        state.watch = None
        changes = []
        for name in sorted(self._served):
            table = state.opened(name)
            floors = dict(table.floors) if table is not None and table.floors else None
            if name in self._sizes or floors is not None:
                rows = None if self._sizes.get(name, 0) > MOST_BYTES else tuple(self._rows.get(name, ()))
                changes.append(ServedChange(self.asked.batch, name, self.label, rows, floors))
        if changes:
            self.asked.hand_back(changes)
