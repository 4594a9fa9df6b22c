"""Documents of JSON Schema, with what they refer to in its place, so that one text says all.

Keywords are those of draft 7 and of 2020-12. Refused are those by which a value may have one of several types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from watersmeet._worker.formats.guarded.budgets import SCHEMA_FIELDS, SCHEMA_LEVELS, nests_beyond
from watersmeet._worker.formats.registered.language import BadSchema, References

Schema = Any
"""A schema as JSON has it: an object, or a boolean (anything, nothing)."""
_ONE = (
    *("items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "not"),
)
_SEVERAL = ("oneOf", "anyOf")
_KEPT_ASIDE = ("definitions", "$defs", "$id", "id", "$anchor")
_SAYS_NOTHING = (
    *(*_KEPT_ASIDE, "$schema", "title", "description", "default"),
    *("examples", "deprecated", "readOnly", "writeOnly", "$comment"),
)
_REFUSED = (
    *("allOf", "if", "patternProperties", "prefixItems", "dependentSchemas", "dependencies"),
    *("$dynamicRef", "$recursiveRef"),
)


def whole(text: str, references: References = ()) -> Schema:
    """The schema of a text, with all that it refers to within it.

    Parameters
    ----------
    references : documents that it may refer to, by the names that it has for them.

    Raises
    ------
    BadSchema : it is none, it holds itself, it refers to what is not there, or it has a keyword that is refused.
    """
    if any(nests_beyond(each, SCHEMA_LEVELS) for each in (text, *(each for _, each in references))):
        raise BadSchema(f"it has more than {SCHEMA_LEVELS} levels")
    try:
        documents = {"": json.loads(text)} | {name: json.loads(each) for name, each in references}
    except (ValueError, RecursionError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from None
    own = {each["$id"]: name for name, each in documents.items() if isinstance(each, dict) and "$id" in each}
    try:
        return _Documents(documents, own).whole(documents[""], "", (("", ""),))
    except RecursionError:
        raise BadSchema("it is too deep") from None


class _Documents:
    def __init__(self, documents: Mapping[str, Any], own: Mapping[Any, str]) -> None:
        self._documents, self._own = documents, own
        self._count = 0

    def whole(self, schema: Schema, document: str, above: tuple[tuple[str, str], ...]) -> Schema:
        """The schema, which stands in a document, with what it refers to in its place.

        Parameters
        ----------
        above : the places that it is referred to from within.
        """
        self._count += 1
        if self._count > SCHEMA_FIELDS:
            raise BadSchema(f"it has more than {SCHEMA_FIELDS} parts")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise BadSchema(f"a schema is an object, this is {json.dumps(schema)[:80]}")
        refused = next((name for name in _REFUSED if name in schema), None)
        if refused is not None:
            raise BadSchema(f"the keyword {refused}: a value could be of several types")
        if "$ref" in schema:
            return self._target(schema, document, above)
        made = {}
        for name, value in schema.items():
            if name in _KEPT_ASIDE or (name == "$schema" and len(above) > 1):
                continue
            if name in _ONE and isinstance(value, dict | bool):
                made[name] = self.whole(value, document, above)
            elif name in _SEVERAL and isinstance(value, list):
                made[name] = [self.whole(each, document, above) for each in value]
            elif name == "properties" and isinstance(value, dict):
                made[name] = {each: self.whole(inner, document, above) for each, inner in value.items()}
            else:
                made[name] = value
        return made

    def _target(self, schema: Mapping[str, Any], document: str, above: tuple[tuple[str, str], ...]) -> Schema:
        beside = [name for name in schema if name != "$ref" and name not in _SAYS_NOTHING and "." not in name]
        if beside:
            raise BadSchema(f"{beside[0]} is not allowed beside a $ref")
        base, _, pointer = str(schema["$ref"]).partition("#")
        name = self._own.get(base, base) if base else document
        place = (name, pointer)
        if place in above:
            raise BadSchema(f"{schema['$ref']} holds itself")
        if name not in self._documents:
            raise BadSchema(f"{schema['$ref']} is not in the document, and the registry has no reference to it")
        found = self.whole(_at(self._documents[name], pointer, schema["$ref"]), name, (*above, place))
        said = {each: schema[each] for each in ("$schema", "title") if each in schema}
        return found | said if isinstance(found, dict) else found


def _at(document: Any, pointer: str, ref: str) -> Any:
    """The target of a JSON Pointer (RFC 6901)."""
    found = document
    for part in unquote(pointer).split("/")[1:] if pointer else []:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise BadSchema(f"{ref} leads nowhere") from None
    if pointer and not pointer.startswith("/"):
        raise BadSchema(f"{ref} is no pointer into a document")
    return found
