"""global_lookup, global_table_lookup: joins with a global table or a view of some (docs/semantics, section 9)."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.nodes import GlobalLookupNode as Node
from watersmeet._plan.operators.spec import (
    FLAG,
    STAMP,
    CarriedState,
    JoinParams,
    Made,
    Named,
    Reads,
    ResultColumns,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
)
from watersmeet._plan.operators.views import tables_of, views_of


@dataclass(frozen=True)
class LookupParams(JoinParams):
    """Of a lookup: the join type of each view that is looked up, outermost first, too."""

    views: tuple[str, ...] = ()


class GlobalLookupSpec(Spec[Node]):
    """See `Spec`."""

    stem = "global_lookup"
    mixes_keys = True

    def reads(self, site: SpecSite[Node]) -> Reads:
        """The driving side, and the tables in the order of a lookup; rows of one carry the key of the next one's."""
        node, left = site.node, site.input(0).shape
        stream = node.shape.kind == "stream"
        driving = SpecSide(
            left.value,
            (CarriedState("left_key", left.key),),
            key=node.mapper,
            # What comes in as key is the mapped one: a left join looks nothing up for null.
            drops_null_key=node.how == "inner" and stream,
            drops_null_value=stream,
            silent="dropped",
            drops_late=not stream,
        )
        return Reads(site.input(1).shape.key, (driving, *_tables(site)))

    def inputs_of(self, site: SpecSite[Node]) -> tuple[str, ...]:
        """The driving input, and the tables behind a view, in the order of a lookup."""
        driving, looked_up = site.node.inputs
        return (driving, *(table.name for table in tables_of(site.plan, looked_up)))

    def params(self, site: SpecSite[Node]) -> LookupParams:
        node = site.node
        views = tuple(view.how for view in views_of(site.plan, node.inputs[1]))
        return LookupParams(node.how, node.generation.value, views=views)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """Copies of the tables; the first join that keeps a table has its store."""
        found: list[TableSchema] = []
        for number, (table, side) in enumerate(
            zip(tables_of(site.plan, site.node.inputs[1]), _tables(site), strict=True)
        ):
            named = table.store is not None and table.store not in taken | {kept.name for kept in found}
            name = table.store if named and table.store else f"{site.node.name}.replica{number or ''}"
            carried = tuple((each.name, each.kind) for each in side.carries)
            columns = (("key", table.shape.key), ("value", table.shape.value), *carried, STAMP)
            found.append(TableSchema(name, columns, everywhere=True))
        return tuple(found)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        """Keys and values of all tables gone through, and whether each view has a row: it is joined here, too."""
        views = views_of(site.plan, site.node.inputs[1])
        columns: Named = (("left", site.input(0).shape.value), ("joined", FLAG))
        for number, table in enumerate(tables_of(site.plan, site.node.inputs[1])):
            columns += ((f"mapped_key{number or ''}", table.shape.key), (f"right{number or ''}", table.shape.value))
        columns += tuple((f"view{number}", FLAG) for number in range(len(views)))
        made = [
            Made(
                f"right{number or ''}",
                views[number].joiner,
                (f"mapped_key{number or ''}", f"right{number or ''}", f"right{number + 1}"),
                flag=f"view{number}",
            )
            # innermost first
            for number in reversed(range(len(views)))
        ]
        joined = Made("value", site.node.joiner, ("key", "mapped_key", "left", "right"), flag="joined")
        return ResultColumns(columns, (*made, joined))


class GlobalTableLookupSpec(GlobalLookupSpec):
    """See `Spec`."""

    stem = "global_table_lookup"
    mixes_keys = True
    cacheable = True

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The same, and the keys with a present result."""
        materialized = TableSchema(f"{site.node.name}.materialized", (("key", site.input(0).shape.key),))
        return (*super().keeps(site, taken), materialized)

    def lookups_see_results(self, site: SpecSite[Node]) -> bool:
        return True


def _tables(site: SpecSite[Node]) -> tuple[SpecSide, ...]:
    views = views_of(site.plan, site.node.inputs[1])
    tables = tables_of(site.plan, site.node.inputs[1])
    sides = []
    for number, table in enumerate(tables):
        carried: tuple[CarriedState, ...] = ()
        if number < len(views):
            carried = (CarriedState(f"next_key{number + 1}", tables[number + 1].shape.key, views[number].mapper),)
        sides.append(SpecSide(table.shape.value, carried, broadcast=True, silent="dropped"))
    return tuple(sides)
