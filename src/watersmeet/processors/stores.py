"""The stores of a processor, as they are declared: a value, a list, or an ordered map under each key.

>>> MapStore("seen", key_type="string", value_type="boolean", ttl="10 minutes")
MapStore('seen', key_type='string', value_type='boolean', ttl='10 minutes')
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from watersmeet.errors import TopologyError
from watersmeet.names import answering
from watersmeet.windows import Duration, duration_ms


@dataclass(frozen=True, repr=False)
class StoreDeclaration:
    """Base of all declarations of stores.

    Parameters
    ----------
    name : the store's name, one of its own in the topology.
    """

    name: str

    kind: ClassVar[str]
    """"value", "list" or "map"."""

    def __post_init__(self) -> None:
        given: object = self.name
        if not isinstance(given, str) or not given:
            raise TopologyError(
                f"The name of a store must be a text: {type(self).__name__}({self.name!r:.80}).",
                hint=f"For example wm.{type(self).__name__}('seen', ...).",
            )
        if self.ttl_ms is not None and self.ttl_ms < 1:
            raise TopologyError(
                f"ttl must be more than zero: ttl of {self.name!r} is {self.ttl_ms} ms.",
                hint="ttl='10 minutes', or leave it out.",
            )

    def __repr__(self) -> str:
        given = ((each.name, getattr(self, each.name)) for each in fields(self)[1:])
        said = "".join(f", {name}={value!r}" for name, value in given if value is not None)
        return f"{type(self).__name__}({self.name!r}{said})"

    @property
    def types(self) -> tuple[Any, Any]:
        """(type of what tells entries of a key apart, None where there is one alone; type of the values)."""
        raise NotImplementedError

    @property
    def ttl_ms(self) -> int | None:
        """For how long an entry lasts, in ms; None: until it is deleted."""
        ttl = getattr(self, "ttl", None)
        return None if ttl is None else duration_ms(ttl, "ttl")


@answering
@dataclass(frozen=True, repr=False)
class ValueStore(StoreDeclaration):
    """A value of each key.

    Parameters
    ----------
    name : the store's name.
    type : type of the values, in Spark's words ("long", "struct<n: long>") or as a DataType.
    ttl : for how long a value lasts after it was put, in stream time, a duration ("1 hour"); None: until it is deleted.

    Examples
    --------
    >>> ValueStore("last", "long")
    ValueStore('last', type='long')
    """

    type: Any
    ttl: Duration | None = field(default=None, kw_only=True)
    kind = "value"

    @property
    def types(self) -> tuple[Any, Any]:
        return None, self.type


@answering
@dataclass(frozen=True, repr=False)
class ListStore(StoreDeclaration):
    """A list of values of each key.

    Parameters
    ----------
    name : the store's name.
    type : type of the elements, in Spark's words or as a DataType.
    ttl : for how long an element lasts after it was put, in stream time; None: until it is deleted.
    """

    type: Any
    ttl: Duration | None = field(default=None, kw_only=True)
    kind = "list"

    @property
    def types(self) -> tuple[Any, Any]:
        return "long", self.type


@answering
@dataclass(frozen=True, repr=False)
class MapStore(StoreDeclaration):
    """A map of each key, in the order of the map's own keys.

    Parameters
    ----------
    name : the store's name.
    key_type, value_type : types of the map's keys and values, in Spark's words or as DataTypes. Keys are texts, bytes,
        whole numbers, decimals, dates or times.
    ttl : for how long an entry lasts after it was put, in stream time, a duration; None: until it is deleted.

    Examples
    --------
    >>> MapStore("seen", "string", "boolean", ttl="10 minutes").ttl_ms
    600000
    """

    key_type: Any
    value_type: Any
    ttl: Duration | None = field(default=None, kw_only=True)
    kind = "map"

    @property
    def types(self) -> tuple[Any, Any]:
        return self.key_type, self.value_type
