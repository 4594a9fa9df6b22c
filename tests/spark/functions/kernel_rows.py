"""Rows at which functions are tried: limits and other edges of each type among values by chance, with nulls."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

ROWS = 160
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "ab",
    "abc",
    "a,b,,c",
    ",",
    "aXbXc",
    "é",
    "ß",
    "\u0131",
    "İ",
    "Σς",
    "日本",
    "\U0001d4b3y",
    "😀",
    "a😀b",
    "\x00",
    "\t x \n",
]
TEXTS += [
    "e\u0301",
    "%",
    "_",
    "\\",
    "a%b",
    "xx",
    "xxax",
    " 12 ",
    "ab ab",
    "Hello World",
    "\u00a0a\u00a0",
    "\u2028",
    "ǅ",
    "ﬁ",
    "x" * 70,
]
NUMERALS = [
    "0",
    "1",
    "-1",
    "+7",
    " 12 ",
    "12.7",
    "-0.5",
    ".5",
    "5.",
    ".",
    "-",
    "+",
    "",
    "1e3",
    "1E-2",
    "127",
    "128",
    "-128",
    "-129",
]
NUMERALS += [
    "32767",
    "32768",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
]
NUMERALS += [
    "-9223372036854775808",
    "-9223372036854775809",
    "00000000000000000000012",
    "99999999999999999999",
    "1_0",
    "0x1",
    "\uff11\uff12",
    "abc",
]
NUMERALS += [
    "NaN",
    "nan",
    "Infinity",
    "-Infinity",
    "inf",
    "-inf",
    "+inf",
    "1d",
    "1.5f",
    "1D",
    "1e400",
    "-1e400",
    "1e-400",
    "4.9e-324",
    "true",
]
NUMERALS += [
    "t",
    "T",
    "yes",
    "y",
    "false",
    "F",
    "no",
    "n",
    " true ",
    "on",
    "12345678901234567890123456789012345678",
    "0.1",
    "123.455",
]
NUMERALS += [
    "\x0012",
    "12\x7f",
    "1 2",
    "--1",
    "1-",
    "1.2.3",
    "1e",
    "e1",
    "1e+2",
    "-0",
    "-0.0",
    "0.30000000000000004",
    "1.7976931348623159e308",
]
DATES = [
    "2020-02-29",
    "2021-02-29",
    "2020-1-1",
    "2020",
    "2020-02",
    "0001-01-01",
    "1582-10-10",
    "-0001-01-01",
    "10000-01-01",
    "9999-12-31",
]
DATES += [
    " 2020-01-01 ",
    "2020-01-01T",
    "2020-01-01 x",
    "2020-01-01T10",
    "2020-13-01",
    "2020-00-10",
    "2020-01-32",
    "+2020-01-01",
    "20200101",
]
DATES += [
    "2020-01-01 10:11:12",
    "2020-01-01 10:11:12.123456",
    "2020-01-01T10:11:12.1234567Z",
    "2020-01-01 10:11:12+01:00",
    "2020-01-01 1:2:3",
]
DATES += [
    "2020-01-01 10:11",
    "10:11:12",
    "T10:11",
    "2020-01-01 24:00:00",
    "2020-01-01 10:60:00",
    "2020-01-01 10:11:12 UTC",
    "99999-01-01",
    "x",
]
DATES += [
    "2020-01-01 10:11:12.1",
    "2020-01-01 10:11:12.",
    "2020-01-01 10:11:12-0800",
    "2020-01-01T10:11:12Z",
    "294247-01-10 04:00:54.775807",
]
DATES += [
    "",
    "-",
    "0000-01-01",
    "1969-12-31 23:59:59.999999",
    "294248-01-01 00:00:00",
    "2020-01-01 10:11:12 Europe/Paris",
    "5881580-07-11",
]

Draw = Callable[[random.Random], Any]


def _ints(bits: int) -> Draw:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    edges = [0, 1, -1, 2, 3, 7, 10, -10, least, most, least + 1, most - 1, most // 2, least // 2]

    def draw(r: random.Random) -> int:
        wide = r.randint(least, most)
        return r.choice([r.choice(edges), wide, r.randint(max(least, -50), min(most, 50)), wide >> r.randrange(bits)])

    return draw


def _doubles(r: random.Random) -> float:
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        float("nan"),
        float("inf"),
        float("-inf"),
        5e-324,
        1.7976931348623157e308,
    ]
    edges += [
        2.0**53,
        2.0**63,
        -(2.0**63),
        2.0**31,
        -(2.0**31) - 1,
        1e-7,
        1e7,
        123456789.125,
        0.1,
        0.49999999999999994,
        9.2e18,
        127.9,
        255.0,
    ]
    (wild,) = struct.unpack("<d", r.randbytes(8))
    return r.choice(
        [r.choice(edges), wild, r.uniform(-1000, 1000), float(r.randint(-50, 50)), round(r.uniform(-100, 100), 2)]
    )


def _floats(r: random.Random) -> float:
    (wild,) = struct.unpack("<f", r.randbytes(4))
    found = r.choice([_doubles(r), wild, float(r.randint(-50, 50)), 3.4028234663852886e38, 1e-45])
    return found if found != found or abs(found) in (0, float("inf")) or abs(found) < 3.4028235e38 else 16777216.0


def decimals(precision: int, scale: int) -> Draw:
    most = 10**precision - 1
    edges = [0, 1, -1, most, -most, most - 1, 5, 15, 25, -25, 10**scale, 45, 55, 10**precision // 2, 95, 995]

    def draw(r: random.Random) -> Decimal:
        digits = r.choice(
            [
                r.choice(edges),
                r.randint(-most, most),
                r.randint(-(10 ** r.randint(0, precision)), 10 ** r.randint(0, precision)),
            ]
        )
        digits = max(-most, min(most, digits))
        return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))

    return draw


def _text(r: random.Random) -> str:
    letters = "aAbBxX ,.%_-019éßΣ日😀\u0301"
    return r.choice([r.choice(TEXTS), "".join(r.choices(letters, k=r.randrange(12)))])


def _days(r: random.Random) -> int:
    edges = [
        0,
        -1,
        1,
        18321,
        -141428,
        -141438,
        -719162,
        -719528,
        2932896,
        2932897,
        -2147483648,
        2147483647,
        11016,
        18262,
        18627,
    ]
    return r.choice([r.choice(edges), r.randint(-800000, 3000000), r.randint(0, 20000), r.randint(0, 20000)])


def micros(r: random.Random) -> int:
    edges = [
        0,
        -1,
        1,
        999999,
        -999999,
        1582934400000000,
        -62135596800000000,
        253402300799999999,
        -62135596800000001,
        2**63 - 1,
        -(2**63),
    ]
    edges += [-12219292800000000, 86399999999, -86400000000, 1600000000123456, 1600000000120000]
    return r.choice(
        [r.choice(edges), r.randint(-(2**56), 2**57), r.randint(0, 2 * 10**15), r.randint(0, 2 * 10**9) * 10**6]
    )


def _listed(of: Draw) -> Draw:
    return lambda r: [None if r.random() < 0.2 else of(r) for _ in range(r.randrange(5))]


def _mapped(key: Draw, value: Draw) -> Draw:
    return lambda r: list({key(r): None if r.random() < 0.2 else value(r) for _ in range(r.randrange(5))}.items())


def _struct_of(r: random.Random) -> dict[str, Any]:
    return {"x": None if r.random() < 0.2 else _ints(32)(r), "y": None if r.random() < 0.2 else _text(r)}


def _bytes(r: random.Random) -> bytes:
    return r.randbytes(r.randrange(9))


def _key(r: random.Random) -> str:
    return r.choice(["a", "b", "", "é", "ab"])


_TIME = pa.timestamp("us", tz="UTC")
COLUMNS: dict[str, tuple[pa.DataType, Draw]] = {
    **{f"b{n}": (pa.int8(), _ints(8)) for n in "12"},
    **{f"s{n}": (pa.int16(), _ints(16)) for n in "12"},
    **{f"i{n}": (pa.int32(), _ints(32)) for n in "12"},
    **{f"l{n}": (pa.int64(), _ints(64)) for n in "12"},
    **{f"f{n}": (pa.float32(), _floats) for n in "12"},
    **{f"d{n}": (pa.float64(), _doubles) for n in "12"},
    **{f"n{n}": (pa.decimal128(10, 2), decimals(10, 2)) for n in "12"},
    **{f"w{n}": (pa.decimal128(38, 18), decimals(38, 18)) for n in "12"},
    "z": (pa.decimal128(38, 0), decimals(38, 0)),
    "q": (pa.decimal128(18, 10), decimals(18, 10)),
    "few": (pa.int32(), lambda r: r.randint(-4, 8)),
    **{f"o{n}": (pa.bool_(), lambda r: r.random() < 0.5) for n in "12"},
    **{f"t{n}": (pa.string(), _text) for n in "12"},
    "num": (
        pa.string(),
        lambda r: r.choice(
            [r.choice(NUMERALS), str(r.uniform(-99, 99)), str(r.randint(-(10 ** r.randint(1, 25)), 10**20))]
        ),
    ),
    "when": (pa.string(), lambda r: r.choice(DATES)),
    **{f"y{n}": (pa.binary(), _bytes) for n in "12"},
    **{f"day{n}": (pa.date32(), _days) for n in "12"},
    **{f"ts{n}": (_TIME, micros) for n in "12"},
    "tn": (pa.timestamp("us"), micros),
    "span": (pa.duration("us"), lambda r: r.choice([0, 1, -1, 2**62, -(2**63), r.randint(-(10**12), 10**15)])),
    "st": (pa.struct([("x", pa.int32()), ("y", pa.string())]), _struct_of),
    "ints": (pa.list_(pa.int32()), _listed(_ints(32))),
    "words": (pa.list_(pa.string()), _listed(_text)),
    "map": (pa.map_(pa.string(), pa.int32()), _mapped(_key, _ints(32))),
}


def sample(seed: int = 5, rows: int = ROWS) -> pa.Table:
    """Rows of all columns, and `row`, which counts them; the texts that stand for numbers and times all occur."""
    r = random.Random(seed)
    columns: dict[str, pa.Array] = {"row": pa.array(range(rows), pa.int32())}
    for name, (kind, draw) in COLUMNS.items():
        values = [None if r.random() < 0.08 else draw(r) for _ in range(rows)]
        listed: Sequence[str] = {"num": NUMERALS, "when": DATES, "t1": TEXTS}.get(name, [])
        values[: len(listed)] = listed
        columns[name] = pa.array(values, kind)
    return pa.table(columns)
