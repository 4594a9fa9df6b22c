"""The checks of a start for functions and columns of tables that are others than a checkpoint records."""

from __future__ import annotations

from collections.abc import Collection

from watersmeet._plan.change.compare import other_columns
from watersmeet._spark.checkpoint.facts import CheckpointFacts, changed_function, changed_functions
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.session.warned import warn
from watersmeet.errors import ChangedTopology

STAYS = "with allow_changed_functions=True: old results stay in the state, and the new function adds to them."


def check_columns(folder: Folder, old: CheckpointFacts, new: CheckpointFacts) -> None:
    """Refuse tables that keep other columns, under a topology with the same description."""
    others = other_columns(old.described, new.described) if old.described and new.described else []
    if others:
        raise ChangedTopology(
            "The tables of the checkpoint have other columns than the tables of this topology.",
            given="\n".join([str(folder), *others]),
            hint="Start it once with evolve=True: all state that fits is taken over. wm.plan_change(checkpoint, "
            "topology) lists the changes in advance.",
        )


def check_functions(
    folder: Folder,
    old: CheckpointFacts,
    new: CheckpointFacts,
    kept: Collection[tuple[str, str]],
    anew: Collection[tuple[str, str]],
) -> None:
    """Say which functions are others; refuse those that state depends on, unless that is computed `anew`."""
    changed = {at: pair for at, pair in changed_functions(old, new).items() if at not in anew}
    refused = {at: pair for at, pair in changed.items() if at in kept}
    if refused:
        raise ChangedTopology(
            "A function has changed since it computed the checkpoint's state.",
            given="\n".join([str(folder), *(changed_function(*at, *pair) for at, pair in refused.items())]),
            hint=f"Start it with a new checkpoint; or {STAYS}",
        )
    for at, pair in changed.items():
        warn(
            f"A function has changed since the last start: {changed_function(*at, *pair)}",
            "no state depends on it; an unfinished batch runs again with the new function.",
        )
