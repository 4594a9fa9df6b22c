"""The live entries of a processor's stores, for readers from outside."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.rows.columns import ints
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.times import TIME
from watersmeet._plan.operators.process import UNTIL


def lasting(state: State, rows: pa.Table) -> pa.Table:
    """The rows of a table, without a processor's that have lasted their time and that no merge has removed yet."""
    if UNTIL not in rows.column_names or not len(rows):
        return rows
    times = {int(domain): time for domain, time in state.get_scalar(TIME, {}).items()}
    numbers, places = np.unique(ints(rows, "domain"), return_inverse=True)
    # few: one a domain
    floors = np.array([times.get(number, -1) for number in numbers.tolist()], dtype=np.int64)
    return rows.filter(pa.array(ints(rows, UNTIL) >= floors[places]))
