"""Bytes and JSON that somebody has altered: by chance, or to lie."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

from watersmeet._engine import row_sizes

RIGHT, REFUSED, OTHER, WRONG = "right", "refused", "other rows", "WRONG ROWS"
"""What may come of a mutation: what was there, an error of watersmeet's, where sums were made anew other rows; and what
may not."""


def mutated(chance: random.Random, content: bytes, other: bytes = b"") -> bytes:
    """The bytes with some altered, cut off, added, copied or taken from `other`."""
    found = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        at = chance.randrange(len(found) + 1)
        size = chance.choice([1, 1, 2, 4, 8, 16, 64])
        match chance.choice(["bit", "bit", "bit", "number", "number", "bytes", "cut", "hole", "grow", "copy", "other"]):
            case "bit" if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case "number":
                # an offset or a length as whoever lies would write it, where Arrow has them
                at -= at % 4
                lie = chance.choice([0, 1, -1, -2, 2**31 - 1, -(2**31), 2**30, len(found), chance.randrange(2**16)])
                found[at : at + 4] = struct.pack("<i", lie)
            case "bytes":
                found[at : at + size] = chance.randbytes(size)
            case "cut":
                del found[at:]
            case "hole":
                del found[at : at + size]
            case "grow":
                found[at:at] = chance.randbytes(size)
            case "copy":
                begin = chance.randrange(len(found) + 1)
                found[at : at + size] = found[begin : begin + size]
            case "other":
                found = bytearray(other or content)
    return bytes(found)


def headed(content: bytes) -> bytes:
    """A blob with a header that fits what follows it."""
    return struct.pack("<4sHHQ", row_sizes.MAGIC, row_sizes.VERSION, 0, len(content)) + content


def other_json(chance: random.Random, body: Any) -> Any:
    """JSON with one value, anywhere in it, another, left out, or there twice."""
    places = list(_places(body))
    inside, at = chance.choice(places)
    lies = [0, -1, 1, 2**31, 2**63, -(2**70), 1.5, float("inf"), "", "x", None, True, [], {}, [[]], {"a": 1}]
    value = inside[at]
    match chance.choice(["lie", "lie", "lie", "near", "gone", "twice", "other"]):
        case "near" if isinstance(value, int) and not isinstance(value, bool):
            inside[at] = value + chance.choice([-1, 1, 1000, -1000])
        case "near" if isinstance(value, str) and value:
            cut = chance.randrange(len(value))
            inside[at] = value[:cut] + chance.choice("aA0/=") + value[cut + 1 :]
        case "gone":
            del inside[at]
        case "twice" if isinstance(inside, list):
            inside.insert(at, value)
        case "other":
            there, key = chance.choice(places)
            inside[at] = json.loads(json.dumps(there[key])) if _has(there, key) else None
        case _:
            inside[at] = chance.choice(lies)
    return body


def _has(inside: Any, at: Any) -> bool:
    return at in inside if isinstance(inside, dict) else at < len(inside)


def _places(body: Any) -> Iterator[tuple[Any, Any]]:
    parts = list(body.items()) if isinstance(body, dict) else list(enumerate(body)) if isinstance(body, list) else []
    for at, value in parts:
        yield body, at
        yield from _places(value)
