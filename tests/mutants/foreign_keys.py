"""The mutants of foreign-key joins; see `test_mutants`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._engine import keys, operators
from watersmeet._engine.operators import foreign_key_join

Patch = pytest.MonkeyPatch


def old_foreign_key_alive(patch: Patch) -> None:
    """The foreign key that a row referred to before is not told."""
    changed = foreign_key_join._changes

    def without_old(*arguments: Any) -> Any:
        changes = changed(*arguments)
        return replace(changes, old=np.where(changes.new >= 0, -1, changes.old))

    patch.setattr(foreign_key_join, "_changes", without_old)


def null_foreign_key_ignored(patch: Patch) -> None:
    """A row whose foreign key goes to null is ignored, as up to 3.9.0."""
    changed = foreign_key_join._changes

    def without_nulls(*arguments: Any) -> Any:
        changes = changed(*arguments)
        return replace(changes, old=np.where(changes.present & (changes.new < 0), -1, changes.old))

    patch.setattr(foreign_key_join, "_changes", without_nulls)


def forgets_within_the_batch(patch: Patch) -> None:
    """What a row referred to before is looked up in state alone: A to B to A within a batch leaves B."""
    changed = foreign_key_join._changes

    def from_state(events: Any, keys: Any, prior: Any) -> Any:
        stored = prior[events.groups.group_of_row]
        has_key = np.append(keys.is_valid().to_numpy(zero_copy_only=False), False)
        return replace(changed(events, keys, prior), old=np.where(has_key[stored], stored, -1))

    patch.setattr(foreign_key_join, "_changes", from_state)


def double_tombstone(patch: Patch) -> None:
    """A left join's delete is answered by the old foreign key and once more, as up to 3.9.0."""

    def run(context: Any, inputs: Any, state: Any) -> Iterator[pa.Table]:
        for rows in foreign_key_join.run_foreign_key_send(context, inputs, state):
            verbs = rows["verb"].to_numpy()
            verb = pa.array(np.where(verbs == 0, foreign_key_join.TELL, verbs).astype(np.int8))
            yield rows.set_column(rows.schema.get_field_index("verb"), "verb", verb)

    patch.setitem(operators.OPERATORS, "foreign_key_send", run)


def left_keys_shard(patch: Patch) -> None:
    """Messages for a foreign key go to the shard of the left key."""
    out = foreign_key_join._messages

    def astray(*arguments: Any) -> Iterator[pa.Table]:
        for rows in out(*arguments):
            at = rows.schema.get_field_index("hash")
            yield rows.set_column(at, "hash", pa.array(keys.hash_keys(rows["left_key"])))

    patch.setattr(foreign_key_join, "_messages", astray)
