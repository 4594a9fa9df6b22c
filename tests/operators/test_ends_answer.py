"""Outputs and inputs answer for themselves: nobody asks which one something is.

Taken from the syntax tree; the rule is also tried on small samples that break it and on some that keep it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.operators.test_who_answers import names_in
from tests.test_architecture import modules
from watersmeet._spark.outputs.outputs import WRITERS
from watersmeet._spark.sources.iceberg import LakeRows
from watersmeet._spark.sources.sources import READINGS
from watersmeet.io.inputs import Origin
from watersmeet.io.outputs import Output, SinkTarget


def below(kind: type) -> Iterator[type]:
    """A class and all that are made of it."""
    yield kind
    for each in kind.__subclasses__():
        yield from below(each)


# tests make outputs of their own, under any names
_ALL = (each for top in (SinkTarget, Origin, Output) for each in below(top))
ENDS = frozenset(each.__name__ for each in _ALL if each.__module__.startswith("watersmeet.")) | {"Bootstrap"}
# What is written is brought to an output or an input here, and here alone.
FREE = ("watersmeet.io.",)


def breaches(source: str, module: str) -> list[str]:
    """Questions of which output or input something is, where it has to answer itself.

    Free to ask are the modules of outputs and inputs. Tables that lead from a class to what writes or reads it are
    looked up, not compared.
    """
    if module.startswith(FREE):
        return []
    return [
        f"{module}:{getattr(node, 'lineno', 0)} asks which output or input something is"
        for node in ast.walk(ast.parse(source))
        if asks(node)
    ]


def asks(node: ast.AST) -> bool:
    """Whether it is a test of the type of an output or an input, by the class or by its name."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"isinstance", "issubclass"}:
        return bool(names_in(node.args[1]) & ENDS)
    if isinstance(node, ast.Subscript):
        return is_name_of_type(node.slice)
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get":
        return any(map(is_name_of_type, node.args))
    if isinstance(node, ast.MatchClass):
        return bool(names_in(node.cls) & ENDS)
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        types = any(isinstance(side, ast.Call) and getattr(side.func, "id", "") == "type" for side in sides)
        named = any(map(is_name_of_type, sides))
        texts = {each.value for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)}
        return (types and any(names_in(side) & ENDS for side in sides)) or (named and bool(texts & ENDS))
    return False


def is_name_of_type(node: ast.AST) -> bool:
    """Whether it is `type(...).__name__`: what is found by that goes by the class."""
    return getattr(node, "attr", "") == "__name__" and isinstance(getattr(node, "value", None), ast.Call)


def test_nobody_asks_which_output_or_input_something_is() -> None:
    assert [breach for source, name in modules() for breach in breaches(source, name)] == []


def test_each_output_has_what_writes_it_and_each_input_what_reads_it() -> None:
    named = {each for each in below(SinkTarget) if each.__module__.startswith("watersmeet.")}
    assert {each.__name__ for each in named - WRITERS.keys()} == {"SinkTarget", "TableTarget"}
    read = {each for each in below(Origin) if each.__module__.startswith("watersmeet.")}
    assert {each.__name__ for each in read - READINGS.keys()} == {
        "Origin",
        "SortedOut",
        "ChangeRows",
        LakeRows.__name__,
    }


BAD = [
    ("watersmeet._plan.construction", "if isinstance(sink.place, Writer):\n    pass"),
    ("watersmeet._plan.construction", "if not isinstance(place, Topic | TopicSink):\n    pass"),
    ("watersmeet._worker.wire", "ends = [s for s in sinks if isinstance(s.place, topics.TopicSink)]"),
    (
        "watersmeet._spark.outputs.outputs",
        "files = all(isinstance(sink.target, (Writer, ForeachBatch)) for sink in sinks)",
    ),
    ("watersmeet._spark.outputs.output", "if type(target) is TopicSink:\n    pass"),
    ("watersmeet._spark.query.start", "if type(target) in (DatabaseTable, CatalogTable):\n    pass"),
    ("watersmeet._spark.sources.sources", "match origin:\n    case Rows():\n        pass"),
    ("watersmeet._spark.functions", "if isinstance(origin, Bootstrap):\n    pass"),
    ("watersmeet._plan.pictures", "shown = {'Rows': 'DataFrame'}[type(place).__name__]"),
    ("watersmeet.api.handle", "if issubclass(kind, TableTarget):\n    pass"),
    ("watersmeet.api.tables", "if type(target).__name__ == 'DatabaseTable':\n    pass"),
    ("watersmeet._spark.local", "keeps = isinstance(origin, Topic)"),
    ("proof.arrow", "if not isinstance(origin, Topic):\n    pass"),
]
GOOD = [
    ("watersmeet.io.origins", "if isinstance(source, Topic | Rows):\n    pass"),
    ("watersmeet._spark.outputs.outputs", "WRITERS = {TopicSink: TopicsWriter}\nwriter = WRITERS[type(target)]"),
    ("watersmeet._plan.construction", "if sink.place.claim == other.place.claim:\n    pass"),
    ("watersmeet._plan.logical", "made = TopicSink(topic, 'bytes', 'bytes')"),
    ("watersmeet._plan.logical", "if isinstance(policy, DeadLetter):\n    pass"),
    ("watersmeet.__init__", "__all__ = ['Topic', 'TopicSink']"),
]


@pytest.mark.parametrize(("module", "source"), BAD)
def test_a_sample_that_asks_is_found(module: str, source: str) -> None:
    assert len(breaches(source, module)) == 1


@pytest.mark.parametrize(("module", "source"), GOOD)
def test_a_sample_that_does_not_ask_passes(module: str, source: str) -> None:
    assert breaches(source, module) == []
