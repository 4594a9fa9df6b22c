"""Adding an aggregate: a declaration, a kernel and a function of the oracle, and a line in each of two tables.

The folder `product` holds all that such an aggregate is. It runs here without a change of anything else: of streams,
tables and every window, beside what the same aggregate is of the values that are left; `CONTRIBUTING.md` tells the way.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from proof.arrow import arrow_builder
from proof.oracle.aggregates import RESULTS
from tests.aggregates.product.declared import Product, product
from tests.aggregates.product.kernel import kernel
from tests.aggregates.product.oracle import product as one_at_a_time
from tests.engine.kit import by_step, driver_of
from tests.test_architecture import modules
from watersmeet import aggregates
from watersmeet._engine.aggregates import registry
from watersmeet._plan.folds import NamedFold
from watersmeet.errors import TopologyError
from watersmeet.windows import SessionWindows, SlidingWindows, TimeWindows

STEPS = st.lists(
    st.tuples(st.just("in"), st.sampled_from("abc"), st.sampled_from([None, 1, 2, 5, 9]), st.integers(0, 30)),
    max_size=20,
)
CUTS = st.frozensets(st.integers(0, 20))
MODULO = 97


@pytest.fixture(scope="module", autouse=True)
def _in_both_tables() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(aggregates.AGGREGATES, Product.stem, Product)
        patch.setitem(registry.KERNELS, Product.stem, kernel)
        yield


def it(value: Any) -> Any:
    return value


def agree(said: list[Any]) -> None:
    for results in said:
        for _, value, _ in results:
            assert value is None or value["made"] == one_at_a_time(value["all"], MODULO)


def made() -> dict[str, Any]:
    return {"made": product(it, MODULO), "all": wm.collect_list(it)}


@pytest.mark.parametrize("windows", [None, TimeWindows(10, 5, 3), SlidingWindows(6, 3), SessionWindows(4, 3)], ids=str)
@settings(max_examples=25, deadline=None)
@given(steps=STEPS, cuts=CUTS)
def test_it_is_folded_for_streams_and_all_windows(windows: Any, steps: Any, cuts: Any) -> None:
    def build(builder: Any) -> Any:
        grouped = builder.stream("in", key="string", value="long").group_by_key()
        return grouped.agg(**made()) if windows is None else grouped.windowed_by(windows).agg(**made()).to_stream()

    agree(by_step(driver_of(build), steps, cuts))


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, cuts=CUTS)
def test_it_is_folded_for_tables(steps: Any, cuts: Any) -> None:
    def build(builder: Any) -> Any:
        return builder.table("in", key="string", value="long").group_by(lambda k, v: (k, v)).agg(**made())

    agree(by_step(driver_of(build), steps, cuts))


def test_it_is_described_recorded_and_refused_by_its_declaration() -> None:
    builder = arrow_builder("test")
    grouped = builder.stream("in", key="string", value="string").group_by_key()
    with pytest.raises(TopologyError, match=r"The aggregate product takes numbers(.|\n)*wm.product\(lambda value:"):
        grouped.agg(made=product(it, MODULO))
    grouped.agg(made=product(lambda value: value.cast("int64"), MODULO)).to("out")
    assert "made=product(97)" in builder.build().describe()
    with pytest.raises(wm.WrongCall, match=r"needs modulo(.|\n)*wm.product\(lambda value: value\['amount'\]\)"):
        product(it)  # type: ignore[call-arg]
    fold = NamedFold((("made", Product(None, MODULO)),))
    assert NamedFold.read(fold.recorded()) == fold


def test_it_lies_in_three_files() -> None:
    files = Path(__file__).with_name("product").glob("[a-z]*.py")
    assert sorted(file.stem for file in files) == ["declared", "kernel", "oracle"]


def test_each_aggregate_has_a_kernel_an_oracle_and_a_name_in_the_package() -> None:
    stems = set(aggregates.AGGREGATES) - {Product.stem}
    assert stems == set(RESULTS) == set(registry.KERNELS) - {Product.stem, "kept"}
    names = {each.name for stem, each in aggregates.AGGREGATES.items() if stem in stems - {"own"}}
    assert names | {"Aggregate"} <= set(wm.__all__)
    assert all(getattr(wm, name).__doc__ for name in names)


def test_what_checkpoints_have_recorded_of_aggregates_is_read_as_it_was() -> None:
    said = {
        "fields": [["n", "count", None], ["total", "sum", None], ["top", "top_k", 3]],
        "arguments": True,
        "alone": False,
        "takes_back": True,
    }
    fold = NamedFold.read(said)
    assert [aggregate.text for _, aggregate in fold.fields] == ["count", "sum", "top_k(3)"]
    assert fold.recorded() == said
    for stem, kind in aggregates.AGGREGATES.items():
        recorded = {"top_k_by": 2, "top_k": 2, "percentile": 0.25, "product": 5}.get(stem)
        assert kind.read(recorded).recorded()[1] == recorded


# Who may know an aggregate by its class or stem: its own declaration, kernel and oracle, and the two tables.
FREE = (
    "watersmeet.aggregates",
    "watersmeet._engine.aggregates",
    "proof",
)
CLASSES = {each.__name__ for each in aggregates.AGGREGATES.values()} - {"Aggregate"}


def breaches(source: str, module: str) -> list[str]:
    """Questions of which aggregate something is, where its declaration has to answer."""
    if module.startswith(FREE):
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"isinstance", "issubclass"}:
            names = {getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(node.args[1])}
            if names & CLASSES:
                found.append(f"{module}:{line} asks which aggregate something is")
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            stems = [
                each.value
                for side in sides
                for each in ast.walk(side)
                if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in ASKED
            ]
            if stems:
                found.append(f"{module}:{line} compares with the aggregate {stems[0]!r}")
    return found


# words that mean other things, too
ASKED = set(aggregates.AGGREGATES) - {"count", "sum", "min", "max", "first", "last", "own", "mode"}


def test_nobody_asks_which_aggregate_something_is() -> None:
    # the front end of SQL reads names of functions in the text of a query
    found = [(source, name) for source, name in modules() if not name.startswith("watersmeet.sql")]
    assert [breach for source, name in found for breach in breaches(source, name)] == []
    bad = [
        "if isinstance(each, TopK):\n    pass",
        "if each.stem == 'top_k':\n    pass",
        "takes = kind in ('collect_list', 'collect_set')",
    ]
    assert all(len(breaches(source, "watersmeet.api.folds")) == 1 for source in bad)
    assert breaches("if isinstance(each, AnyAggregate):\n    pass", "watersmeet.api.folds") == []


def test_a_declaration_has_all_that_is_asked_of_it() -> None:
    asked = {"arguments", "parameters", "text", "types", "bare", "recorded", "read", "example"}
    assert all(inspect.getattr_static(each, name, None) for each in aggregates.AGGREGATES.values() for name in asked)
