"""What the user writes: `stream.to(AppendedLines("/data/out.csv"), name="lines")`, and what the output answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.types as pt

from watersmeet.errors import TopologyError
from watersmeet.functions import FunctionBackend
from watersmeet.io.outputs import KeyTexts, Names, SinkTarget


@dataclass(frozen=True)
class AppendedLines(SinkTarget):
    """A file of lines `key;value`, each batch's behind those of the one before.

    Parameters
    ----------
    file : its path, on the driver's machine.
    """

    file: str

    shown = "lines"

    @property
    def claim(self) -> tuple[str, str]:
        """See `SinkTarget`."""
        return ("lines", self.file)

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:
        """See `SinkTarget`."""
        for part, kind in (("key", functions.as_arrow(key)), ("value", functions.as_arrow(value))):
            if pt.is_nested(kind):
                raise TopologyError(f"A line has no place for {part}s of this type.", given=kind, hint="Cast it.")

    def check_beside(self, other: Any, names: Names, keys: KeyTexts) -> None:
        """See `SinkTarget`."""
        raise TopologyError("Two outputs write one file.", given=f"{self.file}: {names}", hint="Merge them first.")

    def recorded(self, *, alone: bool) -> Mapping[str, Any]:
        """See `SinkTarget`."""
        return {"file": self.file}
