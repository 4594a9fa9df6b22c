"""All that a JSON Schema says, looked at by the package jsonschema: its keywords, in bounds that it does not have.

The package knows more than is wanted here. Old drafts have keywords with schemas that it would fetch from an address;
it searches patterns by trying, which takes for ever for some texts, and compares each element of an array with each. So
its validators are made of a list of keywords, without a resolver, and some of them are ours. All take time by the size
of text and schema alone; nothing goes by the clock, so the same text always has the same answer (law 2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._worker.formats.guarded.budgets import VALIDATED_LEVELS, nests_beyond
from watersmeet._worker.formats.guarded.net import fallen
from watersmeet._worker.formats.registered.language import BadSchema
from watersmeet._worker.formats.registered.packages import needed

_SHOWN = 300
_ANY_SCHEMA = ("additionalProperties", "contains", "items", "not", "propertyNames")
_OF_SCHEMAS = ("anyOf", "oneOf")
_LIMITS = (
    *("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf", "divisibleBy"),
    *("maxLength", "minLength", "maxItems", "minItems", "minContains", "maxContains", "maxProperties", "minProperties"),
)
_KEPT = frozenset(
    (
        *(*_ANY_SCHEMA, *_OF_SCHEMAS, *_LIMITS, "properties", "type", "enum", "const", "pattern", "uniqueItems"),
        *("required", "dependentRequired", "unevaluatedProperties"),
    )
)
_WITHOUT_EFFECT = frozenset(("format", "additionalItems", "unevaluatedItems"))
"""Formats are not looked at. Items have one schema, which is for all of them."""
_UNICODE = re.compile(r"((?:\\\\)*)\\u([0-9a-fA-F]{4})")


def refused(text: str, values: Sequence[str | None]) -> Iterator[tuple[int, str]]:
    """Which JSON texts a schema does not take, and why."""
    errors = validator(text).iter_errors
    for row, value in enumerate(values):
        if value is None:
            continue
        if nests_beyond(value, VALIDATED_LEVELS):
            yield row, f"it has more than {VALIDATED_LEVELS} levels, too many for validate=True"
            continue
        try:
            error = next(errors(json.loads(value)), None)
        except (ValueError, ArithmeticError, RecursionError) as fault:
            yield row, fallen(fault)
            continue
        if error is not None:
            yield row, f"{error.json_path}: {error.message[:_SHOWN]}"


@lru_cache(maxsize=64)
def validator(text: str) -> Any:
    """The check of values by a whole schema.

    Raises
    ------
    BadSchema : it is none by its own language, or has a keyword that is not looked at.
    ConfigError : the package that does it is not installed.
    """
    validators, schema = needed("jsonschema.validators"), json.loads(text)
    try:
        dialect = validators.validator_for(schema, default=validators.Draft7Validator)
        dialect.check_schema(schema)
    except needed("jsonschema.exceptions").SchemaError as error:
        raise BadSchema(f"{error.json_path}: {error.message[:_SHOWN]}") from None
    except (TypeError, RecursionError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from None
    ours = {"pattern": _pattern, "uniqueItems": _unique, "anyOf": _any_of, "oneOf": _one_of}
    ours |= {"unevaluatedProperties": _unevaluated_properties}
    known = {name: ours.get(name, look) for name, look in dialect.VALIDATORS.items() if name in _KEPT}
    closed = validators.create(dialect.META_SCHEMA, known, type_checker=dialect.TYPE_CHECKER)
    # a registry of nothing, which fetches nothing
    nothing = needed("referencing").Registry()
    return closed(_only_known(schema, frozenset(dialect.VALIDATORS)), registry=nothing)


def _only_known(schema: Any, dialect: frozenset[str]) -> Any:
    """The schema with the keywords of a dialect that are looked at, and nothing else.

    Raises
    ------
    BadSchema : it has one that is not, or a pattern that is none.
    """
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        raise BadSchema("a keyword has something else than a schema")
    made = {name: value for name, value in schema.items() if name in dialect - _WITHOUT_EFFECT}
    other = next((name for name in made if name not in _KEPT), None)
    if other is not None:
        raise BadSchema(f"the keyword {other} is not looked at")
    for name, value in made.items():
        if name in _ANY_SCHEMA or name == "unevaluatedProperties":
            made[name] = _only_known(value, dialect)
        elif name in _OF_SCHEMAS:
            made[name] = [_only_known(each, dialect) for each in value]
        elif name == "properties":
            made[name] = {each: _only_known(inner, dialect) for each, inner in value.items()}
        elif name == "pattern":
            made[name] = _searchable(value)
    if "unevaluatedItems" in dialect and "unevaluatedItems" in schema and "items" not in schema:
        raise BadSchema("the keyword unevaluatedItems needs items")
    kinds = made.get("type", ())
    if not isinstance(kinds, str) and not all(isinstance(each, str) for each in kinds):
        raise BadSchema("a type is a schema")
    return made


# -- keywords of ours: (validator, the keyword's value, the instance, the schema) to errors --------------------


def _error(message: str) -> Any:
    return needed("jsonschema.exceptions").ValidationError(message)


def _value_text(value: Any) -> str:
    return json.dumps(value)[:_SHOWN]


def _searchable(pattern: str) -> str:
    """A pattern of JavaScript's as RE2 writes it, which searches in one pass.

    Raises
    ------
    BadSchema : it is none, or none that can be searched so.
    """
    made = _UNICODE.sub(r"\1\\x{\2}", pattern)
    try:
        pc.match_substring_regex(pa.array([""]), made)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise BadSchema(
            f"the pattern {pattern[:_SHOWN]!r} cannot be searched in one pass: {str(error)[:_SHOWN]} (RE2 has neither "
            "look-around nor references back)"
        ) from None
    return made


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, str):
        return
    try:
        found = pc.match_substring_regex(pa.array([instance], pa.string()), pattern)[0].as_py()
    except UnicodeEncodeError:
        found = False
    if not found:
        yield _error(f"{_value_text(instance)} does not match {pattern!r}")


def _unique(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[Any]:
    if not wanted or not isinstance(instance, list):
        return
    texts = sorted(map(_canonical, instance))
    if any(one == other for one, other in pairwise(texts)):
        yield _error("an array has an element twice")


def _canonical(value: Any) -> str:
    """The same text for equal values alone: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_whole_numbers(value), sort_keys=True)


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(each) for each in value]
    return {name: _whole_numbers(each) for name, each in value.items()} if isinstance(value, dict) else value


def _fits(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _any_of(validator: Any, schemas: Any, instance: Any, schema: Any) -> Iterator[Any]:
    found = _firsts(validator, schemas, instance)
    if None not in found:
        yield _of_none(schemas, found, instance)


def _one_of(validator: Any, schemas: Any, instance: Any, schema: Any) -> Iterator[Any]:
    found = _firsts(validator, schemas, instance)
    if found.count(None) > 1:
        yield _error(f"{_value_text(instance)} is valid under {found.count(None)} schemas of oneOf")
    elif None not in found:
        yield _of_none(schemas, found, instance)


def _firsts(validator: Any, schemas: Any, instance: Any) -> list[Any]:
    """Of each schema the first error, where there is one."""
    return [next(validator.descend(instance, each), None) for each in schemas]


def _of_none(schemas: Any, errors: Sequence[Any], instance: Any) -> Any:
    """Why it is none of them: what the one says that is not for null alone."""
    kept = [n for n, each in enumerate(schemas) if each not in ({"type": "null"}, {"type": ["null"]})]
    if len(kept) == 1:
        return errors[kept[0]]
    return _error(f"{_value_text(instance)} is not valid under any of the given schemas")


def _unevaluated_properties(validator: Any, rest: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict) or "additionalProperties" in schema:
        return
    named = {*schema.get("properties", ())}
    for each in (inner for name in _OF_SCHEMAS for inner in schema.get(name, ())):
        if isinstance(each, dict) and _fits(validator, instance, each):
            named |= {*(instance if "additionalProperties" in each else each.get("properties", ()))}
    for name in instance:
        if name not in named and not _fits(validator, instance[name], rest):
            yield _error(f"{name!r} is no property that the schema has")
