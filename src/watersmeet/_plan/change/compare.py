"""Two plans compared, as a checkpoint records them: what a change of the one into the other does to each thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet._plan.change.change import Change, TakenTable, shared
from watersmeet._plan.change.described import Described
from watersmeet._plan.change.items import Item, Outcome
from watersmeet._plan.change.lineage import Lineage, LineageReading, place_of
from watersmeet._plan.change.replaced import Replacement
from watersmeet._plan.change.rows import Place, by_place, difference, pairs_of_tables, rows_against

_ANEW = "Give the node another name=, under which it starts empty; or change it back."


def compare(old: Described, new: Described, replaced: Replacement | None = None) -> Change:
    """The effects of a change from `old` to `new`, both as `described` gives them.

    Parameters
    ----------
    replaced : the tables that are replaced, and what is computed for it.
    """
    replaced = replaced or Replacement()
    stores, taken = _stores(old, new, replaced)
    items = [*stores, *replaced.refused, *_steps(old["steps"], new["steps"]), *_sources(old["sources"], new["sources"])]
    items = [*items, *_sinks(old["sinks"], new["sinks"])]
    return Change(tuple(items), tuple(taken), replaced if replaced.roles else None)


def other_columns(old: Described, new: Described) -> list[str]:
    """Of the tables in both plans those that keep columns of other names, with what they kept and keep, as text."""
    kept, now = ({t["name"]: _names(t) for each in plan["operators"] for t in each["tables"]} for plan in (old, new))
    return [
        f"{table}: kept {kept[table]}; keeps {names}" for table, names in now.items() if kept.get(table, names) != names
    ]


def _names(table: Mapping[str, Any]) -> str:
    return ", ".join(name for name, _ in table["columns"])


# -- stores ------------------------------------------------------------------------------------------------


def _stores(old: Described, new: Described, replaced: Replacement) -> tuple[list[Item], list[TakenTable]]:
    places, cut = by_place(old), frozenset(node for node, _ in replaced.replaced)
    tables = _Tables.of(old, Lineage.of(new, cut), cut)
    nodes = dict(places.keys())
    items: list[Item] = []
    taken: list[TakenTable] = []
    anew = frozenset(replaced.places.values())
    read = _readings(tables, places, new, anew)
    items.extend(item for reading, node in read.values() if (item := _as_read(reading, node)) is not None)
    for place, operator in by_place(new).items():
        before = places.get(place)
        if place in anew:
            _replaced(before, operator, replaced, items, taken)
            continue
        if operator["node"] in read and read[operator["node"]][0].against:
            continue
        if before is not None:
            _taken_over(before, operator, items, taken)
        elif operator["node"] in nodes and operator["tables"] and not _had_operators(new, operator["node"], places):
            items.append(_of_another_kind(operator, nodes[operator["node"]]))
        else:
            _found_by_store(operator, tables, items, taken)
    used = {(each.from_node, each.from_table) for each in taken}
    used |= {(place[0], table["name"]) for place in anew & places.keys() for table in places[place]["tables"]}
    met = {item.name if item.what == "node" else item.node for item in items if item.outcome == "refused"}
    started = [item for item in items if item.outcome == "started empty"]
    for (node, kind), operator in places.items():
        for table in operator["tables"]:
            if table["shown"] and node not in met and (node, table["name"]) not in used:
                items.append(_dropped(node, kind, operator, table, started, new))
    return items, taken


@dataclass(frozen=True)
class _Tables:
    """The tables until now.

    Parameters
    ----------
    named : by name the place, the table, and whether it is one that time lets nothing go of.
    copies : by table, the places of the tables that have its rows as they are.
    old, new : what stands above the nodes of both plans.
    """

    named: Mapping[str, tuple[Place, Mapping[str, Any], bool]]
    copies: Mapping[str, list[tuple[Place, Mapping[str, Any]]]]
    old: Lineage
    new: Lineage

    @classmethod
    def of(cls, plan: Described, new: Lineage, replaced: frozenset[str]) -> _Tables:
        """Those of a plan, beside another one."""
        named: dict[str, tuple[Place, Mapping[str, Any], bool]] = {}
        copies: dict[str, list[tuple[Place, Mapping[str, Any]]]] = {}
        for place, each in by_place(plan).items():
            for table in each["tables"]:
                named[table["name"]] = place, table, each["time"] is None and each["widens"]
                if table["copies"] is not None:
                    copies.setdefault(table["copies"], []).append((place, table))
        return cls(named, copies, Lineage.of(plan, replaced), new)

    def reading(self, was: tuple[str, Mapping[str, Any]], now: tuple[str, Mapping[str, Any]]) -> LineageReading:
        """The contents of two tables, each with its node: the tables with the same rows, or all that the node reads."""
        sides = []
        for plan, (node, table) in ((self.old, was), (self.new, now)):
            copied = table["copies"]
            sides.append((plan.inputs(node) if copied is None else (copied,),))
        return LineageReading(self.old, self.new, *sides)


def _readings(
    tables: _Tables, places: Mapping[Place, Any], new: Described, anew: frozenset[Place]
) -> dict[str, tuple[LineageReading, str]]:
    """The inputs of nodes with operators, with tables, that would continue."""
    going_on = {place: each for place, each in by_place(new).items() if place in places and place not in anew}
    nodes = {node for (node, _), each in going_on.items() if each["tables"]}
    return {node: (LineageReading.of_node(tables.old, tables.new, node), node) for node in sorted(nodes)}


def _as_read(reading: LineageReading, node: str) -> Item | None:
    """The items of an operator that would continue, and reads something else, something more, or less."""
    if reading.against:
        return Item("node", node, "refused", reason=reading.against, hint=reading.hint)
    return Item("node", node, "changed", reason=reading.noted) if reading.noted else None


def _had_operators(plan: Described, node: str, places: Mapping[tuple[str, str], Any]) -> bool:
    """Whether another operator of the node is one that stood there: it has got one more, and is what it was."""
    mine = {place for place in by_place(plan) if place[0] == node}
    return bool(mine & places.keys())


def _of_another_kind(operator: Mapping[str, Any], was: str) -> Item:
    return Item(
        "node",
        operator["node"],
        "refused",
        reason=f"it was a {was}, it is a {operator['operator']}, which keeps other rows",
        hint=_ANEW,
    )


def _replaced(
    before: Mapping[str, Any] | None,
    operator: Mapping[str, Any],
    replaced: Replacement,
    items: list[Item],
    taken: list[TakenTable],
) -> None:
    """An operator that is computed anew, or a table that is compared with its new contents."""
    place = operator["node"], operator["operator"]
    goes_on = replaced.own.get(place, frozenset(table["name"] for table in operator["tables"]))
    for was, table in pairs_of_tables(before["tables"] if before else (), operator["tables"]):
        outcome: Outcome = "replaced" if place in replaced.replaced else "computed anew"
        if table["shown"]:
            items.append(Item("store", table["name"], outcome, place[0]))
        if was is not None and table["name"] in goes_on:
            wider = rows_against(was, table, widens=operator["widens"])[1]
            taken.append(TakenTable(place[0], table["name"], place[0], was["name"], True, bool(wider)))


def _taken_over(
    before: Mapping[str, Any], operator: Mapping[str, Any], items: list[Item], taken: list[TakenTable]
) -> None:
    """An operator that goes on where one of its kind stood."""
    node = operator["node"]
    against = difference(before, operator)
    if against:
        items.append(Item("node", node, "refused", reason=against, hint=_ANEW))
        return
    for was, table in pairs_of_tables(before["tables"], operator["tables"]):
        if was is None:
            items.append(Item("store", table["name"], "started empty", node, hint=_name_it(operator)))
            continue
        why, wider = rows_against(was, table, widens=operator["widens"])
        outcome: Outcome = "refused" if why else ("widened" if wider else "kept")
        said = why or ", ".join(wider)
        if was["name"] != table["name"] and not why:
            said = "; ".join(filter(None, [said, f"was called {was['name']}"]))
        if table["shown"] or why:
            items.append(Item("store", table["name"], outcome, node, said, _ANEW if why else _name_it(operator)))
        taken.append(TakenTable(node, table["name"], node, was["name"], scalars=True, widened=bool(wider)))


def _found_by_store(operator: Mapping[str, Any], old: _Tables, items: list[Item], taken: list[TakenTable]) -> None:
    """An operator that is new: its stores have the rows of those that had their names, or of the same table."""
    node = operator["node"]
    for table in operator["tables"]:
        found = old.named.get(table["name"])
        if found is not None:
            reading = old.reading((found[0][0], found[1]), (node, table))
            _go_on_by_name(operator, table, found, reading, items, taken)
            continue
        same = [
            (place, was)
            for place, was in old.copies.get(table["copies"], ())
            if not old.reading((place[0], was), (node, table)).against
        ]
        place = next((place for place, was in same if not any(rows_against(was, table, widens=False))), None)
        if place is not None:
            source = next(was for at, was in same if at == place)
            reason = f"with the rows of {table['copies']} that {source['name']} has"
            items.append(Item("store", table["name"], "filled", node, reason, _name_it(operator)))
            taken.append(TakenTable(node, table["name"], place[0], source["name"], scalars=False))
        elif table["shown"]:
            items.append(Item("store", table["name"], "started empty", node, hint=_name_it(operator)))


def _go_on_by_name(
    operator: Mapping[str, Any],
    table: Mapping[str, Any],
    found: tuple[Place, Mapping[str, Any], bool],
    reading: LineageReading,
    items: list[Item],
    taken: list[TakenTable],
) -> None:
    """A store with the former name of another operator's store."""
    place, was, plain = found
    node, name = operator["node"], table["name"]
    plain = plain and operator["time"] is None and operator["widens"]
    why, wider = rows_against(was, table, widens=True) if plain else ("its rows are those of its node", [])
    if reading.against:
        hint = "Give the store another store=; or let it have the rows of what it had."
        items.append(Item("store", name, "refused", node, reading.against, hint))
        return
    if why:
        hint = f"Give the store another store=, or its node the name {place[0]!r} that it had."
        items.append(Item("store", name, "refused", node, why, hint))
        return
    items.append(Item("store", name, "widened" if wider else "kept", node, f"until now of {place[0]}"))
    taken.append(TakenTable(node, name, place[0], was["name"], scalars=False, widened=bool(wider)))


def _dropped(
    node: str,
    kind: str,
    operator: Mapping[str, Any],
    table: Mapping[str, Any],
    started: list[Item],
    new: Described,
) -> Item:
    """A store that is gone; where one like it starts empty, that it could go on under its name."""
    kinds = {each["node"]: each["operator"] for each in new["operators"]}
    alike = [item.node for item in started if kinds[item.node] == kind]
    hint = f"If {alike[0]} is what {node} was, name it name={node!r}: its tables then go on." if alike else ""
    return Item("store", table["name"], "dropped", node, hint=hint)


def _name_it(operator: Mapping[str, Any]) -> str:
    """The cure for an operator with a name made up from its inputs."""
    if operator["named"]:
        return ""
    return f"Its name is made up: name={operator['node']!r} keeps it, whatever its inputs are called later."


# -- the rest ----------------------------------------------------------------------------------------------


def _steps(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Item]:
    both, added, gone = shared(old, new)
    for name in both:
        if old[name] != new[name]:
            yield Item("node", name, "changed", reason=f"was a {old[name]}, is a {new[name]}")
    yield from (Item("node", name, "added", reason=new[name]) for name in added)
    yield from (Item("node", name, "dropped", reason=old[name]) for name in gone)


def _sources(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Item]:
    """Inputs: a topic goes on by its own name, whatever the input is called; a DataFrame by the input's."""
    places = {place_of(name, each) for name, each in old.items()}
    for name, each in new.items():
        if place_of(name, each) not in places:
            yield Item("source", name, "added", reason="read from its beginning, or as starting_offsets= says")
        elif name in old and old[name]["origin"] != each["origin"]:
            yield Item("source", name, "changed", reason=f"was {old[name]['origin']}, is {each['origin']}")
        else:
            yield Item("source", name, "kept", reason="continues where it is")
    now = {place_of(name, each) for name, each in new.items()}
    for name, each in old.items():
        if place_of(name, each) not in now:
            yield Item("source", name, "dropped", reason="an input that comes back later is read as a new one")


def _sinks(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Item]:
    both, added, gone = shared(old, new)
    listed = {each["path"]: each["listed"] for each in old.values() if "path" in each}
    for name, each in new.items():
        if "path" in each and listed.get(each["path"], each["listed"]) != each["listed"]:
            yield Item(
                "sink",
                name,
                "refused",
                reason=f"{each['path']} has, or will have, Spark's list of files, which only an only output keeps",
                hint="Write to another folder from now on.",
            )
    yield from (Item("sink", name, "kept") for name in both)
    yield from (Item("sink", name, "added", reason="gets what comes from now on") for name in added)
    yield from (Item("sink", name, "dropped", reason="what was written stays") for name in gone)
