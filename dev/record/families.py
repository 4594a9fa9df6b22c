"""The topologies that are recorded: per file its families, each a name and the parameters of a kind.

Owns which parameters stand together; what they mean is said in tests/recordings/README.md. A family is small, so that
one run of a topology takes many histories.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Family(NamedTuple):
    """Histories of one topology.

    Parameters
    ----------
    name : the first part of each history's id.
    kind, params : the topology.
    span : about how long its windows or limits are, in ms: what is drawn around.
    """

    name: str
    kind: str
    params: dict[str, Any]
    span: int


def _windows() -> list[tuple[str, dict[str, Any], int]]:
    return [
        ("tumbling-10-g0", {"window": "tumbling", "size_ms": 10, "grace_ms": 0}, 10),
        ("tumbling-10-g15", {"window": "tumbling", "size_ms": 10, "grace_ms": 15}, 10),
        ("hopping-12-4-g0", {"window": "hopping", "size_ms": 12, "advance_ms": 4, "grace_ms": 0}, 12),
        ("hopping-10-7-g6", {"window": "hopping", "size_ms": 10, "advance_ms": 7, "grace_ms": 6}, 10),
        ("sliding-10-g0", {"window": "sliding", "difference_ms": 10, "grace_ms": 0}, 10),
        ("sliding-6-g9", {"window": "sliding", "difference_ms": 6, "grace_ms": 9}, 6),
        ("session-10-g0", {"window": "session", "gap_ms": 10, "grace_ms": 0}, 10),
        ("session-5-g7", {"window": "session", "gap_ms": 5, "grace_ms": 7}, 5),
    ]


CLOSES = {"until": "window_closes"}
"""Suppress until windows close: with a buffer without limits, as Kafka Streams takes it."""


def _cogroup() -> list[Family]:
    families = [Family("cog-plain", "cogroup", {"streams": 2}, 10), Family("cog-three", "cogroup", {"streams": 3}, 10)]
    for number, (name, params, span) in enumerate(_windows()):
        streams = (2, 3, 1, 2)[number % 4]
        families.append(Family(f"cog-{name}", "cogroup", {"streams": 2, **params}, span))
        families.append(
            Family(f"cog-{name}-s{streams}-closes", "cogroup", {"streams": streams, **params, "suppress": CLOSES}, span)
        )
    limits = {"until": "time_limit", "ms": 8, "max_records": 2}
    tumbling, memory = _windows()[0][1], _windows()[1][1]
    return [
        *families,
        Family("cog-tumbling-limit", "cogroup", {"streams": 2, **tumbling, "suppress": limits}, 10),
        Family("cog-tumbling-memory", "cogroup", {"streams": 3, **memory, "store": "in_memory"}, 10),
        Family("cog-unlimited", "cogroup", {"streams": 2, "window": "unlimited"}, 10),
        Family("cog-unlimited-from-30", "cogroup", {"streams": 1, "window": "unlimited", "start_ms": 30}, 10),
    ]


def _suppress(ms: int, **limits: int) -> dict[str, Any]:
    return {"op": "suppress", "ms": ms, **limits}


SUPPRESSED = {
    "10": [_suppress(10)],
    "0": [_suppress(0)],
    "25-records-2": [_suppress(25, max_records=2)],
    "25-records-0": [_suppress(25, max_records=0)],
    "20-bytes": [_suppress(20, max_bytes=120)],
    "filter": [{"op": "filter"}, _suppress(10)],
    "twice": [_suppress(5), {"op": "map_values"}, _suppress(10)],
}


def _suppress_then_aggregate() -> list[Family]:
    kind, folds = "suppress_then_aggregate", ("log", "set", "reduce")
    families = [
        Family(f"supp-{name}-{(fold := folds[n % 3])}", kind, {"agg": fold, "input_ops": ops}, 10)
        for n, (name, ops) in enumerate(SUPPRESSED.items())
    ]
    return [
        *families,
        Family(
            "supp-10-stored-set", kind, {"agg": "set", "input_materialized": True, "input_ops": SUPPRESSED["10"]}, 10
        ),
        Family("supp-10-log", kind, {"agg": "log", "input_ops": [*SUPPRESSED["10"], {"op": "filter"}]}, 10),
    ]


def _fk_then_suppress() -> list[Family]:
    kind = "fk_then_suppress"
    families = [
        Family(f"fks-{how}-{name}", kind, {"type": how, "ops": SUPPRESSED[name]}, 10)
        for how in ("inner", "left")
        for name in ("10", "25-records-2", "filter")
    ]
    stored = {"type": "left", "left_materialized": True, "ops": SUPPRESSED["10"]}
    return [
        *families,
        Family("fks-left-stored", kind, stored, 10),
        Family("fks-inner-twice", kind, {"type": "inner", "ops": SUPPRESSED["twice"]}, 10),
        Family("fks-left-before", kind, {"type": "left", "left_ops": SUPPRESSED["10"], "ops": SUPPRESSED["0"]}, 10),
        Family("fks-left-right-held", kind, {"type": "left", "right_ops": SUPPRESSED["10"], "ops": []}, 10),
    ]


def _aggregate_then_fk() -> list[Family]:
    kind, ops = "aggregate_then_fk", {"left_ops": SUPPRESSED["10"]}
    families = [
        Family(f"aggfk-{how}-{fold}", kind, {"type": how, "agg": fold}, 10)
        for how in ("inner", "left")
        for fold in ("set", "reduce", "log")
    ]
    return [
        *families,
        Family("aggfk-inner-held", kind, {"type": "inner", "agg": "set", **ops}, 10),
        Family("aggfk-left-held", kind, {"type": "left", "agg": "set", **ops}, 10),
        Family("aggfk-left-stored", kind, {"type": "left", "agg": "set", "right_materialized": True}, 10),
        Family("aggfk-left-versioned", kind, {"type": "left", "agg": "set", "right_versioned_ms": 30}, 10),
    ]


def _window_then_aggregate() -> list[Family]:
    kind, families = "window_then_aggregate", []
    for number, (name, params, span) in enumerate(_windows()):
        fold, group = ("log", "set", "reduce")[number % 3], ("key", "start")[number // 2 % 2]
        families.append(Family(f"wagg-{name}-{fold}", kind, {**params, "agg": fold, "group": group}, span))
        if number % 2 == 0:
            more = {**params, "agg": "set", "group": "key"}
            families.append(Family(f"wagg-{name}-close", kind, {**more, "emit": "close"}, span))
            families.append(Family(f"wagg-{name}-closes", kind, {**more, "suppress": CLOSES}, span))
    return families


def _fk_chain_same() -> list[Family]:
    return [
        Family(
            f"fkfk-{how}-{second}-{key}", "fk_chain_same", {"type": how, "type2": second, "fk": "ref", "fk2": key}, 10
        )
        for how in ("inner", "left")
        for second in ("inner", "left")
        for key in ("ref", "payload_ref")
    ]


def _headers() -> list[Family]:
    """One of each operator, with a header for each record."""
    windows, told = _windows(), {"headers": True}
    joined = {"before_ms": 5, "after_ms": 8, "grace_ms": 4}
    families: list[tuple[str, str, dict[str, Any]]] = [
        *((f"table-{how}", "table_table", {"type": how}) for how in ("inner", "left", "outer")),
        *((f"fk-{how}", "fk_join", {"type": how}) for how in ("inner", "left")),
        *((f"stream-table-{how}", "stream_table", {"type": how}) for how in ("inner", "left")),
        ("stream-table-grace", "stream_table", {"type": "inner", "grace_ms": 8, "right_versioned_ms": 40}),
        *((f"stream-stream-{how}", "stream_stream", {"type": how, **joined}) for how in ("inner", "left", "outer")),
        ("stream-aggregate", "stream_aggregate", {}),
        ("table-aggregate", "table_aggregate", {"agg": "set"}),
        ("table-ops", "table_ops", {"input_materialized": True, "ops": [{"op": "filter"}, {"op": "map_values"}]}),
        ("suppress", "table_ops", {"ops": SUPPRESSED["10"]}),
        *((f"{windows[n][0]}-update", "windowed_aggregate", windows[n][1]) for n in (1, 5, 7)),
        *((f"{windows[n][0]}-close", "windowed_aggregate", {**windows[n][1], "emit": "close"}) for n in (1, 3, 5, 7)),
        *((f"{windows[n][0]}-closes", "windowed_aggregate", {**windows[n][1], "suppress": CLOSES}) for n in (1, 7)),
    ]
    return [Family(f"headers-{name}", kind, {**params, **told}, 10) for name, kind, params in families]


def _timestamps() -> list[Family]:
    """Inputs with times of their own, where time decides."""
    windows = _windows()
    joined = {"before_ms": 5, "after_ms": 8, "grace_ms": 4}
    shapes: list[tuple[str, str, dict[str, Any], int]] = [
        *((name, "windowed_aggregate", params, span) for name, params, span in windows[1::2]),
        ("close", "windowed_aggregate", {**windows[0][1], "emit": "close"}, 10),
        ("closes", "windowed_aggregate", {**windows[7][1], "suppress": CLOSES}, 5),
        ("cogroup", "cogroup", {"streams": 2, **windows[1][1]}, 10),
        ("inner", "stream_stream", {"type": "inner", **joined}, 10),
        ("versioned", "stream_table", {"type": "left", "right_versioned_ms": 40}, 10),
        ("table", "table_table", {"type": "outer"}, 10),
        ("suppress", "table_ops", {"ops": SUPPRESSED["10"]}, 10),
        ("dedup", "processor_dedup", {"ttl_ms": 10}, 10),
        ("reorder", "processor_reorder", {"wait_ms": 10}, 10),
        ("expire", "processor_expire", {"ttl_ms": 10}, 10),
    ]
    return [
        Family(f"times-{name}-{policy}", kind, {**params, "timestamp": policy}, span)
        for name, kind, params, span in shapes
        for policy in ("own", "skip")
    ]


def _processors(kind: str, name: str, *numbers: int) -> list[Family]:
    return [Family(f"{kind}-{number}", kind, {name: number}, number) for number in numbers]


FILES: dict[str, tuple[int, list[Family]]] = {
    "cogroup": (1200, _cogroup()),
    "suppress_then_aggregate": (300, _suppress_then_aggregate()),
    "fk_then_suppress": (300, _fk_then_suppress()),
    "aggregate_then_fk": (300, _aggregate_then_fk()),
    "window_then_aggregate": (320, _window_then_aggregate()),
    "fk_chain_same": (300, _fk_chain_same()),
    "headers": (92, _headers()),
    "timestamps": (140, _timestamps()),
    "processor_dedup": (300, _processors("processor_dedup", "ttl_ms", 1, 10, 40)),
    "processor_reorder": (300, _processors("processor_reorder", "wait_ms", 1, 10, 25)),
    "processor_expire": (300, _processors("processor_expire", "ttl_ms", 1, 10, 40)),
    "processor_totals": (300, _processors("processor_totals", "every_ms", 10, 25)),
}
"""Per file how many histories it has, and the families that share them out."""
