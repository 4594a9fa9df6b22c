"""Serdes: what Kafka's own serializers write is what is read and written here; anything else has a reason."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.formats import serde_of, type_of
from watersmeet.errors import SinkError, TopologyError
from watersmeet.io.formats import Format

# the session gives the parser of types
pytestmark = pytest.mark.usefixtures("spark")
RECORDED = Path(__file__).parents[2] / "recordings" / "serializers" / "serializers.jsonl"
WINDOW_MS = 300_000
FORMATS = {
    **{kind: Format(kind) for kind in ("short", "int", "long", "float", "double", "boolean", "string", "uuid")},
    "decimal(10, 2)": wm.decimal(10, 2),
    **{f"time_windowed {kind}": wm.time_windowed(kind, "5 minutes") for kind in ("long", "string", "double")},
    **{f"session_windowed {kind}": wm.session_windowed(kind) for kind in ("long", "string", "double")},
}
NANS = [bytes.fromhex("7fc00000"), bytes.fromhex("ffc00001")]
UUID = "123e4567-e89b-12d3-a456-426614174000"


def meant(name: str, value: Any) -> Any:
    """The value that a line of the recording tells."""
    if "windowed" in name:
        kind, key = name.split()[1], value[0]
        return {"key": meant(kind, key), "start": value[1], "end": value[2]}
    if name.startswith("decimal"):
        return Decimal(value)
    return float(np.float32(value)) if name == "float" else float(value) if name == "double" else value


def recorded() -> dict[str, list[tuple[Any, bytes]]]:
    found: dict[str, list[tuple[Any, bytes]]] = {}
    for line in map(json.loads, RECORDED.read_text().splitlines()):
        found.setdefault(line["format"], []).append((meant(line["format"], line["value"]), bytes.fromhex(line["hex"])))
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_kafkas_bytes_are_read_and_written_with_null_among_them_and_from_anywhere_in_an_array(name: str) -> None:
    form, kind = FORMATS[name], arrow_type(type_of(FORMATS[name]))
    values, raws = map(list, zip(*recorded()[name], (None, None), strict=True))
    column, raw, serde = pa.array(values, kind), pa.array(raws, pa.binary()), serde_of(form)
    for begin in range(3):
        found = serde.read(raw.slice(begin))
        found.values.validate(full=True)
        assert not found.bad.any()
        assert found.values.type == kind
        assert repr(found.values.to_pylist()) == repr(column.slice(begin).to_pylist())
        # what is read is written again, and so are the values; Python knows one NaN alone
        assert serde.write(found.values).cast(pa.binary()).to_pylist() == raws[begin:]
        again = serde.write(column.slice(begin)).cast(pa.binary()).to_pylist()
        assert [one for one in again if one not in NANS] == [one for one in raws[begin:] if one not in NANS]
    assert serde.write(column.slice(0, 0)).to_pylist() == serde.read(raw.slice(0, 0)).values.to_pylist() == []


def drawn(rng: np.random.Generator, name: str) -> Any:
    if rng.random() < 0.1:
        return None
    start = int(rng.integers(0, 2**42))
    made = {
        "short": lambda: int(rng.integers(-(2**15), 2**15)),
        "int": lambda: int(rng.integers(-(2**31), 2**31)),
        "long": lambda: int(rng.integers(-(2**62), 2**62)),
        "float": lambda: float(np.float32(rng.normal() * 10.0 ** rng.integers(-30, 30))),
        "double": lambda: float(rng.normal() * 10.0 ** rng.integers(-300, 300)),
        "boolean": lambda: bool(rng.integers(2)),
        "string": lambda: "".join(chr(int(each)) for each in rng.integers(32, 0x2FF, rng.integers(0, 6))),
        "uuid": lambda: str(__import__("uuid").UUID(bytes=rng.bytes(16))),
        "decimal(10, 2)": lambda: Decimal(int(rng.integers(-(10**10) + 1, 10**10))).scaleb(-2),
    }
    if name in made:
        return made[name]()
    windows, key = name.split()
    end = start + (WINDOW_MS if windows == "time_windowed" else int(rng.integers(0, 10**6)))
    return {"key": made[key](), "start": start, "end": end}


@pytest.mark.parametrize("name", FORMATS)
def test_whatever_is_written_is_read_as_it_was(name: str) -> None:
    rng, serde = np.random.default_rng(3), serde_of(FORMATS[name])
    for _ in range(20):
        values = pa.array([drawn(rng, name) for _ in range(50)], arrow_type(type_of(FORMATS[name])))
        found = serde.read(serde.write(values).cast(pa.binary()))
        assert not found.bad.any()
        assert found.values.to_pylist() == values.to_pylist()


WRONG = {
    "short": ([b"", b"1", b"123"], "short takes 2 bytes, there are 0"),
    "float": ([bytes(8), b"", bytes(3)], "float takes 4 bytes, there are 8"),
    "double": ([bytes(4), b"", bytes(9)], "double takes 8 bytes, there are 4"),
    "boolean": ([b"\x02", b"", b"\0\0", b"true"], "boolean is the byte 00 or 01, there is 02"),
    "uuid": (
        [b"1-1-1-1-1", b"", b"\xff" * 36, UUID.encode() + b" ", UUID.replace("-", "").encode(), bytes(16)],
        f"a UUID is 36 characters such as {UUID}",
    ),
    "decimal(10, 2)": ([b"\x7f" * 5, b"", bytes(17), b"\x80" + bytes(15)], "more digits than decimal(10, 2)"),
    "time_windowed long": (
        [bytes(7), b"", bytes(8), bytes(17), bytes(8) + b"\xff" * 8],
        "time_windowed takes 8 bytes and those of the key, there are 7",
    ),
    "session_windowed string": (
        [bytes(15), b"", b"\xff" + bytes(16), bytes(15) + b"\x01", b"\xff" * 16],
        "session_windowed takes 16 bytes and those of the key, there are 15",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_bytes_that_are_not_of_the_format_have_a_reason_and_no_value(name: str) -> None:
    raws, reason = WRONG[name]
    serde, fine = serde_of(FORMATS[name]), recorded()[name][0][1]
    found = serde.read(pa.array([fine, *raws, fine, None], pa.binary()))
    assert found.bad.tolist() == [False, *[True] * len(raws), False, False]
    assert [value is None for value in found.values.to_pylist()] == [False, *[True] * len(raws), False, True]
    assert serde.fault(raws[0]) == reason
    assert all(serde.fault(raw) for raw in raws)


def test_each_fault_of_a_windowed_key_is_said() -> None:
    time, session = serde_of(FORMATS["time_windowed long"]), serde_of(FORMATS["session_windowed string"])
    assert time.fault(bytes(17)) == "the key within: long takes 8 bytes, there are 9"
    assert session.fault(b"\xff" + bytes(16)) == "the key within: not valid UTF-8"
    assert "begins before 1970" in session.fault(b"\xff" * 16)
    assert serde_of(Format("boolean")).fault(b"") == "boolean takes 1 byte, there are 0"


def test_a_uuid_in_large_letters_is_the_same_uuid_and_another_text_is_not_written() -> None:
    serde = serde_of(Format("uuid"))
    assert serde.read(pa.array([UUID.upper().encode()])).values.to_pylist() == [UUID]
    assert serde.write(pa.array([UUID.upper(), None])).to_pylist() == [UUID.encode(), None]
    with pytest.raises(SinkError, match=r"a text that is not a UUID(.|\n)*'ann'(.|\n)*Hint: "):
        serde.write(pa.array([UUID, "ann"]))


def test_the_end_of_a_window_that_is_too_late_is_the_last_time_there_is() -> None:
    serde = serde_of(wm.time_windowed("string", "5 minutes"))
    raw = b"a" + (2**63 - 5).to_bytes(8, "big")
    assert serde.read(pa.array([raw])).values[0].as_py() == {"key": "a", "start": 2**63 - 5, "end": 2**63 - 1}
    assert serde.write(serde.read(pa.array([raw])).values).to_pylist() == [raw]


def test_windowed_keys_without_a_key_or_of_another_size_are_not_written() -> None:
    kind = arrow_type(type_of(FORMATS["time_windowed long"]))
    for lacking in ({"key": None, "start": 0, "end": WINDOW_MS}, {"key": 1, "start": None, "end": 5}):
        with pytest.raises(SinkError, match=r"lacks its key, or a time(.|\n)*Hint: "):
            serde_of(wm.time_windowed("long")).write(pa.array([lacking], kind))
    other = pa.array([{"key": 1, "start": 0, "end": 7}], kind)
    with pytest.raises(SinkError, match=r"another size(.|\n)*300000 ms"):
        serde_of(FORMATS["time_windowed long"]).write(other)
    assert serde_of(wm.time_windowed("long")).write(other).to_pylist() == [(1).to_bytes(8) + bytes(8)]


def test_no_windowed_key_is_written_as_none_whatever_its_inner_format_takes() -> None:
    kind = arrow_type(type_of(wm.time_windowed("uuid")))
    keys = pa.array([None, {"key": UUID, "start": 0, "end": 5}], kind)
    serde = serde_of(wm.time_windowed("uuid"))
    assert serde.write(keys).to_pylist() == [None, UUID.encode() + bytes(8)]
    assert serde.inner_keys(keys).to_pylist() == [None, UUID.encode()]  # type: ignore[attr-defined]


def test_not_a_number_is_one_number_and_negative_zero_another() -> None:
    serde = serde_of(Format("double"))
    written = serde.write(pa.array([math.nan, struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0], -0.0]))
    assert [each.as_py().hex() for each in written] == ["7ff8000000000000"] * 2 + ["8000000000000000"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: wm.decimal(39),
        lambda: wm.decimal(5, 6),
        lambda: wm.decimal(5, -1),
        lambda: wm.decimal(True),
        lambda: wm.time_windowed("long", size="0 ms"),
        lambda: wm.time_windowed(wm.session_windowed("long"), size="1 ms"),
        lambda: wm.time_windowed("lung", size="1 ms"),
        lambda: Format("time_windowed"),
        lambda: wm.Topic("t", key=wm.time_windowed("long"), value="long"),
        lambda: wm.Topic("t", key=wm.session_windowed(wm.json()), value="long"),
    ],
)
def test_a_format_that_cannot_be_is_refused_where_it_is_written_with_a_hint(wrong: Any) -> None:
    with pytest.raises(TopologyError, match="Hint: "):
        wrong()
