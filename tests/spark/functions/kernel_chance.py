"""Expressions by chance: functions within functions, which Spark's optimizer sees as a whole."""

from __future__ import annotations

import random
import re


def _list(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(";"))


LEAVES: dict[str, tuple[str, ...]] = {
    "i": _list("i1; i2; few; 3; -1; 0"),
    "l": _list("l1; l2; 5L; few"),
    "d": _list("d1; d2; 1.5D; 0.0D"),
    "t": _list("t1; t2; num; 'ab'; ''"),
    "o": _list("o1; o2; true; cast(null as boolean)"),
    "D": _list("day1; day2; date'2020-02-29'"),
    "T": _list("ts1; ts2"),
    "n": _list("n1; n2; 1.25"),
    "A": _list("ints; array(i1,few)"),
    "S": _list("st; named_struct('x',few,'y',t2)"),
}
"""Columns and constants, by a letter for their type."""
FORMS: dict[str, tuple[str, ...]] = {
    "i": _list(
        "{i}+{i}; {i}-{i}; {i}*{i}; {i}%{i}; abs({i}); -({i}); length({t}); instr({t},'a'); year({D}); "
        "month({D}); datediff({D},{D}); if({o},{i},{i}); coalesce({i},{i}); case when {o} then {i} end; "
        "cast({l} as int); cast({t} as int); cast({d} as int); greatest({i},{i}); pmod({i},{i}); size({A}); "
        "{A}[0]; {S}.x; hash({t},{i}); ascii({t}); dayofweek({D}); nullif({i},{i}); try_add({i},{i}); "
        "hour({T}); try_cast({t} as int); cast({o} as int); element_at({A},1)"
    ),
    "l": _list(
        "{l}+{l}; {l}*{l}; cast({i} as bigint); {l}-{i}; {i} div {i}; unix_seconds({T}); floor({d}); "
        "ceil({d}); xxhash64({t}); coalesce({l},{i}); unix_timestamp({T}); cast({n} as bigint); nvl({l},0L)"
    ),
    "d": _list(
        "{d}+{d}; {d}*{d}; {d}/{d}; {i}/{i}; sqrt({d}); -({d}); round({d}); nanvl({d},{d}); "
        "cast({i} as double); cast({n} as double); cast({t} as double); if({o},{d},{d}); {d}-{d}; signum({d}); "
        "{d}%{d}; try_divide({d},{d})"
    ),
    "t": _list(
        "concat({t},{t}); concat_ws('-',{t},{t}); substring({t},2,3); trim({t}); upper({t}); lower({t}); "
        "reverse({t}); lpad({t},4,'x'); replace({t},'a','bb'); cast({i} as string); cast({l} as string); "
        "cast({D} as string); cast({T} as string); cast({o} as string); cast({n} as string); "
        "coalesce({t},'z'); case when {o} then {t} else {t} end; {S}.y; left({t},2); repeat({t},2); "
        "date_format({T},'yyyy-MM-dd'); from_unixtime({l}); split({t},',')[0]; nullif({t},{t}); "
        "right({t},{i})"
    ),
    "o": _list(
        "{i}<{i}; {i}={i}; {d}<={d}; {t}={t}; {t}<{t}; not ({o}); ({o}) and ({o}); ({o}) or ({o}); "
        "{i} is null; {t} is not null; isnan({d}); {i} in (1,2,{i}); {t} like 'a%'; {D}>{D}; {T}<{T}; "
        "{o}<=>{o}; {n}>{n}; contains({t},'a'); {l}>{i}; {d}<=>{d}; array_contains({A},{i}); {t} in ('a',{t}); "
        "{S} is null; {i} between 0 and 5"
    ),
    "D": _list(
        "date_add({D},{i}); last_day({D}); trunc({D},'month'); cast({T} as date); cast({t} as date); "
        "add_months({D},2); if({o},{D},{D}); coalesce({D},{D}); to_date({T})"
    ),
    "T": _list(
        "date_trunc('hour',{T}); {T}+interval 1 day; coalesce({T},{T}); if({o},{T},{T}); "
        "timestamp_millis({l}); cast({l} as timestamp); {T} - interval 3 hours"
    ),
    "n": _list(
        "{n}+{n}; {n}*{n}; {n}-{i}; cast({i} as decimal(10,0)); round({n},1); -({n}); coalesce({n},{n}); "
        "cast({l} as decimal(20,2)); {n}/4; {n}%{n}"
    ),
    "A": _list("array({i},{i}); sort_array({A}); if({o},{A},array(1))"),
    "S": _list("named_struct('x',{i},'y',{t}); if({o},{S},named_struct('x',{i},'y',{t}))"),
}
"""Functions, by the letter of their result's type; letters in braces are those of arguments."""


def drawn(r: random.Random, kind: str, depth: int) -> str:
    """An expression of a type, by its letter, of so many functions within one another at most."""
    if depth == 0 or r.random() < 0.15:
        return r.choice(LEAVES[kind])
    form = r.choice(FORMS[kind])
    return re.sub(r"{(\w)}", lambda found: f"({drawn(r, found.group(1), depth - 1)})", form)


def drawn_texts(seed: int, count: int) -> list[str]:
    """So many expressions. None gives a struct: PySpark cannot hand all of those to Arrow."""
    r = random.Random(seed)
    kinds = sorted(set(FORMS) - {"S"})
    return sorted({drawn(r, r.choice(kinds), r.choice((2, 3, 3, 4))) for _ in range(count)})
