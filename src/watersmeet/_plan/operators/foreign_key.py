"""foreign_key_send, foreign_key_receive, one_to_many: joins by a foreign key (docs/semantics, sections 11 and 21).

Such a join is two operators: the first one, by the key of the rows that refer, says who refers to what; the second
one, by the key that is referred to, joins them.
"""

from __future__ import annotations

from typing import Any, Literal

from watersmeet._plan.nodes import Reference as Node
from watersmeet._plan.operators.joins import pairs
from watersmeet._plan.operators.spec import STAMP, Carried, JoinParams, Reads, Results, Side, Site, Spec, TableSchema


class ForeignKeySend(Spec[Node]):
    """See `Spec`."""

    stem = "foreign_key_send"
    by_key = True
    cacheable = True

    def side_of(self, node: Node, input: int) -> int | None:
        """See `Spec`."""
        return 0 if input == node.referring_side else None

    def reads(self, site: Site[Node]) -> Reads:
        """See `Spec`."""
        node, referring = site.node, _referring(site)
        reason = "null_foreign_key" if node.how == "inner" else None
        reference = Carried("foreign_key", _referred(site).key, node.extractor, null_reason=reason)
        return Reads(referring.key, (Side(referring.value, (reference,), silent=_silent(node), drops_late=True),))

    def params(self, site: Site[Node]) -> JoinParams:
        """See `Spec`."""
        return JoinParams(site.node.how, site.node.generation.value)

    def keeps(self, site: Site[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The foreign key of each row that refers."""
        columns = (("key", _referring(site).key), ("foreign_key", _referred(site).key))
        return (TableSchema(f"{site.node.name}.foreign_keys", columns),)

    def results(self, site: Site[Node], *, old: bool) -> Results:
        """Messages to the second operator, which go there directly."""
        return Results((("value", _referring(site).value),))


class ForeignKeyReceive(Spec[Node]):
    """See `Spec`."""

    stem = "foreign_key_receive"
    by_key = True
    fans_out = True
    rekeys = True
    cacheable = True

    def side_of(self, node: Node, input: int) -> int | None:
        """See `Spec`."""
        return None if input == node.referring_side else 1

    def reads(self, site: Site[Node]) -> Reads:
        """See `Spec`."""
        referring, referred = _referring(site), _referred(site)
        messages = Side(
            referring.value,
            (Carried("left_key", referring.key),),
            marks=("verb",),
            drops_null_key=False,
            direct=True,
            looked_up=False,
        )
        rows = Side(referred.value, stored_ts=True, silent=_silent(site.node), drops_late=True)
        return Reads(referred.key, (messages, rows))

    def meets(self, site: Site[Node]) -> bool:
        """See `Spec`."""
        return site.plan.meet_in_step(site.node.referring, site.node.referred)

    def params(self, site: Site[Node]) -> JoinParams:
        """See `Spec`."""
        node = site.node
        return JoinParams(node.how, node.generation.value, (False, node.referred in site.rules.fused))

    def keeps(self, site: Site[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The rows that refer, by both keys, and those that are referred to."""
        node, referring, referred = site.node, _referring(site), _referred(site)
        names = [store for store, (join, _) in site.rules.aliases.items() if join == node.name]
        subscriptions = (("key", referred.key), ("left_key", referring.key), ("value", referring.value), STAMP)
        rows = (("key", referred.key), ("value", referred.value), STAMP)
        return (
            TableSchema(f"{node.name}.subscriptions", subscriptions, identity=("key", "left_key")),
            TableSchema(names[0] if names else f"{node.name}.referred", rows, copies=node.referred),
        )

    def results(self, site: Site[Node], *, old: bool) -> Results:
        """See `Spec`."""
        return pairs(site.node.joiner, site.input(0).shape.value, site.input(1).shape.value, old=old)

    def seen_when_sent(self, site: Site[Node]) -> bool:
        """See `Spec`."""
        return True


class OneToMany(ForeignKeyReceive):
    """See `Spec`."""

    stem = "one_to_many"
    by_key = True

    def meets(self, site: Site[Node]) -> bool:
        """It goes by what has arrived: so a row that loses both sides at once loses its result once."""
        return False


def _silent(node: Node) -> Literal["marked", "dropped"]:
    return "marked" if node.sees_lookups else "dropped"


def _referring(site: Site[Node]) -> Any:
    return site.plan.by_name[site.node.referring].shape


def _referred(site: Site[Node]) -> Any:
    return site.plan.by_name[site.node.referred].shape
