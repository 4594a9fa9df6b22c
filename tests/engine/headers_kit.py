"""What the tests of headers share: a driver whose results have their headers beside the value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from proof.engine import EngineBatch, EngineDriver
from watersmeet._engine.rows import HEADERS


class Told(EngineDriver):
    """A driver whose results have a struct of value and headers in place of the value.

    Attributes
    ----------
    told : gives the headers of a record that is piped.
    """

    told: Callable[[Any], list[dict[str, Any]]]

    def new_batch(self) -> EngineBatch:
        """See `EngineDriver`."""
        return _Told(self)


class _Told(EngineBatch):
    def _source_frame(self, root: Any, rows: Any) -> pa.Table:
        frame = super()._source_frame(root, rows)
        driver = self._driver
        assert isinstance(driver, Told)
        own = pa.array([driver.told(piped) for piped in rows], HEADERS)
        return frame.set_column(frame.schema.get_field_index("headers"), "headers", own)

    def finish(self) -> Iterator[tuple[str, pa.Table]]:
        for sink, rows in super().finish():
            value, headers = (rows.column(name).combine_chunks() for name in ("value", "headers"))
            both = pa.StructArray.from_arrays([value, headers], ["value", "headers"])
            yield sink, rows.set_column(rows.schema.get_field_index("value"), "value", both)


def one_header(name: str, value: Any) -> list[dict[str, Any]]:
    """The headers of a record that has one."""
    return [{"key": name, "value": f"{value}".encode()}]
