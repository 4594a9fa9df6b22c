"""Rows and expressions of types by chance: decimals of any precision and scale, intervals, times of all kinds.

The columns of `kernel_rows` have a few types, each of which is tried at many values. These have other types at each
seed, and the expressions ask for what types meet: casts of all pairs, arithmetic of mixed decimals, times at limits.
"""

from __future__ import annotations

import random
import re

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tests.spark.functions.kernel_kit import column_of
from tests.spark.functions.kernel_rows import COLUMNS, Draw, decimals, micros

GIVEN = re.findall(r"\w+", "b1 s1 i1 i2 few l1 l2 f1 d1 d2 o1 o2 t1 num when y1 day1 day2 ts1 ts2")
"""Columns as `kernel_rows` has them."""
DECIMALS = 12
"""Columns of decimals, each of a type by chance; the first ones have as many digits behind the point as at all."""
LEAVES: dict[str, tuple[str, ...]] = {
    "i": ("b1", "s1", "i1", "i2", "few", "3", "-1", "0"),
    "l": ("l1", "l2", "5L", "9223372036854775807L"),
    "d": ("f1", "d1", "d2", "1.5D"),
    "n": tuple(f"m{n}" for n in range(DECIMALS)),
    "o": ("o1", "o2"),
    "t": ("t1", "num", "when"),
    "D": ("day1", "day2", "date'1969-12-31'"),
    "T": ("ts1", "ts2"),
    "N": ("tn1", "tn2"),
    "S": ("span1", "span2", "interval '1' day", "interval '-1 2:03:04.000005' day to second"),
    "y": ("y1",),
}
FORMS: dict[str, str] = {
    "i": "extract(day from {S}); extract(hour from {S}); extract(minute from {S}); year({D}); month({D}); "
    "day({D}); datediff({D},{D}); hour({T}); minute({N}); quarter({D}); dayofweek({D}); weekofyear({D}); "
    "dayofyear({D}); weekday({D}); year({N}); day({T}); hash({n}); hash({S}); hash({N}); hash({D},{T}); "
    "{i}+{i}; abs({i}); pmod({i},{i}); bit_count({l}); extract(dow from {D}); sign({i}); {i}%{i}; "
    "least({i},{i}); try_add({i},{i})",
    "l": "{n} div {n}; unix_seconds({T}); unix_millis({T}); unix_micros({T}); unix_timestamp({T}); "
    "unix_timestamp({N}); to_unix_timestamp({D}); xxhash64({n},{S}); xxhash64({N}); xxhash64({d},{D}); "
    "{l}*{l}; {l}-{i}; unix_date({D}); abs({l}); -({l}); {l}+{l}; floor({d}); ceil({d}); coalesce({l},{l})",
    "d": "{d}+{d}; {n}+{d}; {n}*{d}; {l}/{d}; sqrt({n}); round({d},2); round({d}); bround({d}); signum({n}); "
    "nanvl({d},{d}); greatest({d},{d}); abs({d}); {d}%{d}; rint({n}); extract(second from {N})*1D",
    "n": "{n}+{n}; {n}-{n}; {n}*{n}; {n}/{n}; {n}%{n}; pmod({n},{n}); -({n}); abs({n}); round({n},1); round({n}); "
    "round({n},-1); bround({n},2); bround({n}); floor({n}); ceil({n}); floor({n},1); greatest({n},{n}); "
    "least({n},{n}); coalesce({n},{n}); if({o},{n},{n}); nullif({n},{n}); {n}+{i}; {i}*{n}; {n}-{l}; "
    "{n}/{i}; {l}%{n}; try_add({n},{n}); try_subtract({n},{n}); try_multiply({n},{n}); try_divide({n},{n}); "
    "array({n},{n})[0]; extract(second from {S}); extract(second from {T}); "
    "case when {o} then {n} else {n} end; +({n}); nvl({n},{i})",
    "o": "{n}={n}; {n}<{n}; {n}<=>{n}; {n}>={i}; {l}<{n}; {n}<={d}; {T}<{N}; {T}={N}; {N}>={T}; {D}<{T}; {D}={N}; "
    "{N}<{N}; {N}<=>{T}; {T}<=>{N}; {S}<{S}; {S}={S}; {D}<={D}; {n} in ({n},{n}); {D} in ({D},{D}); "
    "{S} is null; {N} in ({N},{T}); {n} between {n} and {n}; {T} between {T} and {N}; not ({o}); "
    "({o}) or ({o}); ({o}) and ({o}); {d}<{i}; array_contains(array({n},{n}),{n}); {D}>{N}; {S}>={S}; "
    "{t}<{n}; {t}={i}; {D}>={t}; {T}>{t}",
    "t": "cast({n} as string); cast({D} as string); cast({T} as string); cast({N} as string); concat({n},{D}); "
    "date_format({T},'yyyy-MM-dd HH:mm'); date_format({N},'yyyyMMdd'); date_format({D},'yyyy'); "
    "cast({i} as string); cast({l} as string); cast({S} as string); cast({o} as string)",
    "D": "date_add({D},{i}); date_sub({D},{i}); add_months({D},{i}); last_day({D}); trunc({D},'week'); "
    "trunc({D},'quarter'); trunc({D},'year'); trunc({D},'month'); to_date({T}); to_date({N}); "
    "greatest({D},{D}); if({o},{D},{D}); coalesce({D},{D}); least({D},{D}); {D}+1; nullif({D},{D})",
    "T": "{T}+{S}; {T}-{S}; date_trunc('hour',{T}); date_trunc('week',{T}); date_trunc('day',{D}); "
    "date_trunc('quarter',{T}); greatest({T},{T}); timestamp_seconds({l}); timestamp_seconds({n}); "
    "timestamp_millis({l}); timestamp_micros({l}); coalesce({T},{T}); least({T},{N}); if({o},{T},{N}); "
    "coalesce({T},{N}); {D}+{S}",
    "N": "{N}+{S}; {N}-{S}; date_trunc('day',{N}); coalesce({N},{N}); if({o},{N},{N}); least({N},{N}); "
    "greatest({N},{N}); nullif({N},{N}); date_trunc('month',{N})",
    "S": "{S}+{S}; {S}-{S}; -({S}); abs({S}); {S}*{i}; {S}/{i}; {S}*{n}; {S}/{d}; {T}-{T}; {N}-{N}; {T}-{N}; "
    "{N}-{T}; {D}-{D}; {T}-{D}; greatest({S},{S}); coalesce({S},{S}); if({o},{S},{S}); "
    "make_dt_interval({i},{i}); +({S}); try_add({S},{S}); sign({S})*{S}; least({S},{S})",
    "y": "concat({y},{y}); coalesce({y},{y})",
}
TYPES: tuple[str, ...] = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "boolean",
    "string",
    "date",
    "timestamp",
)
TYPES += ("timestamp_ntz", "binary")
SPANS = ("interval day to second", "interval day", "interval hour to minute")


def some_type(r: random.Random) -> tuple[int, int]:
    """Precision and scale of decimals: any, limits more often."""
    precision = r.choice([r.randint(1, 38), r.choice([1, 2, 9, 10, 18, 19, 37, 38])])
    return precision, r.choice([precision, 0, r.randint(0, precision), r.randint(0, precision)])


def typed_sample(seed: int, rows: int = 120) -> pa.Table:
    """Rows, and `row`, which counts them."""
    r = random.Random(seed)
    columns: dict[str, tuple[pa.DataType, Draw]] = {name: COLUMNS[name] for name in GIVEN}
    for n in range(DECIMALS):
        precision, scale = some_type(r)
        scale = precision if n < 2 else scale
        columns[f"m{n}"] = (pa.decimal128(precision, scale), decimals(precision, scale))
    columns |= {f"tn{n}": (pa.timestamp("us"), micros) for n in (1, 2)}
    columns |= {f"span{n}": (pa.duration("us"), span) for n in (1, 2)}
    made = {name: [None if r.random() < 0.08 else draw(r) for _ in range(rows)] for name, (_, draw) in columns.items()}
    for one, other in (("day1", "day2"), ("ts1", "ts2"), ("tn1", "tn2"), ("ts1", "tn1"), ("span1", "span2")):
        # of values by chance hardly two are equal
        for row in range(0, rows, 9):
            made[other][row] = made[one][row]
    numbers = {"row": pa.array(range(rows), pa.int32())}
    return pa.table(numbers | {name: pa.array(made[name], kind) for name, (kind, _) in columns.items()})


def span(r: random.Random) -> int:
    """Microseconds of an interval."""
    day = 86_400_000_000
    edges = [
        0,
        1,
        -1,
        day,
        -day,
        day - 1,
        1 - day,
        2**62,
        -(2**62),
        2**63 - 1,
        -(2**63),
        -(2**63) + 1,
        -(2**63 // day) * day,
    ]
    return r.choice([r.choice(edges), r.randint(-(10**12), 10**15), r.randint(-(2**63), 2**63 - 1)])


def drawn(r: random.Random, kind: str, depth: int) -> str:
    """An expression of a type, by its letter, of so many functions within one another at most."""
    if depth == 0 or r.random() < 0.2:
        return r.choice(LEAVES[kind])
    if r.random() < 0.25:
        return cast(r, depth, kind)
    form = r.choice([each.strip() for each in FORMS[kind].split(";")])
    return re.sub(r"{(\w)}", lambda found: f"({drawn(r, found.group(1), depth - 1)})", form)


OF_KIND = {
    "i": ("tinyint", "smallint", "int"),
    "l": ("bigint",),
    "d": ("float", "double"),
    "o": ("boolean",),
    "t": ("string",),
    "D": ("date",),
    "T": ("timestamp",),
    "N": ("timestamp_ntz",),
    "S": SPANS[:1],
    "y": ("binary",),
}


def cast(r: random.Random, depth: int, to: str) -> str:
    """An expression of any type, cast to one of a letter's."""
    of = drawn(r, r.choice(sorted(FORMS)), depth - 1)
    kind = "decimal({}, {})".format(*some_type(r)) if to == "n" else r.choice(OF_KIND[to])
    return f"{r.choice(['cast', 'cast', 'try_cast'])}({of} as {kind})"


def typed_texts(seed: int, count: int) -> list[str]:
    """So many expressions; some have no type, so that Spark does not take them."""
    r = random.Random(seed)
    kinds = sorted(FORMS)
    made: set[str] = set()
    for _ in range(count):
        kind = r.choice(kinds)
        made.add(cast(r, 1, kind) if r.random() < 0.3 else drawn(r, kind, r.choice((1, 1, 2, 2, 3))))
    return sorted(made)


def pairs(seed: int) -> list[str]:
    """A cast of each column to each type."""
    r = random.Random(seed)
    to = [*TYPES, *SPANS, *("decimal({}, {})".format(*some_type(r)) for _ in range(6))]
    names = [name for listed in LEAVES.values() for name in listed if re.fullmatch(r"[a-z]+\d*", name)]
    return [f"{how}({name} as {kind})" for name in names for kind in to for how in ("cast", "try_cast")]


def typed(frame: DataFrame, texts: list[str]) -> list[str]:
    """Those of the expressions that Spark takes."""
    return [text for text in texts if _taken(frame, text)]


def _taken(frame: DataFrame, text: str) -> bool:
    try:
        frame.select(column_of(text)).schema  # noqa: B018 the analysis is what is asked for
    except PySparkException:
        return False
    return True
