"""Pictures of topologies: boxes that do not lie upon one another, arrows that go down, texts that stay texts."""

from __future__ import annotations

import re
from itertools import combinations, islice
from xml.etree import ElementTree

import pyarrow.compute as pc
import pytest
from pyspark.sql.types import StringType, StructField, StructType

import watersmeet as wm
from proof.arrow import arrow_builder
from tests.engine.stream_kit import PLUS
from tests.plans.topologies import drawn, golden
from watersmeet._plan.pictures import laid_out, levels_picture, nodes_picture
from watersmeet.api.topology import Topology
from watersmeet.io.policies import DeadLetter
from watersmeet.provenance import Why

SVG = "{http://www.w3.org/2000/svg}"
NASTY = """<script>"a" & 'b'</script>`#]|"""


@pytest.fixture(scope="module")
def topologies() -> list[Topology]:
    return [topology for _, topology in (*golden(), *islice(drawn(), 100))]


def test_boxes_lie_apart_within_the_picture_and_operators_within_their_level(topologies: list[Topology]) -> None:
    for topology in topologies:
        picture = levels_picture(topology.physical)
        found = laid_out(picture)
        for one, other in combinations(found.places, 2):
            across = abs(one.x - other.x) >= (one.width + other.width) / 2
            assert across or one.top + one.height < other.top or other.top + other.height < one.top
        assert all(place.x - place.width / 2 > 0 and place.x + place.width / 2 < found.width for place in found.places)
        assert all(place.top > 0 and place.top + place.height < found.height for place in found.places)
        bands = {band.level: band for band in found.bands}
        for level, place in zip(picture.levels, found.places, strict=True):
            inside = {b.level for b in bands.values() if b.top < place.top and place.top + place.height < b.bottom}
            assert inside == ({level} if level is not None else set())


def test_arrows_lead_down_and_every_node_and_store_is_in_the_picture(topologies: list[Topology]) -> None:
    for topology in topologies:
        picture = levels_picture(topology.physical)
        places = laid_out(picture).places
        assert all(places[a.tail].top + places[a.tail].height < places[a.head].top for a in picture.arrows)
        assert len(picture.arrows) >= sum(len(node.inputs) for node in topology.plan.nodes)
        texts = {text.text for text in ElementTree.fromstring(topology.to_svg(levels=True)).iter(f"{SVG}text")}
        # of a store that is called by its box only what is its own
        texts |= {f"{box.name}{text}" for box in picture.boxes for text in texts if text and text.startswith(".")}
        stores = {store for operator in topology.physical.operators for store in operator.stores}
        shown = {source.input for source in topology.plan.sources} | {sink.output for sink in topology.plan.sinks}
        assert stores | shown <= texts
        boxes = re.findall(r"^ +n(\d+)\W", topology.to_mermaid(levels=True), re.MULTILINE)
        assert {int(number) for number in boxes} == set(range(len(picture.boxes)))


def test_the_picture_of_the_users_nodes_has_no_node_of_the_librarys_and_loses_no_way(
    topologies: list[Topology],
) -> None:
    for topology in topologies:
        picture, plan = nodes_picture(topology.physical), topology.plan
        shown = {name: box.node for box in picture.boxes for name in (box.node, *box.helpers)}
        assert shown.keys() == plan.by_name.keys()
        assert not [box.node for box in picture.boxes if plan.by_name[box.node].part_of]
        ways = {(shown[above], shown[node.name]) for node in plan.nodes for above in node.inputs}
        drawn_ways = {(picture.boxes[a.tail].node, picture.boxes[a.head].node) for a in picture.arrows}
        assert drawn_ways == {way for way in ways if way[0] != way[1]}
        stores = [store for box in picture.boxes for store in box.stores]
        assert {store for operator in topology.physical.operators for store in operator.stores} <= set(stores)


def test_old_and_new_halves_arguments_and_conversions_are_parts_of_what_the_user_wrote() -> None:
    builder = arrow_builder("sums")
    orders = builder.table("orders", key="string", value="double")
    grouped = orders.group_by(lambda key, value: (key, value), name="by-customer")
    grouped.agg(total=wm.sum(lambda amount: amount), name="sums", store="sums").to("out")
    topology = builder.build()
    picture = nodes_picture(topology.physical)
    assert [(picture.boxes[a.tail].name, picture.boxes[a.head].name, a.text) for a in picture.arrows] == [
        ("orders", "by-customer", ""),
        ("by-customer", "sums", ""),
        ("sums", "out", ""),
    ]
    assert "sums-arguments-old" in topology.to_svg(levels=True)


def test_every_box_says_what_it_is() -> None:
    builder = arrow_builder("orders")
    builder.stream("orders", key="string", value="string", on_undecodable=DeadLetter("bad")).to("out")
    about = {box.name: box.about for box in levels_picture(builder.build().physical).boxes}
    assert about == {
        "orders": "stream, topic",
        "out": "topic",
        "orders-dead-letters": "stream, dead letters",
        "bad": "topic",
    }


def test_nothing_is_written_over_and_long_arrows_go_straight() -> None:
    builder = arrow_builder("orders")
    orders, payments = (builder.table(name, key="string", value="string") for name in ("orders", "payments"))
    clicks = builder.stream("clicks", key="string", value="string")
    owed = orders.left_join(payments, PLUS).filter(lambda key, value: pc.is_valid(value))
    owed.to("open-orders")
    clicks.join(owed, PLUS).to("warm-clicks")
    topology = builder.build()
    picture = levels_picture(topology.physical)
    drawn = laid_out(picture)
    long = [[x for x, _, _ in way] for way in drawn.ways if len(way) > 1]
    assert len(long) == 2
    assert max(max(way) - min(way) for way in long) < 1.0
    root = ElementTree.fromstring(topology.to_svg(levels=True))
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert {"table-table left join", "stream-table join", ".left", ".right", "level 1", "level 2"} <= set(texts)
    assert not [text for text in texts if text.endswith("…")]
    names = {text.text: float(text.get("y", 0)) for text in root.iter(f"{SVG}text") if "level" in (text.text or "")}
    for band in drawn.bands:
        tops = [p.top for p, level in zip(drawn.places, picture.levels, strict=True) if level == band.level]
        # letters reach four pixels below their line
        assert names[f"level {band.level}"] + 4 < min(tops)


def test_names_are_shown_as_they_are_whatever_they_mean_in_the_pictures_own_language() -> None:
    builder = arrow_builder("nasty")
    left = builder.table("left", key="string", value="string", store=NASTY)
    left.join(builder.table("right", key="string", value="string"), PLUS, name=f"join {NASTY}").to("out")
    topology = builder.build()
    texts = [text.text for text in ElementTree.fromstring(topology.to_svg(levels=True)).iter(f"{SVG}text")]
    assert {NASTY, f"join {NASTY}"} <= set(texts)
    assert "<script>" not in topology.to_mermaid()
    assert "&quot;" not in topology.to_mermaid()
    assert "join #60;script#62;#34;a#34; #38; 'b'" in topology.to_mermaid()


def test_long_names_are_cut_and_said_whole_beside() -> None:
    builder = arrow_builder("long")
    name = "orders of " + 10 * "the very last "
    builder.table("t", key="string", value="string").to_stream(name=name).to("out")
    root = ElementTree.fromstring(builder.build().to_svg())
    assert max(len(text.text or "") for text in root.iter(f"{SVG}text")) == 40
    assert any((title.text or "").startswith(name) for title in root.iter(f"{SVG}title"))


def test_a_handle_shows_what_leads_to_it_before_the_topology_is_built() -> None:
    builder = arrow_builder("handles")
    left, right = (builder.table(name, key="string", value="string") for name in ("left", "right"))
    joined = left.join(right, PLUS, name="both", store="kept")
    shown = joined._repr_mimebundle_()
    assert shown["text/plain"] == repr(joined)
    assert all(f">{name}</text>" in shown["text/html"] for name in ("left", "right", "both", "kept"))
    assert "both" not in left._repr_html_()
    joined.to("out")
    whole = builder.build()._repr_mimebundle_()["text/html"]
    assert whole.startswith("<div")
    assert all(f">{name}</text>" in whole for name in ("both", "out"))


def test_a_row_of_which_the_journal_knows_no_record_is_drawn_alone() -> None:
    builder = arrow_builder("p")
    builder.table("in", key="string", value="string", store="t", name="t")
    plan = builder.build().physical.plan
    schema = StructType([StructField("key", StringType()), StructField("value", StringType())])
    for node in plan.nodes:
        found = Why("t", "k", 1, (), (), 1, 0, (), schema, plan, node.name)
        assert found.to_svg().startswith("<svg")
        assert "flowchart" in found.to_mermaid()
