"""Kinds of operators that keep time: the windowed joins of two streams.

Owns their two constructions. Law: as in `kinds`.
"""

from __future__ import annotations

from typing import Any

from proof.histories.kinds import functions as text
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import BuildSite, OperatorKind, OracleSite, Params, method_of
from proof.oracle.streams.stream_match import MatchSpec, StreamMatch
from proof.oracle.streams.stream_stream import JoinSpec, StreamStreamJoin
from watersmeet.windows import DAY_MS, JoinWindows


def _params(choices: Choices, generation: str) -> Params:
    """Small windows, some of them shifted; before 3.1 there was no grace, and stores kept a day."""
    before = choices.pick((0, 1, 5, 20))
    after = choices.pick((0, 1, 5, 20))
    grace = choices.pick((0, 0, 3, 30))
    if generation != "current":
        return {"how": _how(choices), "before": before, "after": after, "grace": DAY_MS}
    if choices.chance(15):
        before, after = choices.pick(((-1, 5), (5, -5), (-5, 20)))
    return {"how": _how(choices), "before": before, "after": after, "grace": grace}


def _how(choices: Choices) -> str:
    return choices.pick(("inner", "left", "outer"))


def _join(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    windows = JoinWindows(params["before"], params["after"], params["grace"])
    join = getattr(inputs[0], method_of(params["how"]))
    return [join(inputs[1], site.library.lift(text.plus, "string"), windows, name=site.name)]


def _join_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    spec = JoinSpec(
        params["how"],
        params["before"],
        params["after"],
        params["grace"],
        keeps_all=site.topology.semantics.eager_only,
    )
    return [StreamStreamJoin(site.topology, (inputs[0], inputs[1]), spec, text.plus)]


def _match_params(choices: Choices, generation: str) -> Params:
    params = {**_params(choices, generation), "match": choices.pick(("first", "nearest"))}
    return params | {"how": choices.pick(("inner", "left"))}


def _match(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    windows = JoinWindows(params["before"], params["after"], params["grace"])
    join = getattr(inputs[0], method_of(params["how"]))
    joiner = site.library.lift(text.plus, "string")
    return [join(inputs[1], joiner, windows, match=params["match"], name=site.name)]


def _match_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    spec = MatchSpec(params["how"], params["before"], params["after"], params["grace"], params["match"])
    return [StreamMatch(site.topology, (inputs[0], inputs[1]), spec, text.plus)]


STREAM = ("stream",)
KINDS: dict[str, OperatorKind] = {
    "stream_stream": OperatorKind(
        STREAM * 2,
        STREAM,
        _join,
        _join_node,
        _params,
        weight=6,
        relaxes=lambda params, generation: params["how"] != "inner" and generation == "current",
        timed=True,
        holds=lambda params: params["how"] != "inner",
    ),
    "stream_match": OperatorKind(
        STREAM * 2,
        STREAM,
        _match,
        _match_node,
        _match_params,
        weight=4,
        relaxes=lambda params, _generation: params["how"] == "left",
        timed=True,
        holds=lambda _: True,
        generations=("current",),
    ),
}
