"""An output topic for each record: a branch of the stream for each topic that a function may name.

Handle layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet._plan.nodes import BranchNode
from watersmeet.aggregates import PythonFunction
from watersmeet.errors import TopologyError
from watersmeet.functions import adapt, types_for
from watersmeet.handles.side import Side
from watersmeet.io.origins import described
from watersmeet.io.topic_names import are_topics


def chosen(stream: Side, selector: Any, topics: Any, name: str | None) -> Mapping[str, Side]:
    """The records for which the function names it, by topic.

    Parameters
    ----------
    selector : gives the name of a record's topic.
    topics : those that it may name.
    name : prefix of the branches' operator names.

    Raises
    ------
    TopologyError : the topics are no list of names, or the target is no function.
    FunctionError : the function does not fit, or gives no names.
    """
    names = list(topics) if isinstance(topics, list | tuple) else []
    if not names or not are_topics(names) or len(set(names)) < len(names):
        raise TopologyError(
            f"topics must be a list of names, each once: topics={topics!r:.120}.",
            hint="to(lambda value: value['topic'], topics=['orders-de', 'orders-fr'])",
        )
    if not callable(selector) and not isinstance(selector, PythonFunction):
        raise TopologyError(
            f"The option topics= is for a function that names a record's topic, and not for {described(selector)}.",
            hint="to(lambda value: value['topic'], topics=[...]), or leave topics= out.",
        )
    functions, construction = stream.functions, stream.construction
    function = adapt(selector, ("key", "value"), "topic selector", functions, sees_record=True)
    predicates = functions.chosen_topic(function, types_for(function, stream.types), names)
    prefix = construction.name(name, "chosen") if name is None else name
    sides: dict[str, Side] = {}
    for topic, predicate in predicates.items():
        node = BranchNode(f"{prefix}-{topic}", (stream.name,), stream.node.shape, earlier=(), predicate=predicate)
        sides[topic] = Side(construction, construction.add(node))
    return sides
