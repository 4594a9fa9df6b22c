"""Where a checkpoint has the tables of a topology, those that several joins read among them (docs/decisions/0054).

Tables that lie apart until now stay apart, in a changed topology, too: a join that goes on has the rows that it had.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from watersmeet._plan.change.lent_tables import lent_as_taken
from watersmeet._plan.operators.lending import lent_as_recorded
from watersmeet._plan.physical import Physical
from watersmeet._spark.checkpoint.checkpoint import Checkpoint, CheckpointFiles
from watersmeet._spark.stores.table_columns import columns_of_stores
from watersmeet._worker.wire.wire import addresses, spread_labels


def placed(physical: Physical, found: CheckpointFiles, shards: int, tasks: int) -> dict[str, Any]:
    """The addresses and stores that a checkpoint records for an unchanged topology."""
    known = found.binding.addresses if found.binding else {}
    return _facts(lent_as_recorded(physical, known), found, shards, tasks)


def placed_anew(place: Checkpoint, physical: Physical, found: CheckpointFiles) -> Checkpoint:
    """The checkpoint of a changed topology, with the addresses and stores of its tables; unchanged: as it is."""
    if place.change is None or found.binding is None:
        return place
    old = found.binding

    def lies(node: str, table: str) -> tuple[object, ...]:
        return tuple(old.addresses.get(node, {}).get(table, ())), old.stored_name(table)

    lent = lent_as_taken(physical, place.change, lies)
    facts = replace(place.facts, **_facts(lent, found, place.facts.shards, place.facts.tasks))
    return replace(place, facts=facts)


def _facts(physical: Physical, found: CheckpointFiles, shards: int, tasks: int) -> dict[str, Any]:
    labels = spread_labels(physical, shards, tasks, found.addresses(shards, tasks))
    shown = {name: columns.recorded() for name, columns in columns_of_stores(physical).items()}
    return {"addresses": addresses(physical, labels), "stores": shown}
