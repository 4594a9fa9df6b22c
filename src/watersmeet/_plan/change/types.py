"""Which types stored values can be read as: the same, or a wider one (a nullable column more, an int as a long).

Types are as a checkpoint records them: Spark's JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CHAINS = (("byte", "short", "integer", "long"), ("float", "double"))
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def hinders(old: Any, new: Any) -> str | None:
    """Why values of the type `old` cannot be read as those of the type `new`; None: they can.

    Parameters
    ----------
    old, new : as `DataType.jsonValue` gives them, or texts.
    """
    return None if old == new else _between(old, new, "")


def _between(old: Any, new: Any, at: str) -> str | None:
    if isinstance(old, Mapping) and isinstance(new, Mapping) and old["type"] == new["type"]:
        if old["type"] == "struct":
            return _structs(old, new, at)
        if old["type"] == "array":
            return _nullable(old["containsNull"], new["containsNull"], f"{at}[]") or _between(
                old["elementType"], new["elementType"], f"{at}[]"
            )
        if old["type"] == "map":
            if old["keyType"] != new["keyType"]:
                return _differs(old["keyType"], new["keyType"], f"keys of {at or 'the map'}")
            return _nullable(old["valueContainsNull"], new["valueContainsNull"], f"{at}{{}}") or _between(
                old["valueType"], new["valueType"], f"{at}{{}}"
            )
    return None if old == new or _is_wider(old, new) else _differs(old, new, at or "it")


def _structs(old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> str | None:
    before = {each["name"]: each for each in old["fields"]}
    now = {each["name"]: each for each in new["fields"]}
    gone = [name for name in before if name not in now]
    if gone:
        return f"{', '.join(_path(at, name) for name in gone)}: is no longer there"
    for name, field in now.items():  # the fields of a schema
        path = _path(at, name)
        if name not in before:
            if not field["nullable"]:
                return f"{path}: is new, and may not be null, as it is in the rows that are stored"
            continue
        found = _nullable(before[name]["nullable"], field["nullable"], path)
        found = found or _between(before[name]["type"], field["type"], path)
        if found:
            return found
    return None


def _nullable(old: bool, new: bool, at: str) -> str | None:
    return f"{at}: may not be null any more, as it may be in the rows that are stored" if old and not new else None


def _is_wider(old: Any, new: Any) -> bool:
    for chain in _CHAINS:
        if old in chain and new in chain:
            return chain.index(old) < chain.index(new)
    before, now = (_DECIMAL.fullmatch(each) if isinstance(each, str) else None for each in (old, new))
    if before is None or now is None:
        return False
    (precision, scale), (wide, fine) = (tuple(map(int, each.groups())) for each in (before, now))
    return fine >= scale and wide - fine >= precision - scale


def _path(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _differs(old: Any, new: Any, at: str) -> str:
    return f"{at}: was {written(old)}, is {written(new)}"


def written(kind: Any) -> str:
    """A type as Spark writes it in DDL."""
    if not isinstance(kind, Mapping):
        return {"integer": "int", "long": "bigint"}.get(str(kind), str(kind))
    if kind["type"] == "struct":
        fields = (f"{each['name']}: {written(each['type'])}" for each in kind["fields"])
        return f"struct<{', '.join(fields)}>"
    if kind["type"] == "array":
        return f"array<{written(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{written(kind['keyType'])}, {written(kind['valueType'])}>"
    return str(kind["type"])
