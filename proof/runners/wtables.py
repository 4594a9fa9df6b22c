"""Joins with WTables as histories name them, made with watersmeet's own handles: the golden pages of section 20."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proof.oracle.functions import named_window, plus
from proof.runners.library import Library
from watersmeet.windows import previous

Params = Mapping[str, Any]
WINDOW = "struct<start:bigint,end:bigint>"


def wtable_join(kind: str, library: Library, params: Params, side: Callable[[str, str], Any]) -> Any:
    """The join of a kind.

    Parameters
    ----------
    side : gives an input, by its name, as a "stream", a "table" or the "windows" of an aggregate of it.
    """
    shapes = {"stream": "stream", "table": "table", "wtable": "windows"}
    first, second = (shapes[shape] for shape in kind.split("_"))
    topic, size, shift = params.get("topic"), params["size_ms"], params.get("previous")
    left = side(topic or "left", first)
    right = left if topic else side("right", second)
    options: dict[str, Any] = {"keep": f"{params['keep_ms']} ms"}
    if shift is not None:
        options["shift"] = previous(shift)
    if first != "windows":

        def named(value: str) -> dict[str, int] | None:
            found = named_window(value, size)
            return None if found is None else dict(zip(("start", "end"), found, strict=True))

        options["window_of"] = library.lift(named, WINDOW)
    method = {"inner": "join", "left": "left_join", "outer": "outer_join"}[params["type"]]
    return getattr(left, method)(right, library.lift(plus, "string"), **options)
