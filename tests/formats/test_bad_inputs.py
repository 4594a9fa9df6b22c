"""Law 6 over the table of bad inputs: records read are those that pass, those dropped by reason, and dead letters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from tests.formats.bad_inputs import INPUTS, Inputs
from watersmeet._engine.rows import HEADERS as HEADERS_ARROW
from watersmeet._engine.rows import ints
from watersmeet._worker.ended_rows import PREFIX
from watersmeet._worker.formats import formats
from watersmeet._worker.formats.decode import Deserializer, Deserializers
from watersmeet.errors import SourceError
from watersmeet.io.formats import Format

NOW, NEVER, FAR = 1_750_000_000_000, -1, 2**62
"""Timestamps of records in turn; Kafka writes -1 where there is none."""
LETTERS = 7
OWN = [[("trace", b"\xff"), ("none", None)], [], None]
"""Headers of records in turn."""


def deserializers(given: Inputs, policy: str, part: str = "value") -> Deserializers:
    """Of a source whose keys are bytes and whose values are of the format; or the other way round."""
    forms = {"key": Format("bytes"), "value": Format("bytes")} | {part: given.form}
    letters = LETTERS if policy == "dead letters" else None
    return Deserializers(
        tuple(
            Deserializer(0, name, f"s0_{name}", f.kind, "orders", policy == "fail", formats.serde_of(f), letters, "in")
            for name, f in forms.items()
        )
    )


def frame(values: list[bytes | None], *, letters: bool, part: str = "value") -> pa.Table:
    """Records with these values, or keys, with timestamps of all kinds and with headers or without."""
    count = len(values)
    told = pa.array([OWN[row % len(OWN)] for row in range(count)], HEADERS_ARROW)
    other: list[bytes | None] = [b"%d" % row if row % 3 else None for row in range(count)]
    raw = {"raw_key": other, "raw_value": other} | {f"raw_{part}": values}
    columns = {
        "root": pa.array([0] * count, pa.int32()),
        "partition": pa.array([3] * count, pa.int32()),
        "offset": pa.array(range(100, 100 + count), pa.int64()),
        "ts": pa.array([(NOW, NEVER, FAR, -FAR)[row % 4] for row in range(count)], pa.int64()),
        **{name: pa.array(column, pa.binary()) for name, column in raw.items()},
        **({"raw_headers": told} if letters else {}),
    }
    return pa.table(columns)


def mixed(given: Inputs) -> Iterator[tuple[bytes | None, bool]]:
    """Bad inputs with good ones between, and whether each is bad."""
    for number, raw in enumerate(given.bad.values()):
        yield given.good[number % len(given.good)], False
        yield raw, True


def test_there_are_at_least_60_bad_inputs() -> None:
    assert sum(len(given.bad) for given in INPUTS.values()) >= 60


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("name", list(INPUTS))
def test_bad_records_are_dropped_or_dead_letters_and_good_ones_beside_them_pass_as_if_alone(
    name: str, part: str
) -> None:
    given = INPUTS[name]
    values, bad = map(list, zip(*mixed(given), strict=True))
    rows, wrong = frame(values, letters=True, part=part), np.array(bad)
    alone = deserializers(given, "skip", part)(frame([v for v, b in mixed(given) if not b], letters=False, part=part))
    negative = ints(rows, "ts") < 0

    skipped = deserializers(given, "skip", part)(rows.drop_columns(["raw_headers"]))
    assert skipped.column("reason").to_pylist() == np.where(wrong, 2, negative).tolist()
    assert skipped.column(f"s0_{part}").filter(pa.array(wrong)).null_count == wrong.sum()

    found = deserializers(given, "dead letters", part)(rows)
    dead = ints(found, "root") == LETTERS
    assert dead.tolist() == bad
    assert found.column("reason").to_pylist() == np.where(wrong, 0, negative).tolist()
    passed = found.filter(pa.array(~dead))
    assert passed.column(f"s0_{part}").combine_chunks().equals(alone.column(f"s0_{part}").combine_chunks())
    assert len(passed) + dead.sum() == len(rows)

    letters, came = found.filter(pa.array(dead)), rows.filter(pa.array(wrong))
    for each in ("key", "value"):
        assert letters.column(f"s{LETTERS}_{each}").combine_chunks().equals(came.column(f"raw_{each}").combine_chunks())
        assert passed.column(f"s{LETTERS}_{each}").null_count == len(passed)
    assert ints(letters, "ts").tolist() == np.maximum(ints(came, "ts"), 0).tolist()
    told = letters.column(f"s{LETTERS}_headers").to_pylist()
    own = came.column("raw_headers").to_pylist()
    assert [headers[: len(before or [])] for headers, before in zip(told, own, strict=True)] == [o or [] for o in own]
    said = [{each["key"]: each["value"] for each in headers} for headers in told]
    assert [int(each[PREFIX + "timestamp"]) for each in said] == ints(came, "ts").tolist()
    assert [int(each[PREFIX + "offset"]) for each in said] == ints(came, "offset").tolist()
    assert all(f"{part} as {given.form.kind}: ".encode() in each[PREFIX + "message"] for each in said)


@pytest.mark.parametrize("name", list(INPUTS))
def test_each_bad_record_fails_a_query_that_is_to_fail_and_says_where_it_is(name: str) -> None:
    given = INPUTS[name]
    failing = deserializers(given, "fail")
    for raw in given.bad.values():
        with pytest.raises(SourceError, match=f"topic orders, partition 3, offset 101, value as {given.form.kind}: "):
            failing(frame([given.good[0], raw, given.good[1]], letters=False))
