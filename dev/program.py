"""A program that runs beside tests, from `start` (or `with`) to `stop`."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Program:
    """One program in a process of its own."""

    def start(self) -> None:
        """Start it; when this returns, it serves."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
