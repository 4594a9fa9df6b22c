"""sum: added one after the other, or exactly where values are taken back.

Doubles are added in Spark's own steps: so results are Spark's to the bit, and do not depend on how records are cut
into batches (law 1). Where values are taken back, sums are exact (`exact_sums`), since what one rounding has lost, or a
NaN has spoilt, no later step would bring back: the result is that of the values left.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import exact_sums as exact
from watersmeet._engine.aggregates.kernels.numbers.count import CountKernel
from watersmeet._engine.aggregates.kernels.numbers.exact import ExactSum
from watersmeet._engine.aggregates.kernels.numbers.terms import filled, typed
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.scans import SAFE, Groups
from watersmeet._engine.rows.columns import valid
from watersmeet.aggregates.declared import AnyAggregate
from watersmeet.errors import FunctionError


def sums(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return Total(kept.state) if kept.takes_back else SumKernel(kept.state)


class SumKernel(AggregateKernel):
    """The sum; null of no values."""

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return self._both(pc.add_checked, kept, typed(values, self.state))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return self._both(pc.subtract_checked, kept, typed(values, self.state))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        return self._both(pc.add_checked, kept, other)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        if pa.types.is_decimal(self.state):
            return super().run(groups, kept, values, olds)
        begins, *terms = (filled(each, self.state) for each in (kept, values, *(() if olds is None else (olds,))))
        if pa.types.is_floating(self.state):
            sums = groups.running_sums(begins, terms[0])
        else:
            deltas = terms[0] - terms[1] if olds is not None else terms[0]
            if (
                np.abs(begins.astype(np.float64)).max(initial=0)
                + sum(np.abs(t.astype(np.float64)).sum() for t in terms)
                > SAFE
            ):
                return super().run(groups, kept, values, olds)
            sums = np.repeat(begins, groups.sizes) + groups.running_counts(deltas)
        touched = valid(values) if olds is None else valid(values) | valid(olds)
        some = groups.any_before(touched, inclusive=True) | np.repeat(valid(kept), groups.sizes)
        return pa.array(sums, mask=~some)

    def _both(self, step: Callable[..., pa.Array], kept: pa.Array, values: pa.Array) -> pa.Array:
        wide = self.state
        if pa.types.is_decimal(wide):
            # a sum has one digit more than its terms, until it is seen to fit
            wide = pa.decimal256(wide.precision, wide.scale)
        nothing = pa.scalar(Decimal(0) if pa.types.is_decimal(wide) else 0, wide)
        terms = (pc.coalesce(each.cast(wide), nothing) for each in (kept, values))
        try:
            summed = step(*terms).cast(self.state)
        except pa.ArrowInvalid as error:
            raise FunctionError(
                "A sum is too large for its type.",
                given=f"{self.state}: {error}",
                hint="Sum decimals or doubles: cast the argument.",
            ) from error
        return pc.if_else(pc.or_(kept.is_valid(), values.is_valid()), summed, pa.scalar(None, self.state))


class Total(AggregateKernel):
    """The sum of values that may be taken away again, with their count: null where there are none."""

    def __init__(self, state: pa.DataType) -> None:
        super().__init__(state)
        kept = state.field("sum").type
        self._sum: AggregateKernel = ExactSum(kept) if kept == exact.STATE else SumKernel(kept)
        self._count = CountKernel(pa.int64())

    def init(self, count: int) -> pa.Array:
        return self._state(self._sum.init(count), self._count.init(count))

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        total, count = kept.flatten()
        return self._state(self._sum.add(total, values), self._count.add(count, values))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        total, count = kept.flatten()
        return self._state(self._sum.subtract(total, values), self._count.subtract(count, values))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        (total, count), (total2, count2) = kept.flatten(), other.flatten()
        return self._state(self._sum.merge(total, total2), self._count.merge(count, count2))

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        total, count = kept.flatten()
        parts = self._sum.run(groups, total, values, olds), self._count.run(groups, count, values, olds)
        return self._state(*parts)

    def finish(self, kept: pa.Array) -> pa.Array:
        total, count = kept.flatten()
        found = self._sum.finish(total)
        return pc.if_else(pc.greater(count, 0), found, pa.scalar(None, found.type))

    def _state(self, total: pa.Array, count: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays([total, count], fields=list(self.state))
