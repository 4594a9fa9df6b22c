"""Formats answer by their families and languages: nobody else asks which one a format is."""

from __future__ import annotations

import ast
from typing import get_args

from tests.operators.test_who_answers import names_in
from tests.test_architecture import modules, part_of
from watersmeet._worker.formats.formats import FAMILIES
from watersmeet._worker.formats.schemas import LANGUAGES
from watersmeet.io.formats import FormatName

FREE = ("watersmeet._worker.formats.formats",)
OF_THEIR_OWN = {"WindowedFormat", "DebeziumFormat", "DebeziumKeyFormat", "DecimalFormat"}


def test_each_format_has_a_family_and_each_language_is_a_format() -> None:
    assert set(get_args(FormatName)) <= set(FAMILIES)
    assert set(LANGUAGES) <= set(FAMILIES)


def asks(node: ast.AST) -> bool:
    """Whether it compares a format's kind, or looks for a class of formats that only a family knows."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
        return bool(names_in(node.args[1]) & OF_THEIR_OWN)
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        of_form = any(isinstance(s, ast.Attribute) and s.attr == "kind" and "form" in names_in(s.value) for s in sides)
        return of_form and any(isinstance(s, ast.Constant) and s.value in FAMILIES for s in sides)
    return False


def test_nobody_but_families_asks_which_format_it_is() -> None:
    found = [
        f"{module}:{node.lineno}"
        for source, module in modules()
        if part_of(module) in {"_spark", "testing"} and not module.startswith(FREE)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.expr) and asks(node)
    ]
    assert found == []


def test_the_rule_finds_what_breaks_it() -> None:
    broken = ("isinstance(form, WindowedFormat)", "form.kind == 'avro'", "'json' == part.form.kind")
    kept = ("isinstance(form, Format)", "node.shape.kind == 'table'", "form.kind == kind")
    assert [any(map(asks, ast.walk(ast.parse(text)))) for text in (*broken, *kept)] == [True] * 3 + [False] * 3
