"""Dead letters in a plan: an input without an origin for each topic that has a dead-letter topic, and its output.

The rows of such an input are those that its topic's source sorts out. So they are routed, put into order and written
as all others are, in the transaction of the results (law 6), and nothing below has to know of them. They stand behind
all that the user wrote, so that nothing there is numbered anew: who chooses another policy keeps the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node, Shape, SinkNode, SourceNode
from watersmeet.errors import TopologyError
from watersmeet.functions import FunctionBackend
from watersmeet.io.inputs import SortedOut
from watersmeet.io.policies import DeadLetter, Policy
from watersmeet.io.topics import Topic, TopicSink

WITHIN = ""
"""Whose dead letters those are that end behind the inputs: no input's."""


def with_dead_letters(plan: Plan, functions: FunctionBackend) -> Plan:
    """The plan with what writes the dead letters of its inputs.

    Parameters
    ----------
    plan : as it was written.
    functions : says the type of bytes.

    Raises
    ------
    TopologyError : the topic of dead letters is another input or output of the topology, too.
    """
    more = [node for source in plan.sources for node in _nodes(plan, source, functions)]
    more += _written(plan, plan.within.dead_letters, WITHIN, "topology", functions)
    return replace(plan, nodes=(*plan.nodes, *more)) if more else plan


def without_dead_letters(plan: Plan) -> Plan:
    """The plan as it was written."""
    letters = letter_sources(plan)
    kept = tuple(node for node in plan.nodes if node.name not in letters and not letters.keys() & node.inputs)
    return replace(plan, nodes=kept) if letters else plan


def letter_sources(plan: Plan) -> Mapping[str, str]:
    """Names of the dead-letter sources, with the inputs that they belong to."""
    return {source.name: source.dead_letters_of for source in plan.sources if source.dead_letters_of is not None}


def dead_letter_sources(plan: Plan) -> Mapping[tuple[str, str], int]:
    """By the name of an input, and a topic, the number of the source that has its dead letters for that topic."""
    numbered = enumerate(plan.sources)
    return {(s.dead_letters_of, s.origin.goes_to): n for n, s in numbered if s.dead_letters_of is not None}


def undecodable_source(plan: Plan, source: SourceNode) -> int | None:
    """The number of the source that has an input's records which cannot be decoded, if there is one."""
    return _source_for(plan, source, source.origin.policies.on_undecodable)


def raised_source(plan: Plan, source: SourceNode) -> int | None:
    """The same of records for which a function raises."""
    return _source_for(plan, source, source.origin.policies.on_error)


def invalid_timestamp_source(plan: Plan, source: SourceNode) -> int | None:
    """The same of records that an input's timestamp extractor gives no time."""
    return _source_for(plan, source, source.origin.policies.on_invalid_timestamp)


def _source_for(plan: Plan, source: SourceNode, policy: Policy | None) -> int | None:
    return dead_letter_sources(plan)[source.name, policy.topic] if isinstance(policy, DeadLetter) else None


def operators_source(plan: Plan, policy: Policy) -> str | None:
    """The name of the source that has what ends behind the inputs under a policy, if there is one."""
    topic = policy.topic if isinstance(policy, DeadLetter) else None
    found = (s.name for s in plan.sources if s.dead_letters_of == WITHIN and s.origin.goes_to == topic)
    return next(found, None)


def dropped_source(plan: Plan) -> str | None:
    """The name of the source that keeps records as they came, if any that are dropped are dead letters."""
    found = (operators_source(plan, policy) for policy in plan.within.drops)
    return next((name for name in found if name is not None), None)


def _nodes(plan: Plan, source: SourceNode, functions: FunctionBackend) -> Iterator[Node]:
    yield from _written(plan, source.origin.policies.dead_letters, source.name, source.name, functions)


def _written(plan: Plan, topics: Sequence[str], of: str, called: str, functions: FunctionBackend) -> Iterator[Node]:
    """An input and an output for each topic of dead letters."""
    taken = {node.name for node in plan.nodes}
    for topic in topics:
        _check(plan, called, topic)
        name = f"{called}-dead-letters"
        while name in taken:
            name += "-"
        taken.add(name)
        shape = Shape("stream", *functions.source_types(Topic(topic, "bytes", "bytes"), name))
        yield SourceNode(name, (), shape, input=name, origin=SortedOut(topic), dead_letters_of=of)
        target = TopicSink(topic, "bytes", "bytes")
        yield SinkNode(f"{name}-sink", (name,), shape, output=topic, target=target)


def _check(plan: Plan, called: str, topic: str) -> None:
    for node in plan.nodes:
        if node.place is not None and (node.place.topic == topic or (not node.is_sink and node.place.reads(topic))):
            raise TopologyError(
                f"Dead letters need a topic of their own, and {topic!r} has other records: keys and values of dead "
                "letters are any bytes.",
                given=f"topic {topic!r}, of the dead letters of {called!r} and of {node.stem} {node.name!r}",
                hint="Name another topic: wm.DeadLetter(...).",
            )
