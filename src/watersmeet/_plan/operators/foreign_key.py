"""foreign_key_send, foreign_key_receive, one_to_many: joins by a foreign key (docs/semantics, sections 11 and 21).

Such a join is two operators: the first one, by the key of the rows that refer, says who refers to what; the second
one, by the key that is referred to, joins them.
"""

from __future__ import annotations

from typing import Any, Literal

from watersmeet._plan.nodes import ReferenceNode as Node
from watersmeet._plan.operators.joins import pairs
from watersmeet._plan.operators.spec import (
    STAMP,
    CarriedState,
    JoinParams,
    Reads,
    ResultColumns,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
)


class ForeignKeySendSpec(Spec[Node]):
    """See `Spec`."""

    stem = "foreign_key_send"
    by_key = True
    recomputable = True
    cacheable = True

    def side_of(self, node: Node, input: int) -> int | None:
        return 0 if input == node.referring_side else None

    def reads(self, site: SpecSite[Node]) -> Reads:
        node, referring = site.node, _referring(site)
        reason = "null_foreign_key" if node.how == "inner" else None
        reference = CarriedState("foreign_key", _referred(site).key, node.extractor, null_reason=reason)
        return Reads(referring.key, (SpecSide(referring.value, (reference,), silent=_silent(node), drops_late=True),))

    def params(self, site: SpecSite[Node]) -> JoinParams:
        return JoinParams(site.node.how, site.node.generation.value)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The foreign key of each row that refers."""
        columns = (("key", _referring(site).key), ("foreign_key", _referred(site).key))
        return (TableSchema(f"{site.node.name}.foreign_keys", columns),)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        """Messages to the second operator, which go there directly."""
        return ResultColumns((("value", _referring(site).value),))


class ForeignKeyReceiveSpec(Spec[Node]):
    """See `Spec`."""

    stem = "foreign_key_receive"
    by_key = True
    fans_out = True
    rekeys = True
    cacheable = True
    recomputable = True
    own_rows_stay = False
    subscribes = True

    def side_of(self, node: Node, input: int) -> int | None:
        return None if input == node.referring_side else 1

    def reads(self, site: SpecSite[Node]) -> Reads:
        referring, referred = _referring(site), _referred(site)
        messages = SpecSide(
            referring.value,
            (CarriedState("left_key", referring.key),),
            marks=("verb",),
            drops_null_key=False,
            direct=True,
            looked_up=False,
        )
        rows = SpecSide(referred.value, stored_ts=True, silent=_silent(site.node), drops_late=True)
        return Reads(referred.key, (messages, rows))

    def meets(self, site: SpecSite[Node]) -> bool:
        return site.plan.meet_in_step(site.node.referring, site.node.referred)

    def params(self, site: SpecSite[Node]) -> JoinParams:
        node = site.node
        return JoinParams(node.how, node.generation.value, (False, node.referred in site.rules.fused))

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The rows that refer, by both keys, and those that are referred to."""
        node, referring, referred = site.node, _referring(site), _referred(site)
        names = [store for store, (join, _) in site.rules.aliases.items() if join == node.name]
        subscriptions = (("key", referred.key), ("left_key", referring.key), ("value", referring.value), STAMP)
        rows = (("key", referred.key), ("value", referred.value), STAMP)
        return (
            TableSchema(f"{node.name}.subscriptions", subscriptions, identity=("key", "left_key")),
            TableSchema(names[0] if names else f"{node.name}.referred", rows, copies=node.referred),
        )

    def own_rows(self, site: SpecSite[Node]) -> tuple[int, ...]:
        return (0, 1)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return pairs(site.node.joiner, site.input(0).shape.value, site.input(1).shape.value, old=old)

    def lookups_see_results(self, site: SpecSite[Node]) -> bool:
        return True


class OneToManySpec(ForeignKeyReceiveSpec):
    """See `Spec`."""

    stem = "one_to_many"
    by_key = True

    def meets(self, site: SpecSite[Node]) -> bool:
        """It goes by what has arrived: so a row that loses both sides at once loses its result once."""
        return False


def _silent(node: Node) -> Literal["marked", "dropped"]:
    return "marked" if node.sees_lookups else "dropped"


def _referring(site: SpecSite[Node]) -> Any:
    return site.plan.by_name[site.node.referring].shape


def _referred(site: SpecSite[Node]) -> Any:
    return site.plan.by_name[site.node.referred].shape
