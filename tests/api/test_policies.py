"""Policies of single operators and outputs: what is refused, on the user's own line, and what a checkpoint has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import watersmeet as wm
from proof.arrow import arrow_builder
from watersmeet._spark.query import start
from watersmeet.errors import TopologyError

LATE, BAD = wm.DeadLetter("late"), wm.DeadLetter("bad")


def visits(builder: wm.StreamsBuilder) -> wm.StreamsBuilder:
    """Counts by key, and a copy of the table they are joined with."""
    pages = builder.stream("pages", key="string", value="string")
    counts = pages.group_by_key().count(name="counts")
    counts.to_stream().to("counted", name="out")
    pages.repartition(name="again").to("pages-again", name="copy")
    return builder


REFUSED: dict[str, tuple[Callable[[wm.StreamsBuilder], Any], str, str]] = {
    "misspelt": (lambda b: b.policies("count", on_drop=LATE), "Unknown operator or output", "counts"),
    "unlike all": (lambda b: b.policies("xyz", on_drop=LATE), "Unknown operator or output", "again, counts"),
    "an input": (
        lambda b: b.policies("pages", on_error="skip"),
        "is an input: give its policies where it is read",
        "stream(",
    ),
    "an output drops nothing": (
        lambda b: b.policies("out", on_drop=LATE),
        "on_drop has no effect at 'out'",
        "counts",
    ),
    "no functions end at a step": (
        lambda b: b.policies("again", on_error="skip"),
        "on_error has no effect at 'again'",
        "counts",
    ),
    "taken topic": (lambda b: b.policies("out", on_error=wm.DeadLetter("pages")), "a topic of their own", "DeadLetter"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_policies_for_what_a_topology_does_not_have_are_refused_when_it_is_built(case: str) -> None:
    said, what, hint = REFUSED[case]
    builder = visits(arrow_builder("visits"))
    said(builder)
    with pytest.raises(TopologyError) as error:
        builder.build()
    assert what in error.value.message
    assert hint in (error.value.hint or "")


def test_a_hint_that_names_an_operator_is_followed() -> None:
    builder = visits(arrow_builder("visits"))
    builder.policies("counts", on_drop=LATE, on_error="skip")
    builder.policies("again", on_drop=LATE)
    builder.policies("out", on_error=BAD)
    topology = builder.build()
    assert [topology.plan.within.at(name).on_error for name in ("counts", "out", "copy")] == ["skip", BAD, "fail"]
    assert [topology.plan.within.at(name).on_drop for name in ("counts", "again", "out")] == [LATE, LATE, "skip"]
    assert "output late" in topology.describe()
    assert "output bad" in topology.describe()


def said_behind(builder: wm.StreamsBuilder, before: Callable[..., Any]) -> None:
    before("counts", on_drop="skip")
    builder.policies("counts", on_drop="skip")


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (lambda b: b.policies("counts"), "at least one policy"),
        (lambda b: b.policies("", on_drop=LATE), "needs the name"),
        (lambda b: b.policies("counts", on_drop="fail"), "for records that are dropped"),
        (lambda b: said_behind(b, b.policies), "is called twice"),
        (lambda b: said_behind(b, lambda *_, **__: b.build()), "has been built"),
    ],
)
def test_what_no_policy_is_is_refused_where_it_is_said(said: Callable[[wm.StreamsBuilder], Any], what: str) -> None:
    with pytest.raises(TopologyError, match=what):
        said(visits(arrow_builder("visits")))


def test_a_checkpoint_has_the_policies_of_single_operators_too() -> None:
    def built(**named: dict[str, Any]) -> wm.Topology:
        builder = visits(wm.StreamsBuilder("visits", on_error="skip", on_drop=LATE))
        for name, given in named.items():
            builder.policies(name, **given)
        return builder.build()

    plain, own = built(), built(counts={"on_error": "fail", "on_drop": BAD}, out={"on_error": "fail"})
    effects = json.loads(json.dumps(start.policies_effect(own.plan)))
    assert effects[start.EFFECT]["counts"] == {"on_error": "fail", "on_drop": ["bad"]}
    assert not start.differ(own.physical, effects)
    assert start.differ(plain.physical, effects)
    for topology in (plain, own):
        made = start.under(topology.physical, effects)
        assert made.plan.within == own.plan.within
        assert [source.name for source in made.plan.sources] == [source.name for source in own.plan.sources]
    assert start.policies_effect(plain.plan)[start.EFFECT][""] == {"on_error": "skip", "on_drop": ["late"]}
