"""The demo's four levels (demo/topology.py) as a workload: real flights of several years, JSON in and out.

Planes and airlines are all there before the first flight, as in the demo. Beside it stands the same topology over
texts, whose fields are places in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.workloads.datasets import VALUE_BYTES, values
from bench.workloads.readings import of_json
from bench.workloads.workload import ROUNDS, Data, Piece, Topics, Workload, written

TOPICS = ("schedule", "actual", "planes", "airlines")
YEARS = 6
"""The year of the data, so many times, one after the other."""
NAME_BYTES = 8
"""Of a text: a carrier or a tail number that it begins with."""
_VERSION = 1
_FILES = 3
"""For each round behind the first one."""
_YEAR_MS = 365 * 86_400_000


def _data(root: Path, quick: bool, *, plain: bool = False) -> Data:
    from demo.inputs import load

    flights, years = (60_000, 1) if quick else (None, YEARS)
    folder = root / "data" / f"flights-{'plain-' if plain else ''}{flights}-{years}-{_VERSION}"
    shown = f"{years} times {'the first 60,000 flights' if quick else '336,776 flights'}"
    complete = (folder / "complete").exists()
    return written(folder, () if complete else _pieces(load(flights), years, plain=plain), shown, TOPICS)


def _pieces(inputs: Any, years: int, *, plain: bool) -> Iterator[Mapping[str, Piece]]:
    rng = np.random.default_rng(_VERSION)
    known = {name: _records(name, getattr(inputs, name), 0, rng, plain=plain) for name in ("planes", "airlines")}
    for part in range(_FILES):
        yield {name: _part(piece, part, _FILES) for name, piece in known.items()}
    files = _FILES * (ROUNDS - 1)
    for number in range(files):
        # a file is a part of a year, or holds some years
        found: dict[str, Piece] = {}
        for name in ("schedule", "actual"):
            frame = getattr(inputs, name)
            begin, end = (len(frame) * years * n // files for n in (number, number + 1))
            found[name] = _joined(
                [
                    _records(name, frame.iloc[a:b], year, rng, plain=plain)
                    for year in range(years)
                    if (a := max(0, begin - year * len(frame))) < (b := min(len(frame), end - year * len(frame)))
                ]
            )
        yield found


def _part(piece: Piece, number: int, parts: int) -> Piece:
    begin, end = (len(piece[0]) * n // parts for n in (number, number + 1))
    keys, contents, ts = piece
    return keys[begin:end], contents[begin:end], ts[begin:end]


def _joined(pieces: list[Piece]) -> Piece:
    keys, contents, ts = zip(*pieces, strict=True)
    return pa.concat_arrays(keys), pa.concat_arrays(contents), np.concatenate(ts)


def _records(name: str, frame: Any, year: int, rng: np.random.Generator, *, plain: bool) -> Piece:
    from demo.topology import KEYS, fields

    rows = pa.Table.from_pandas(frame, preserve_index=False).combine_chunks()
    ts = rows["at"].chunk(0).cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).to_numpy() + year * _YEAR_MS
    keys = rows[KEYS[name]].chunk(0)
    if name in ("schedule", "actual") and year:
        keys = pc.binary_join_element_wise(keys, str(year), " ")
    if plain:
        begins = {"schedule": "carrier", "actual": "tailnum"}.get(name)
        contents = _texts(rows[begins].chunk(0) if begins else keys, rng)
        keys = keys if begins else pc.utf8_rpad(keys, NAME_BYTES)
    else:
        contents = _objects([(field, rows[field].chunk(0)) for field in fields(name)])
    if name == "actual":
        contents = pc.if_else(rows["cancelled"].chunk(0), pa.scalar(None, pa.string()), contents)
    return keys, contents, ts


def _texts(names: pa.Array, rng: np.random.Generator) -> pa.Array:
    first = pc.utf8_rpad(names.fill_null("?"), NAME_BYTES)
    return pc.binary_join_element_wise(first, pc.utf8_slice_codeunits(values(len(names), rng), NAME_BYTES), "")


def _objects(members: list[tuple[str, pa.Array]]) -> pa.Array:
    pieces: list[Any] = []
    for name, column in members:
        if pa.types.is_timestamp(column.type):
            shown = pc.replace_substring(column.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
            texts = pc.binary_join_element_wise(pa.scalar('"'), shown, pa.scalar('Z"'), "")
        elif pa.types.is_integer(column.type):
            texts = column.cast(pa.string())
        else:
            texts = pc.binary_join_element_wise(pa.scalar('"'), column.cast(pa.string()), pa.scalar('"'), "")
        pieces += [pa.scalar(f'{"," if pieces else "{"}"{name}":'), texts]
    return pc.binary_join_element_wise(*pieces, pa.scalar("}"), "", null_handling="replace", null_replacement="null")


# -- topologies ------------------------------------------------------------------------------------------------


def flights(builder: Any, topics: Topics) -> Any:
    """The demo's, its outputs in the order in which they can be compared."""
    import watersmeet as wm
    from demo.topology import VALUES, results

    tables = {
        name: {"source": topic, "key": "string", "value": wm.json(VALUES[name])}
        for name, topic in zip(TOPICS, topics, strict=True)
    }
    found = dict(results(builder, tables))
    return found["departures"], found["flights"], found["flights-by-plane"]


def plain_flights(builder: Any, topics: Topics) -> Any:
    """The same joins of texts."""
    from pyspark.sql import functions as F

    schedule, actual, planes = (builder.table(topic, key="string", value="string") for topic in topics[:3])
    airlines = builder.global_table(topics[3], key="string", value="string")
    departures = schedule.left_join(actual, F.concat)
    changes = departures.to_stream()
    tail = lambda value: value.substr(VALUE_BYTES + 1, NAME_BYTES)  # noqa: E731 - three uses
    flown = changes.select_key(tail).join(planes, F.concat)
    named = departures.left_join(airlines, F.concat, foreign_key=lambda value: value.substr(1, NAME_BYTES))
    return changes, named.left_join(planes, F.concat, foreign_key=tail), flown


WORKLOADS = {
    "demo": Workload(
        _data, flights, "table", TOPICS, outputs=3, compared=2, values_as=of_json, parted=True, plain="demo_plain"
    )
}
PLAIN = {
    "demo_plain": Workload(
        lambda root, quick: _data(root, quick, plain=True),
        plain_flights,
        "table",
        TOPICS,
        outputs=3,
        compared=2,
        parted=True,
    )
}
