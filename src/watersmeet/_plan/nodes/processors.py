"""Processors: what a user declares (docs/processors.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from watersmeet._plan.nodes.base import Node


@dataclass(frozen=True)
class ProcessorStore:
    """A store of a processor.

    Parameters
    ----------
    name : the store's.
    kind : "value", "list" or "map".
    entry : type of what tells entries of a key apart; None where there is one alone.
    value : type of the values.
    ttl_ms : for how long an entry lasts, in ms of stream time; None: until it is deleted.
    named : whether its name is the user's, and not made of the node's.
    """

    name: str
    kind: str
    entry: Any
    value: Any
    ttl_ms: int | None
    named: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + ("" if self.ttl_ms is None else f" for {self.ttl_ms} ms")


@dataclass(frozen=True)
class ProcessNode(Node):
    """The records of a stream given to a processor, which sends others; under their keys.

    Where it sends records under other keys, these are structs of a key and a value, which a step behind makes records.

    Parameters
    ----------
    make : gives the processor.
    called : what it is called in texts.
    sends : (type of the keys it sends, None where these are the records' own; type of the values).
    stores : its stores.
    timers : whether it has timers of stream time.
    wall_timers : whether it goes by the wall clock, too, and has timers of it.
    drops_null : whether records without a value end here, counted.
    """

    make: Callable[[], Any] = field(kw_only=True, compare=False, repr=False)
    called: str = field(kw_only=True)
    sends: tuple[Any, Any] = field(kw_only=True)
    stores: tuple[ProcessorStore, ...] = field(default=(), kw_only=True)
    timers: bool = field(default=False, kw_only=True)
    wall_timers: bool = field(default=False, kw_only=True)
    drops_null: bool = field(default=False, kw_only=True)

    stem = "process"
    fans_out = True

    @property
    def named_stores(self) -> tuple[str, ...]:
        return tuple(store.name for store in self.stores if store.named)

    def details(self) -> tuple[tuple[str, str], ...]:
        kept = (("stores", ", ".join(map(str, self.stores))),) if self.stores else ()
        clocks = [name for name, has in (("stream time", self.timers), ("wall clock", self.wall_timers)) if has]
        return (("processor", self.called), *kept, *((("timers", ", ".join(clocks)),) if clocks else ()))
