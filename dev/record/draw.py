"""Draws random histories for families of topologies: a function of (seed, family, number) alone.

Owns the records: few keys, tombstones, equal, late and zero timestamps (its test driver takes no
negative ones), the exact ends of windows, far jumps,
and streams that lag behind each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from dev.record.families import Family

KEYS = (("k", "l", "m", "n"), ("a", "ab", "aa", "b"), ("", "\0", "k", "l"), ("1", "10", "2", "-1"))
REFERENCES = ("p", "q", "r", "s")
SHORTEST, LONGEST = 10, 60


def topics(family: Family) -> tuple[str, ...]:
    """The inputs of a family's topology."""
    match family.kind:
        case "cogroup":
            return tuple(f"s{number}" for number in range(family.params["streams"]))
        case (
            "suppress_then_aggregate"
            | "window_then_aggregate"
            | ("stream_aggregate" | "table_aggregate" | "table_ops" | "windowed_aggregate")
            | ("processor_dedup" | "processor_reorder" | "processor_expire" | "processor_totals")
        ):
            return ("input",)
        case _:
            return ("left", "right")


def history(family: Family, number: int, seed: int) -> dict[str, Any]:
    """One history: what is to be recorded, without results."""
    random = Random(f"{seed}/{family.name}/{number}")
    steps = list(_steps(family, random))
    return {"id": f"{family.name}/r{number:04}", "kind": family.kind, "params": family.params, "steps": steps}


def _steps(family: Family, random: Random) -> Iterator[dict[str, Any]]:
    names = topics(family)
    keys = list(random.choice(KEYS))[: random.randint(2, 4)]
    # in some histories one stream runs behind the others, by more than a window or by less
    lags = {name: random.choice((0, 0, 0, family.span // 2, 2 * family.span)) for name in names}
    now = random.choice((0, 0, 5, family.span, 1_000, 100_000))
    for number in range(random.randint(SHORTEST, LONGEST)):
        topic = random.choice(names)
        now, ts = _time(random, now, family.span)
        if family.kind == "processor_totals" and random.random() < 0.3:
            yield {"advance_wall_clock_ms": random.choice((1, family.span - 1, family.span, 7, 5 * family.span + 3))}
        # a record without a key moves Kafka's stream time, and ends here
        without = 0.0 if family.kind.startswith("processor") else 0.02
        key = None if random.random() < without else random.choice(_keys_of(family.kind, topic, keys))
        value, ts = _value(random, family.kind, topic, number + 1), max(0, ts - lags[topic])
        if "timestamp" in family.params:
            value, ts = _with_time(random, value, ts, family.span)
        yield {"topic": topic, "key": key, "value": value, "ts": ts}


def _keys_of(kind: str, topic: str, keys: list[str]) -> list[str]:
    by_key = kind in ("table_table", "stream_table", "stream_stream")
    return list(REFERENCES[: len(keys)]) if topic == "right" and not by_key else keys


def _time(random: Random, now: int, span: int) -> tuple[int, int]:
    """(how far time is, the record's timestamp)."""
    what = random.random()
    if what < 0.25:
        return now, now
    if what < 0.55:
        now += random.randint(1, max(1, span // 2))
        return now, now
    if what < 0.68:  # the end of a window, and a moment beside it
        now = (now // span + random.randint(1, 2)) * span + random.choice((-1, 0, 0, 1))
        return now, now
    if what < 0.90:
        return now, max(0, now - random.randint(1, random.choice((span, 2 * span, 4 * span))))
    if what < 0.97:
        now += span * random.choice((1, 3, 10, 7_000))
        return now, now
    return now, random.choice((0, 1, max(0, now - span), max(0, now - 50 * span)))


def _with_time(random: Random, value: str | None, ts: int, span: int) -> tuple[str | None, int]:
    """(the value with its time, the record's own time); some have none, or one before 1970."""
    own = max(0, ts + random.randint(-3 * span, 3 * span))
    if value is None or random.random() < 0.1:
        return value, own
    return f"{value}@{ts if random.random() < 0.95 else -ts - 1}", own


def _value(random: Random, kind: str, topic: str, number: int) -> str | None:
    tombstones = 0.05 if topic.startswith("s") else 0.18
    if random.random() < tombstones:
        return None
    if topic == "right":
        return f"b{number}"
    one, other = random.choice(REFERENCES[:3]), random.choice(REFERENCES[:3])
    match kind:
        case ("cogroup" | "window_then_aggregate" | "stream_aggregate" | "windowed_aggregate" | "stream_stream") | (
            "processor_reorder" | "processor_expire" | "processor_totals"
        ):
            return f"v{number}"
        case "processor_dedup":
            return f"v{random.randint(1, 3)}"
        case "aggregate_then_fk" | "fk_chain_same":
            forms = (
                f"{one}|{other}|v{number}",
                f"{one}|{other}|v",
                f"{one}|v{number}",
                f"|{other}|v{number}",
                f"{one}|",
            )
            return random.choice((forms[0], forms[0], forms[0], *forms))
        case _:
            return random.choice((f"{one}|v{number}", f"{one}|v{number}", f"{one}|v{number}", f"{one}|", f"v{number}"))
