"""The plan of a checkpoint's last batch, written anew for a topology with other inputs.

Spark knows its sources by their places in a plan. watersmeet records which input stands at which place, so each one
goes on where it is (law 10), and one that is new begins at its beginning.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from watersmeet.errors import CorruptData
from watersmeet.io.topic_names import matches

VOID = "-"
"""Where Spark has read nothing of a source yet."""
TOPICS, GLOBAL_TOPICS, CLOCK, REPLACED = "topics", "global topics", "clock", "replaced tables"
"""Sources of Spark's that are not one input of the topology's."""


def numbered(names: Sequence[str]) -> list[tuple[str, int]]:
    """Each name, and how often it came before: an input may be made of several sources."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def carried_offsets(plan: str, old: Sequence[str], new: Sequence[str], topics: Mapping[str, Begin]) -> str:
    """The plan of the last batch as a topology with other inputs has it.

    Parameters
    ----------
    plan : the file, as Spark wrote it.
    old, new : names of the sources, in order.
    topics : of `TOPICS` and `GLOBAL_TOPICS` what they read from now on.

    Raises
    ------
    CorruptData : the plan has another number of sources.
    """
    version, said, *ends = plan.rstrip("\n").split("\n")
    if len(ends) != len(old):
        raise CorruptData(
            f"A plan of the checkpoint has {len(ends)} sources, and its topology has {len(old)}.",
            given=None,
            hint="Restore the whole checkpoint from one copy.",
        )
    known = dict(zip(numbered(old), ends, strict=True))
    found = [_of_topics(known.get(at, VOID), topics.get(at[0])) for at in numbered(new)]
    return "\n".join([version, said, *found])


def with_tasks(plan: str, tasks: int) -> str:
    """The plan of a batch of so many tasks: Spark takes their number from there, not from the session."""
    version, said, *ends = plan.split("\n")
    told = json.loads(said)
    told.setdefault("conf", {})["spark.sql.shuffle.partitions"] = str(tasks)
    return "\n".join([version, json.dumps(told, separators=(",", ":")), *ends])


@dataclass(frozen=True)
class Begin:
    """The topics of a source.

    Parameters
    ----------
    topics : the names of those that have one.
    at : asked for some of them, by topic and partition, where they begin.
    patterns : of the names of the others.
    there : asks for the topics that those of them which are new match now.
    """

    topics: frozenset[str]
    at: Callable[[frozenset[str]], Mapping[str, Mapping[str, int]]]
    patterns: frozenset[str] = frozenset()
    there: Callable[[], Iterable[str]] = tuple

    def reads(self, topic: str) -> bool:
        """Whether it reads the topic."""
        return topic in self.topics or any(matches(each, topic) for each in self.patterns)


def _of_topics(end: str, begin: Begin | None) -> str:
    """The offsets of a source, without topics that are gone, and with the beginnings of new ones."""
    if begin is None or end == VOID:
        return end
    kept = {name: parts for name, parts in json.loads(end).items() if begin.reads(name)}
    added = (begin.topics | frozenset(begin.there() if begin.patterns else ())) - set(kept)
    if not kept:
        return VOID
    return json.dumps({**kept, **(begin.at(added) if added else {})}, separators=(",", ":"))


def source_indexes(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """The place of each source that goes on, by the one that it had."""
    now = {at: place for place, at in enumerate(numbered(new))}
    return {place: now[at] for place, at in enumerate(numbered(old)) if at in now}
