"""Policies of single operators and outputs: whether there is something that they are for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from watersmeet._plan.logical import Plan
from watersmeet._plan.rewrite import rewrite
from watersmeet.errors import TopologyError
from watersmeet.io.policies import Policies

_SHOWN = 12


def by_node(plan: Plan, named: Mapping[str, Policies]) -> tuple[tuple[str, Policies], ...]:
    """The policies by the names of nodes: an output is called as the user calls it, and its node may be otherwise."""
    found: list[tuple[str, Policies]] = []
    for given, policies in named.items():
        outputs = [sink.name for sink in plan.sinks if sink.output == given and given not in plan.by_name]
        found += [(name, policies) for name in outputs or [given]]
    return tuple(found)


def check_named(plan: Plan) -> None:
    """Raise unless all policies of named operators and outputs are for such that the plan has.

    Raises
    ------
    TopologyError : the plan has none of that name, or none where records end for what the policy is for.
    """
    if not plan.within.named:
        return
    physical, inputs = rewrite(plan), {source.name for source in plan.sources}
    operators = {operator.node for operator in physical.operators}
    outputs = {sink.name for sink in plan.sinks if sink.target.formats}
    dropping = operators | {flow.node for flow in physical.flows if flow.drops_null_key} - inputs
    where = {"on_error": operators | outputs, "on_drop": dropping}
    for name, policies in plan.within.named:
        for option in policies.said:
            if name not in where[option]:
                _refuse(plan, name, option, where[option])


def _refuse(plan: Plan, name: str, option: str, ends: Collection[str]) -> None:
    given = f"policies({name!r}, {option}=...)"
    if any(source.name == name for source in plan.sources):
        raise TopologyError(
            f"{name!r} is an input: give its policies where it is read. Its drops follow the builder's on_drop.",
            given=given,
            hint='builder.stream("topic", ..., on_undecodable=..., on_error=...)',
        )
    near = get_close_matches(name, sorted(ends), n=3) or sorted(ends)[:_SHOWN]
    hint = f"There are: {', '.join(near)}." if near else f"Leave {option} out."
    if name not in plan.by_name:
        raise TopologyError(f"Unknown operator or output {name!r}.", given=given, hint=hint)
    raise TopologyError(f"{option} has no effect at {name!r}.", given=given, hint=hint)
