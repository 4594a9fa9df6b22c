"""Processors that share a store, read tables, and take whole batches.

The page docs/your_processor_here.md tells them one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import watersmeet as wm

if TYPE_CHECKING:
    import pyarrow as pa


class Reserve:
    """Takes items from the stock, as far as there are any."""

    def init(self, context: Any) -> None:
        self.stock = context.get_store("stock")

    def process(self, record: Any, context: Any) -> None:
        left = (self.stock.get() or 0) - record.value
        if left >= 0:
            self.stock.put(left)
        context.forward(value="reserved" if left >= 0 else "sold out")


class Supply:
    """Puts items into the stock, and tells how many there are."""

    def init(self, context: Any) -> None:
        self.stock = context.get_store("stock")

    def process(self, record: Any, context: Any) -> None:
        self.stock.put((self.stock.get() or 0) + record.value)
        context.forward(value=self.stock.get())


def warehouse(orders: wm.KStream, deliveries: wm.KStream) -> tuple[wm.KStream, wm.KStream]:
    """Key of both: item, value: how many."""
    stock = wm.ValueStore("stock", "long")
    answers = orders.process_values(Reserve, value="string", stores=[stock], name="reserve")
    return answers, deliveries.process_values(Supply, value="long", stores=[stock], name="supply")


class Remind:
    """Reminds a customer of a cart an hour after its last change, by what is known of the customer then."""

    WAIT = 3_600_000

    def init(self, context: Any) -> None:
        self.due = context.get_store("due")
        self.customer, self.offers = context.table("customers"), context.global_table("offers")

    def process(self, record: Any, context: Any) -> None:
        if self.due.get() is not None:
            context.delete_timer(self.due.get())
        self.due.put(record.timestamp + self.WAIT)
        context.set_timer(record.timestamp + self.WAIT)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self.due.delete()
        city = self.customer.get()
        if city is not None:
            context.forward(value=f"{key} in {city}: {self.offers.get(city) or 'come back'}")


def reminders(carts: wm.KStream, customers: wm.KTable, offers: wm.GlobalKTable) -> wm.KStream:
    """Key: customer, value: the cart; of customers the city, of offers the text of each city."""
    due = wm.ValueStore("due", "long")
    return carts.process_values(Remind, value="string", stores=[due], tables={"customers": customers, "offers": offers})


class Report:
    """Sends every ten seconds, by the wall clock, what each key has counted since."""

    EVERY = 10_000

    def init(self, context: Any) -> None:
        self.count = context.get_store("count")

    def process(self, record: Any, context: Any) -> None:
        if self.count.get() is None:
            context.set_timer(context.wall_clock + self.EVERY, clock="wall")
        self.count.put((self.count.get() or 0) + 1)

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value=self.count.get())
        self.count.delete()


def report(clicks: wm.KStream) -> wm.KStream:
    """Key: page, value: any."""
    return clicks.process_values(Report, value="long", stores=[wm.ValueStore("count", "long")])


class RunningTotals:
    """The running total of each key, for all records of a batch at once."""

    def process_batch(self, records: pa.Table, states: Any) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        group, amount = records["group"].to_numpy(), records["value"].to_numpy()
        kept = states["total"].rows()
        before = np.zeros(group[-1] + 1, dtype=np.int64)
        before[kept["group"].to_numpy()] = kept["value"].to_numpy()
        sums = np.cumsum(amount)
        first = np.searchsorted(group, np.arange(len(before)))
        totals = sums - (sums - amount)[first][group] + before[group]
        last = np.append(first[1:], len(group)) - 1
        states["total"].put(pa.table({"group": group[last], "value": totals[last]}))
        return pa.table({"record": np.arange(len(group)), "value": totals})


def running_totals(payments: wm.KStream) -> wm.KStream:
    """Key: account, value: an amount."""
    return payments.process_values(RunningTotals, value="long", stores=[wm.ValueStore("total", "long")])
