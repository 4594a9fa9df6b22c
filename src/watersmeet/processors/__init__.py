"""Processors: plain Python classes that work on the records of a key, with state and timers.

Vocabulary. A processor is any class that has the methods of `Processor` which it needs; it does not have to be derived
from it. The arguments of its methods are described here; the engine makes them.
"""

from watersmeet.processors.protocols import (
    BatchState,
    Context,
    GlobalTableState,
    ListState,
    MapState,
    Processor,
    Record,
    TableState,
    ValueState,
)
from watersmeet.processors.stores import ListStore, MapStore, StoreDeclaration, ValueStore

__all__ = [
    "BatchState",
    "Context",
    "GlobalTableState",
    "ListState",
    "ListStore",
    "MapState",
    "MapStore",
    "Processor",
    "Record",
    "StoreDeclaration",
    "TableState",
    "ValueState",
    "ValueStore",
]
