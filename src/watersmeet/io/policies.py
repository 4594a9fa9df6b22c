"""Policies for bad records: one value for an input, an operator, an output or a whole topology.

Vocabulary: the policies travel as one (`Policies`); who sorts records out asks it for the one that decides there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from watersmeet.errors import TopologyError
from watersmeet.hints import answering
from watersmeet.io.kafka import check_topic

_BAD = {
    "on_undecodable": "undecodable records",
    "on_error": "records for which a function raises",
    "on_drop": "records that are dropped",
    "on_invalid_timestamp": "records without a valid timestamp",
}
_WORDS = {"on_drop": ("skip",), "on_invalid_timestamp": ("fail", "skip", "own")}


@answering
@dataclass(frozen=True)
class DeadLetter:
    """Bad records go to another topic: key, value and headers as they came, and headers that say what was wrong.

    They leave in the transaction of the batch's results. The headers are named as those of Kafka Streams (KIP-1034):
    `__streams.errors.exception`, `.message`, `.topic`, `.partition`, `.offset`; ours are `.timestamp` (in ms, of the
    record), `.operator` and `.reason`.

    Parameters
    ----------
    topic : the topic; it has to exist, and be no other input or output of the topology.
    """

    topic: str

    def __post_init__(self) -> None:
        check_topic(self.topic)


OnUndecodable = Literal["fail", "skip"] | DeadLetter
OnError = Literal["fail", "skip"] | DeadLetter
OnDrop = Literal["skip"] | DeadLetter
OnInvalidTimestamp = Literal["fail", "skip", "own"] | DeadLetter
Policy = Literal["fail", "skip", "own"] | DeadLetter


@dataclass(frozen=True)
class Policies:
    """Policies for bad records. None: the next wider policy applies, in the end `USUAL`.

    Parameters
    ----------
    on_undecodable : records with bytes that an input's formats cannot decode.
    on_error : those for which a function raises, or that an output's format does not write.
    on_drop : those that are late, expired, or without the key or value that an operator needs.
    on_invalid_timestamp : those for which an input's timestamp extractor gives no time, or raises.
    """

    on_undecodable: OnUndecodable | None = None
    on_error: OnError | None = None
    on_drop: OnDrop | None = None
    on_invalid_timestamp: OnInvalidTimestamp | None = None

    @property
    def said(self) -> Mapping[str, Policy]:
        """Those that are said, by their options."""
        values = {member.name: getattr(self, member.name) for member in fields(self)}
        return {option: policy for option, policy in values.items() if policy is not None}

    def check(self) -> Policies:
        """Raise unless each of them says what becomes of bad records.

        Raises
        ------
        TopologyError : one does not.
        """
        for option, policy in self.said.items():
            _check(option, policy)
        return self

    def over(self, usual: Policies) -> Policies:
        """These; of those that are not said, the usual ones."""
        return Policies(**{**usual.said, **self.said})  # type: ignore[arg-type]

    def only(self, of: Policies) -> Policies:
        """Of these, the ones that others say, too."""
        return Policies(**{option: policy for option, policy in self.said.items() if option in of.said})  # type: ignore[arg-type]

    @property
    def fails(self) -> bool:
        """Whether a record that cannot be decoded fails the query."""
        return self.on_undecodable in (None, "fail")

    @property
    def tolerates_errors(self) -> bool:
        """Whether a record for which a function raises does not fail the query."""
        return self.on_error not in (None, "fail")

    @property
    def dead_letters(self) -> tuple[str, ...]:
        """The topics that dead letters go to, each once."""
        return tuple(dict.fromkeys(policy.topic for policy in self.said.values() if isinstance(policy, DeadLetter)))


_OF_RUN: ContextVar[Policies | None] = ContextVar("policies of a run", default=None)


@contextmanager
def policies_of_run(policies: Policies) -> Iterator[None]:
    """Builders that are made meanwhile take these policies in place of their own, and keep those that are not given."""
    token = _OF_RUN.set(policies)
    try:
        yield
    finally:
        _OF_RUN.reset(token)


USUAL = Policies("fail", "fail", "skip", "fail")
"""What holds where nothing is said."""
OF_INPUTS = Policies("fail", "fail", on_invalid_timestamp="fail")
"""The policies that inputs have."""
USUAL_BEHIND_INPUTS = Policies(on_error="fail", on_drop="skip")
"""Those behind the inputs, of operators and outputs."""


@dataclass(frozen=True)
class OperatorPolicies:
    """Policies for records that end after the inputs of a topology.

    Parameters
    ----------
    usual : what holds at operators and outputs.
    named : by their names, what holds at single ones in place of it.
    """

    usual: Policies = USUAL_BEHIND_INPUTS
    named: tuple[tuple[str, Policies], ...] = field(default=())

    def at(self, name: str) -> Policies:
        """The policies of an operator or an output."""
        return next((policies for key, policies in self.named if key == name), Policies()).over(self.usual)

    def tolerates_errors(self, name: str) -> bool:
        """Whether a record for which a function raises, or that cannot be written, does not fail the query there."""
        return self.at(name).tolerates_errors

    @property
    def drops(self) -> tuple[Policy, ...]:
        """All policies for dropped records."""
        layers = (self.usual, *(layer for _, layer in self.named))
        return tuple(layer.on_drop for layer in layers if layer.on_drop is not None)

    @property
    def dead_letters(self) -> tuple[str, ...]:
        """The topics that dead letters go to, each once: those of errors first."""
        layers = (self.usual, *(layer for _, layer in self.named))
        policies = [*(layer.on_error for layer in layers), *self.drops]
        return tuple(dict.fromkeys(policy.topic for policy in policies if isinstance(policy, DeadLetter)))


def named_policies(name: Any, policies: Policies) -> Policies:
    """The policies of an operator or an output, checked.

    Raises
    ------
    TopologyError : it has no name, or none is said, or one is no policy.
    """
    if not name or not isinstance(name, str) or not policies.said:
        raise TopologyError(
            "policies(...) needs the name of an operator or an output, and at least one policy.",
            given=f"policies({name!r}, on_error={policies.on_error!r}, on_drop={policies.on_drop!r})",
            hint='builder.policies("counts", on_drop=wm.DeadLetter("late"))',
        )
    return policies.check()


def topology_policies(on_undecodable: Any, on_error: Any, on_drop: Any) -> Policies:
    """The policies of a topology, which says all of them; a run may replace them (`policies_of_run`).

    Raises
    ------
    TopologyError : one is no policy.
    """
    policies = Policies(on_undecodable, on_error, on_drop)
    for option in ("on_undecodable", "on_error", "on_drop"):
        _check(option, getattr(policies, option))
    return (_OF_RUN.get() or Policies()).over(policies)


def _check(option: str, policy: Any) -> None:
    words = _WORDS.get(option, ("fail", "skip"))
    if policy not in words and not isinstance(policy, DeadLetter):
        raise TopologyError(
            f"Unknown policy {option}={policy!r:.80} for {_BAD[option]}.",
            hint="Take " + ", ".join(f'"{word}"' for word in words) + ' or wm.DeadLetter("topic").',
        )
