"""Policies for bad records, as a checkpoint records them: a planned batch runs under the policies it had.

Where there are dead letters, results leave through one exchange more: so policies decide which task writes what, and a
batch of which some tasks have written must be run again under the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from watersmeet._plan.dead_letters import WITHIN, with_dead_letters, without_dead_letters
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node, SourceNode
from watersmeet._plan.physical import Physical
from watersmeet._plan.rewrite import rewrite
from watersmeet._spark.checkpoint.checkpoint import Checkpoint
from watersmeet._spark.checkpoint.plans import Plans
from watersmeet._spark.functions.functions import ColumnFunctions
from watersmeet._spark.query import failures
from watersmeet._worker.writers import driver_commit
from watersmeet._worker.writers.driver_commit import Written
from watersmeet.errors import EncodingError
from watersmeet.io.kafka import Kafka
from watersmeet.io.policies import OF_INPUTS, USUAL, DeadLetter, OperatorPolicies, Policies
from watersmeet.io.policies import WITHIN as BEHIND_INPUTS

EFFECT = "bad_records"
"""Their name in a checkpoint."""
PASSES = (
    "The unfinished batch has failed again under the policies it was planned with. None of it is written, so the "
    "query continues: it runs the batch again under the policies of this start."
)
"""Said behind Spark's errors, which cannot be told from those of a query that ends."""
Recorded = Mapping[str, Mapping[str, Any]]
"""By the name of an input, of an operator or output with policies of its own, or `WITHIN`, and the policy's: a word, or
a list with the topic of dead letters. The usual ones are left out."""


def recorded(plan: Plan) -> dict[str, Recorded]:
    """The record of a plan's policies in a checkpoint: none if all are the usual ones."""
    found = _of(plan)
    return {EFFECT: found} if found else {}


def under(physical: Physical, effects: Mapping[str, Any]) -> Physical:
    """The same topology under the policies that a checkpoint has recorded among its effects."""
    policies: Recorded = effects.get(EFFECT, {})
    if not differ(physical, effects):
        return physical
    plan = without_dead_letters(physical.plan)
    topics = [source for source in plan.sources if source.origin.topic is not None]
    plan = plan.with_nodes(_changed(source, policies.get(source.name, {})) for source in topics)
    inputs = {WITHIN, *(source.name for source in topics)}
    named = tuple((name, _given(told)) for name, told in policies.items() if name not in inputs)
    within = OperatorPolicies(_given(policies.get(WITHIN, {})).over(BEHIND_INPUTS), named)
    return rewrite(with_dead_letters(replace(plan, within=within), ColumnFunctions()))


def differ(physical: Physical, effects: Mapping[str, Any]) -> bool:
    """Whether a topology has other policies than those that a checkpoint has recorded among its effects."""
    policies: Recorded = effects.get(EFFECT, {})
    return _of(physical.plan) != policies


def may_pass(physical: Physical, effects: Mapping[str, Any], failure: Exception) -> bool:
    """Whether a batch that fails under recorded policies may be run under those of the topology.

    Nothing of it is written where a record cannot be decoded, or where a function raises that stands before an
    exchange: no task behind that has begun.

    Parameters
    ----------
    effects : what the checkpoint has recorded.
    failure : of the batch.
    """
    before = under(physical, effects)
    early = before.plan.nodes if before.ordered_exit else before.plan.sources
    return differ(physical, effects) and failures.is_of_record(failure, {node.name for node in early})


def may_run(physical: Physical, kafka: Kafka | None, place: Checkpoint, planned: int, failure: Exception) -> bool:
    """Whether a planned batch may be run under the topology's policies: nothing is written of it."""
    if may_pass(physical, place.facts.effects, failure):
        return True
    if not isinstance(failure, EncodingError) or not differ(physical, place.facts.effects):
        return False
    # other outputs come behind the topics, at one of which it failed
    plan, written = physical.plan, Written(planned, place.facts.tasks, place.facts.marks)
    targets, mark = [sink.target for sink in plan.sinks], Plans.of(place, None, planned)(planned)
    return driver_commit.is_unwritten(targets, kafka, place.identity(plan.application), written, mark)


def _of(plan: Plan) -> Recorded:
    said = {WITHIN: plan.within.usual, **{each.name: each.origin.policies for each in plan.sources}}
    found = {name: _unusual(policies) for name, policies in said.items()}
    found |= {name: _texts(policies) for name, policies in plan.within.named}
    return {name: told for name, told in found.items() if told}


def _unusual(policies: Policies) -> dict[str, Any]:
    return {option: text for option, text in _texts(policies).items() if text != USUAL.said[option]}


def _texts(policies: Policies) -> dict[str, Any]:
    return {option: [each.topic] if isinstance(each, DeadLetter) else each for option, each in policies.said.items()}


def _changed(source: SourceNode, told: Mapping[str, Any]) -> Node:
    return replace(source, origin=source.origin.under(_given(told).over(OF_INPUTS)))


def _given(told: Mapping[str, Any]) -> Policies:
    return Policies(**{name: DeadLetter(*each) if isinstance(each, list) else each for name, each in told.items()})
