"""A blueprint: one topology as data, from which the handles and the oracle each build their own.

Owns the shape of a description and its text. Law: operators stand in order of construction, since Kafka
Streams decides by that order what is materialised and which child comes first; and an operator refers only to
earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple


class Ref(NamedTuple):
    """An output of an operator: its number in the blueprint, and which of its outputs."""

    op: int
    port: int = 0


@dataclass(frozen=True)
class Op:
    """One operator.

    Parameters
    ----------
    kind : its name in the registry.
    inputs : the outputs it reads, left before right.
    params : what the kind drew for it.
    """

    kind: str
    inputs: tuple[Ref, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Blueprint:
    """One topology.

    Parameters
    ----------
    ops : the operators in order of construction, sources and sinks included.
    keys : type of the keys: "string", "long", or one of `kinds.shapes.KEYS`.
    generation : semantics that its joins follow.
    values : type of the values, one of `kinds.shapes.VALUES`.
    on_error : what becomes of a record for which a function of a fold raises: "fail" or "skip".
    """

    ops: tuple[Op, ...]
    keys: str = "string"
    generation: str = "current"
    values: str = "string"
    on_error: Literal["fail", "skip"] = "fail"

    def sources(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the inputs, which are operators of these kinds."""
        return tuple(name_of(number) for number, op in enumerate(self.ops) if op.kind in kinds)

    def lines(self) -> list[str]:
        """One line for each operator."""
        return [f"{name_of(number)} = {_call(op)}" for number, op in enumerate(self.ops)]

    def without(self, number: int) -> Blueprint | None:
        """The blueprint without one operator; what read it reads its first input, None where that fails."""
        gone = self.ops[number]
        ops: list[Op] = []
        for place, op in enumerate(self.ops):
            if place == number:
                continue
            if any(ref.op == number for ref in op.inputs) and not gone.inputs:
                return None
            inputs = (gone.inputs[0] if ref.op == number else ref for ref in op.inputs)
            ops.append(replace(op, inputs=tuple(_moved_up(ref, number) for ref in inputs)))
        return replace(self, ops=tuple(ops))


def name_of(number: int) -> str:
    """Name of an operator, and of the input or output that it is."""
    return f"n{number}"


def beside(blueprints: list[Blueprint]) -> Blueprint:
    """Several blueprints of one key type and generation as one topology of unconnected parts."""
    ops: list[Op] = []
    for blueprint in blueprints:
        start = len(ops)
        ops += [replace(op, inputs=tuple(Ref(ref.op + start, ref.port) for ref in op.inputs)) for op in blueprint.ops]
    return replace(blueprints[0], ops=tuple(ops))


def as_data(blueprint: Blueprint) -> dict[str, Any]:
    """The blueprint as JSON knows it."""
    ops = [[op.kind, [list(ref) for ref in op.inputs], dict(op.params)] for op in blueprint.ops]
    said = {"values": blueprint.values, "on_error": blueprint.on_error}
    others = {name: said[name] for name, usual in (("values", "string"), ("on_error", "fail")) if said[name] != usual}
    return {"keys": blueprint.keys, "generation": blueprint.generation, **others, "ops": ops}


def of_data(data: Mapping[str, Any]) -> Blueprint:
    """The blueprint that `as_data` wrote."""
    ops = tuple(Op(kind, tuple(Ref(*ref) for ref in inputs), params) for kind, inputs, params in data["ops"])
    return Blueprint(ops, data["keys"], data["generation"], data.get("values", "string"), data.get("on_error", "fail"))


def _moved_up(ref: Ref, number: int) -> Ref:
    return Ref(ref.op - 1, ref.port) if ref.op > number else ref


def _call(op: Op) -> str:
    inputs = [name_of(ref.op) + (f".{ref.port}" if ref.port else "") for ref in op.inputs]
    params = [f"{name}={value!r}" for name, value in op.params.items()]
    return f"{op.kind}({', '.join(inputs + params)})"
