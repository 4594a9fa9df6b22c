"""The key of a window as text, as Kafka Streams prints it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from watersmeet.errors import FunctionError
from watersmeet.names.calls import answered


@answered
def window_text(key: Any, window: Any = None) -> Any:
    """A windowed key as text, as `Windowed.toString` of Kafka Streams has it: `[key@start/end]`.

    Parameters
    ----------
    key : a Column of structs of key, start and end, as tables by window have them; or of the key alone.
    window : in the second case a Column of structs of start and end, as `WTable.to_stream(key=)` gives it.

    Returns
    -------
    A Column of strings, null where the key is.

    Raises
    ------
    FunctionError : `key` is no Column.

    Examples
    --------
    >>> counts.to_stream(key=wm.window_text).to("counts")  # doctest: +SKIP
    >>> counts.to_stream().map(lambda key, n: (wm.window_text(key), n))  # doctest: +SKIP
    """
    if not isinstance(key, Column):
        raise FunctionError(
            f"window_text takes a Column, and not {key!r:.80}.",
            hint="Use it in a function: to_stream(key=wm.window_text), or select_key(lambda key, value: "
            "wm.window_text(key)).",
        )
    own, ends = (key["key"], key) if window is None else (key, window)
    parts = F.lit("["), own.cast("string"), F.lit("@"), ends["start"].cast("string"), F.lit("/")
    return F.concat(*parts, ends["end"].cast("string"), F.lit("]"))
