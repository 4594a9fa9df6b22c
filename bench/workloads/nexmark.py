"""Seven of NEXMark's queries (`bench.nexmark`) from Kafka to Kafka; those of Kafka Streams are in `Nexmark.java`.

All read one topic of JSON, a generator in each of its four partitions; its key says which. Contenders read partitions
unevenly, so windows have a long grace: nothing is late, and the results of all are the same. What is written is keyed
by text or numbers, which do not depend on how a contender writes a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.nexmark import generator, queries
from bench.workloads.readings import Reading, as_bytes, of_json, of_json_with_times
from bench.workloads.workload import Data, Piece, Topics, Workload, written

GRACE = "1 minute"
"""By more than this no contender's partitions are apart, unless all data is small."""
ALL_OF_TIME = "5 minutes"
"""More than all events: where nothing waits for the end of a window, no record is late, however partitions are read."""
SECONDS = 161
"""Of event time: two million events are 12,400 in a second. It is odd, so that no window closes with the last event."""
KEYS = (1, 6, 9, 0)
"""A key that Kafka's partitioner puts into each of four partitions."""
_FILES = 16
_TOPICS = ("events",)
_VERSION = 1


# -- data ------------------------------------------------------------------------------------------------------


def events_data(root: Path, events: int) -> Data:
    """So many events of four generators, in order of time."""
    shape = generator.Shape(events, generators=len(KEYS), rate=events // SECONDS)
    folder = root / "data" / f"nexmark-{events}-{_VERSION}"
    return written(folder, _pieces(shape), f"{events:,} events, 46 of 50 are bids", _TOPICS)


def _pieces(shape: generator.Shape) -> Iterator[Mapping[str, Piece]]:
    each = shape.each // _FILES
    for file in range(_FILES):
        count = each if file + 1 < _FILES else shape.each - file * each
        made = [generator.events(shape, number, file * each, count) for number in range(shape.generators)]
        keys, ts = np.repeat(KEYS, count), np.concatenate([one.ts for one in made])
        order = np.argsort(ts, kind="stable")
        values = pa.concat_arrays([one.values for one in made]).take(pa.array(order))
        yield {"events": (keys[order], values, ts[order])}


# -- topologies ------------------------------------------------------------------------------------------------


def _events(builder: Any, topics: Topics) -> Any:
    import watersmeet as wm

    return builder.stream(topics[0], key="long", value=wm.json(queries.EVENT))


def q3(events: Any) -> Any:
    """The table as it is."""
    return queries.q3(events).to_stream()


def q4(events: Any) -> Any:
    """The average alone."""
    return queries.q4(events, GRACE).map_values(lambda found: found["average"]).to_stream()


def q5(events: Any) -> Any:
    """Keys: starts of windows."""
    return queries.q5(events, GRACE).to_stream()


def q8(events: Any) -> Any:
    """Keys: person and start of the window."""
    return queries.q8(events, GRACE).to_stream(key=lambda key, window: _text(key, window["start"]))


def q11(events: Any) -> Any:
    """Keys: bidder, start and end of the session."""
    sessions = queries.q11(events, ALL_OF_TIME)
    return sessions.to_stream(key=lambda key, window: _text(key, window["start"], window["end"]))


def q18(events: Any) -> Any:
    """Keys: bidder and auction."""
    return queries.q18(events).to_stream(key=lambda key, bid: _text(key["bidder"], key["auction"]))


def q20(events: Any) -> Any:
    """The stream as it is."""
    return queries.q20(events, GRACE)


def _text(*parts: Any) -> Any:
    from pyspark.sql import functions as F

    return F.concat_ws("|", *(part.cast("string") for part in parts))


def _doubles() -> Mapping[str, Any]:
    return {"value": "double"}


def _query(query: Callable[[Any], Any], read: Reading = as_bytes, **more: Any) -> Workload:
    def data(root: Path, quick: bool) -> Data:
        return events_data(root, 100_000 if quick else 2_000_000)

    def join(builder: Any, topics: Topics) -> Any:
        return query(_events(builder, topics))

    given = {"equal": "table", "cached": True, **more}
    return Workload(data, join, topics=_TOPICS, values_as=read, **given)


WORKLOADS = {
    "nexmark_q3": _query(q3, of_json),
    "nexmark_q4": _query(q4, formats=_doubles),
    "nexmark_q5": _query(q5, of_json),
    "nexmark_q8": _query(q8),
    "nexmark_q11": _query(q11),
    "nexmark_q18": _query(q18, of_json_with_times),
    "nexmark_q20": _query(q20, of_json_with_times, equal="records", cached=False),
}
