"""A level's rows straight from Arrow, without a frame of pandas for each label (law 8: faster, nothing else).

Spark's worker makes objects of all rows, groups them, makes frames of each group, and Arrow of what each gives: about a
millisecond for each label, however few rows it has. Here the rows of a batch stay in Arrow, and results of many labels
go out in one batch. It takes Spark's function apart for that; where that looks otherwise than it does in PySpark 4.3,
or a processor is not a level, Spark's own function runs. `_spark/session/daemon.py` puts it in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._worker.packing.packing import wire_together
from watersmeet._worker.state_calls import StateCalls
from watersmeet._worker.wire.measures import WireRow

TAKES_WIRE = "takes_wire"
"""Attribute of a processor that a `Wire` may be given to."""
KEEPS_STATE = "keeps_state"
"""Its method that says of a label whether its operator has state here."""
_NAME = "transform_with_state_func"
_NEEDED = ("udf", "stateful_processor_api_client", "key_offsets", "value_offsets", "output_schema")

Function = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Wire:
    """Port and blob of each row of one label, in place of frames: its reader returns `WireRow`s.

    Parameters
    ----------
    rows : the pairs.
    calls : to the state server, with answers that are read later; None: Spark's own.
    """

    def __init__(self, rows: Iterator[tuple[int, bytes]], calls: StateCalls | None = None) -> None:
        self._rows = rows
        self.calls = calls

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return self._rows


def straight(function: Any) -> Any:
    """Spark's function for the rows of a task, or ours in its place where it runs a level.

    Parameters
    ----------
    function : the first of what `pyspark.worker.read_udfs` gives.
    """
    if getattr(function, "__name__", "") != _NAME or function.__closure__ is None:
        return function
    held = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    if not set(_NEEDED) <= set(held):
        return function
    udf, client, keys, values, schema = (held[name].cell_contents for name in _NEEDED)
    processor = _processor(udf)
    if not getattr(processor, TAKES_WIRE, False) or len(keys) != 1 or len(schema.fields) != 1:
        return function
    modes = function.__globals__.get("TransformWithStateInPandasFuncMode")
    if modes is None:
        return function
    calls = StateCalls.of(client, getattr(processor, KEEPS_STATE, _none))
    return _function(_ProcessorCall(udf, client, calls, modes), keys[0], values, schema.fields[0].name)


def _processor(udf: Any) -> Any:
    """The processor that Spark's function calls, as far down as it is wrapped; None: it is not found."""
    while udf is not None and not hasattr(udf, "__self__"):
        names = getattr(getattr(udf, "__code__", None), "co_freevars", ())
        udf = udf.__closure__[names.index("f")].cell_contents if "f" in names else None
    return getattr(getattr(udf, "__self__", None), "_stateful_processor", None)


def _none(label: int) -> bool:
    return False


@dataclass(frozen=True)
class _ProcessorCall:
    """Spark's call of a processor."""

    udf: Any
    client: Any
    calls: StateCalls | None
    modes: Any

    def rows(self, label: int, rows: Iterator[tuple[int, bytes]]) -> Iterator[WireRow]:
        """The results of a label's rows."""
        given = (self.client, self.modes.PROCESS_DATA, (label,), Wire(rows, self.calls))
        if self.calls is None:
            return iter(self.udf(*given))
        self.calls.fetch_ahead(label)
        return iter(self.calls.late(self.udf, *given))

    def end(self) -> None:
        """Behind all labels."""
        for mode in (self.modes.PROCESS_TIMER, self.modes.COMPLETE):
            for _ in self.udf(self.client, mode, None, iter([])):
                raise AssertionError("a level gives nothing behind its rows")


def _function(call: _ProcessorCall, key: int, values: Sequence[int], name: str) -> Function:
    def run(split_index: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labelled = groupby(_labelled(batches, key, values, call.calls), key=itemgetter(0))
        given = (call.rows(label, chain.from_iterable(map(itemgetter(1), parts))) for label, parts in labelled)
        rows: Iterator[WireRow] = chain.from_iterable(given)
        for batch in wire_together(rows):
            whole = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
            yield pa.RecordBatch.from_arrays([whole], names=[name])
        call.end()

    return run


def _labelled(
    batches: Iterator[pa.RecordBatch], key: int, values: Sequence[int], calls: StateCalls | None
) -> Iterator[tuple[int, Iterator[tuple[int, bytes]]]]:
    """(label, port and blob of rows), part by part: all parts of a label stand behind one another."""
    for batch in batches:
        if not batch.num_rows:
            continue
        labels = batch.column(key).to_numpy()
        columns = {batch.schema.names[at]: batch.column(at) for at in values}
        ports, blobs = columns["port"].to_pylist(), columns["blob"].to_pylist()
        starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1)).tolist()
        if calls is not None:
            calls.coming(labels[starts].tolist())
        for begin, end in zip(starts, [*starts[1:], len(labels)], strict=True):
            yield int(labels[begin]), zip(ports[begin:end], blobs[begin:end], strict=True)
