"""Records that outlive a function that raises: whose they are, and where that cannot be."""

from __future__ import annotations

from collections.abc import Mapping

from millpond._plan.dead_letters import letters_for
from millpond._plan.physical import Physical
from millpond._spark.dataflow.fusion import Fusion
from millpond._spark.dataflow.places import told
from millpond._spark.formats.dead_letters import OnError
from millpond.errors import ConfigError
from millpond.io.topics import Topic


def on_errors(physical: Physical, roots: Mapping[int, str]) -> dict[int, OnError]:
    """Of a stage's roots those whose records may outlive that a function raises, and what becomes of them."""
    sources = [(n, s) for n, s in enumerate(physical.plan.sources) if roots.get(n) == s.name]
    return {
        number: OnError(s.origin.name, s.name, letters_for(physical.plan, s, s.origin.on_error))
        for number, s in sources
        if isinstance(s.origin, Topic) and s.origin.outlives_errors
    }


def refuse_by_spark(physical: Physical, policies: Mapping[int, OnError], fusion: Fusion) -> None:
    """Raise where a record is to outlive what fails: Spark evaluates the functions, which fails its tasks.

    Raises
    ------
    ConfigError : names the functions.
    """
    if policies:
        by_spark = [line for line in told(physical, fusion) if "by Spark" in line]
        raise ConfigError(
            "A function that Spark evaluates fails the query, whatever on_error says.",
            given=f"on_error of {', '.join(each.source for each in policies.values())}; {'; '.join(by_spark)}",
            hint="Write it with functions that the workers know: topology.describe() says where each runs, and "
            "why; or leave on_error out.",
        )
