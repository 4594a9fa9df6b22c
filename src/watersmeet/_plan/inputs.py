"""Inputs of a topology under construction: each becomes a source node, checked on the line that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import Function, Node, Shape, SourceNode, sources_among
from watersmeet.errors import TopologyError
from watersmeet.functions import adapt, types_for
from watersmeet.io.bootstrap import Bootstrap, check_bootstrap, check_types
from watersmeet.io.dataframes import check_complete
from watersmeet.io.inputs import Origin
from watersmeet.io.origins import origin_of
from watersmeet.io.policies import Policies
from watersmeet.windows import Duration


class Inputs:
    """The inputs of one topology.

    Parameters
    ----------
    construction : takes their nodes.
    policies : of topics that say none themselves.

    Attributes
    ----------
    names : of the inputs so far.
    """

    def __init__(self, construction: Construction, policies: Policies) -> None:
        self._construction = construction
        self._policies = policies
        self.names: set[str] = set()

    def add(
        self,
        source: Any,
        kind: Any,
        name: str | None,
        store: str | None,
        options: Mapping[str, Any],
        history: Duration | None = None,
        bootstrap: Bootstrap | None = None,
    ) -> Node:
        """The node of a topic or a DataFrame.

        Parameters
        ----------
        options : of `StreamsBuilder.stream` and its like; those that are None have not been given.

        Raises
        ------
        TopologyError : no such source, format, column or schema, or the name is taken.
        """
        given = {option: each for option, each in options.items() if each is not None}
        if hasattr(source, "isStreaming") and hasattr(source, "columns"):
            check_complete(source, {"name": name, **dict.fromkeys(("key", "timestamp", "order")), **given})
        origin = origin_of(source, given)
        origin = origin.under(origin.policies.over(self._policies))
        name = name or origin.default_name
        if name is None:
            raise TopologyError("A DataFrame has no name of its own.", hint="Give it one: name=...")
        if name in self.names:
            raise TopologyError(
                f"Two inputs are named {name!r}.",
                given=repr(name),
                hint="Read it once and use the handle twice, or give one of them name=...",
            )
        self._check_pattern(origin, kind, name, bootstrap)
        key, value = self._construction.functions.source_types(origin, name)
        kept = self._construction.history_ms(history)
        if bootstrap is not None:
            check_bootstrap(bootstrap, kind, origin, name)
            check_types(self._construction.functions.source_types(bootstrap, name), (key, value), name)
        self._check_begin(origin, kind, name, bootstrap)
        shape = Shape(kind, key, value)
        node = SourceNode(name, (), shape, input=name, origin=origin, store=store, history_ms=kept, bootstrap=bootstrap)
        node = replace(node, timestamp=self._extractor(origin, shape))
        self._construction.add(node)
        self.names.add(name)
        return node

    def _check_pattern(self, origin: Origin, kind: Any, name: str, bootstrap: Bootstrap | None) -> None:
        """Raise where a pattern of topics is no stream of its own topics alone, or begins with something."""
        others = [each.origin for each in sources_among(self._construction.nodes)]
        for one, other in [(origin, each) for each in others] + [(each, origin) for each in others]:
            if one.pattern is not None and other.pattern is None and one.reads(other.topic):
                raise TopologyError(
                    f"wm.TopicPattern({one.pattern!r}) matches the topic {other.topic!r}, which another input reads.",
                    given=f"inputs {one.topic!r} and {other.topic!r}",
                    hint="Narrow the pattern, or leave the other input out and take its records by "
                    f'filter(lambda value, record: record["topic"] == {other.topic!r}).',
                )
        if origin.pattern is None:
            return
        if kind != "stream":
            raise TopologyError(
                f"A {'global table' if kind == 'global' else kind} has no TopicPattern({origin.pattern!r}): two topics "
                "may have rows with the same key, and nothing says which is newer.",
                hint="builder.stream(wm.TopicPattern(...), ...).to_table(): the latest record of a key is its row.",
            )
        if bootstrap is not None:
            raise TopologyError(
                f"bootstrap= belongs to one topic, and wm.TopicPattern({origin.pattern!r}) reads several.",
                given=f"bootstrap= of {name!r}",
                hint="Read that topic by its name, with its bootstrap=, then merge: one.merge(other).",
            )

    def _check_begin(self, origin: Origin, kind: Any, name: str, bootstrap: Bootstrap | None) -> None:
        """Raise where it is said twice, or to no end, from where a topic is read."""
        if origin.begins_at is None:
            return
        given = f"starting_offsets={origin.begins_at!r} of {name!r}"
        if kind == "global":
            raise TopologyError(
                f"A global table takes no starting_offsets={origin.begins_at!r}: every start reads it from the "
                "beginning.",
                given=given,
                hint="Leave starting_offsets= out.",
            )
        if bootstrap is not None:
            raise TopologyError(
                "starting_offsets= and bootstrap= both say where the topic continues: give one of them.",
                given=f"{given}, which has bootstrap=, too",
                hint="Leave starting_offsets= of the topic out: wm.Snapshot(..., starting_offsets=...) has it.",
            )

    def _extractor(self, origin: Origin, shape: Shape) -> Function | None:
        """The function of key and value that gives an input's records their times in ms, if one does."""
        given, functions, role = origin.timestamp_extractor, self._construction.functions, "timestamp extractor"
        if given is None:
            return None
        adapted = adapt(given, ("key", "value"), role, functions, sees_record=True)
        return functions.milliseconds(adapted, types_for(adapted, (shape.key, shape.value)), role)
