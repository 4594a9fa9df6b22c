"""The kind of distinct streams: by their own keys or by what a function makes of them, for a while or for ever.

Owns its two constructions. Law: as in `kinds`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from proof.histories.kinds import functions as text
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import Kind, OracleSite, Params, Site
from proof.oracle.graph import MapRecord
from proof.oracle.records import Record
from proof.oracle.streams.distinct import Distinct


def _draw(choices: Choices, _generation: str) -> Params:
    return {"within": choices.pick((None, 1, 5, 20, 60)), "by": choices.pick(("key", "key", "reference", "value"))}


def _selector(params: Params, keys: str) -> Any:
    return text.referrer(keys) if params["by"] == "reference" else lambda value: value


def _handles(site: Site, inputs: list[Any], params: Params) -> list[Any]:
    within = None if params["within"] is None else timedelta(milliseconds=params["within"])
    key = None
    if params["by"] != "key":
        kind = site.keys if params["by"] == "reference" else "string"
        key = site.library.lift(_selector(params, site.keys), kind)
    return [inputs[0].distinct(key, within=within, name=site.name)]


def _node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    if params["by"] == "key":
        return [Distinct(site.topology, inputs[0], params["within"])]
    select = _selector(params, site.keys)
    # beside its own key the value takes the record along
    named = MapRecord(inputs[0], lambda r: Record(select(r.value), (r.key, r.value), r.ts)).moves()
    distinct = Distinct(site.topology, named, params["within"])
    return [MapRecord(distinct, lambda r: Record(r.value[0], r.value[1], r.ts)).moves()]


KINDS: dict[str, Kind] = {
    "distinct": Kind(
        ("stream",),
        ("stream",),
        _handles,
        _node,
        _draw,
        weight=4,
        timed=True,
        relaxes=lambda _params, _generation: True,
        generations=("current",),
    ),
}
"""All kinds of this module by name."""
