"""Seven processors as programs have them: what is not a join, a table or an aggregate by window.

The page docs/processors.md shows three of them; each is a class and the stream that it is put into.
"""

from __future__ import annotations

from typing import Any

import watersmeet as wm


class Dedup:
    """Sends each order once in ten minutes, however often it comes."""

    def init(self, context: Any) -> None:
        self.seen = context.get_store("seen")

    def process(self, record: Any, context: Any) -> None:
        if self.seen.get(record.value) is None:
            self.seen.put(record.value, True)
            context.forward(record)


def dedup(orders: wm.KStream) -> wm.KStream:
    """Key: customer, value: number of the order."""
    return orders.process_values(
        Dedup, value="string", stores=[wm.MapStore("seen", "string", "boolean", ttl="10 minutes")]
    )


class Reorder:
    """Sends records in the order of their timestamps, ten seconds later."""

    WAIT = 10_000

    def init(self, context: Any) -> None:
        self.waiting = context.get_store("waiting")

    def process(self, record: Any, context: Any) -> None:
        place = f"{record.timestamp:016} {record.partition:06} {record.offset:019}"
        self.waiting.put(place, {"value": record.value, "at": record.timestamp})
        context.set_timer(record.timestamp + self.WAIT)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        for place, held in self.waiting.range(to_key=f"{timestamp - self.WAIT + 1:016}"):
            self.waiting.delete(place)
            context.forward(value=held["value"], timestamp=held["at"])


def reorder(readings: wm.KStream) -> wm.KStream:
    """Key: sensor, value: what it reads."""
    waiting = wm.MapStore("waiting", "string", "value string, at long")
    return readings.process_values(Reorder, value="string", stores=[waiting])


class Expire:
    """Deletes a row an hour after its last change."""

    def init(self, context: Any) -> None:
        self.due = context.get_store("due")

    def process(self, record: Any, context: Any) -> None:
        if self.due.get() is not None:
            context.delete_timer(self.due.get())
        self.due.put(record.timestamp + 3_600_000)
        context.set_timer(record.timestamp + 3_600_000)
        context.forward(record)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self.due.delete()
        context.forward(value=None)


def expire(carts: wm.KStream) -> wm.KTable:
    """Key: customer, value: the cart."""
    return carts.process_values(Expire, value="string", stores=[wm.ValueStore("due", "long")]).to_table(store="carts")


class Totals:
    """Adds amounts up, and sends a total every ten seconds in which there was something to add."""

    EVERY = 10_000

    def init(self, context: Any) -> None:
        self.total = context.get_store("total")

    def process(self, record: Any, context: Any) -> None:
        self.total.put((self.total.get() or 0) + record.value)
        # a key has one timer of each moment: that of the next tick
        context.set_timer((record.timestamp // self.EVERY + 1) * self.EVERY)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value=self.total.get())


def totals(payments: wm.KStream) -> wm.KStream:
    """Key: account, value: an amount."""
    return payments.process_values(Totals, value="long", stores=[wm.ValueStore("total", "long")])


class Quiet:
    """Tells of each machine that has said nothing for a minute, and that it is back."""

    def init(self, context: Any) -> None:
        self.due, self.told = context.get_store("due at"), context.get_store("told")

    def process(self, record: Any, context: Any) -> None:
        if self.due.get() is not None:
            context.delete_timer(self.due.get())
        self.due.put(record.timestamp + 60_000)
        context.set_timer(record.timestamp + 60_000)
        if self.told.get():
            self.told.delete()
            context.forward(value="back")

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self.told.put(True)
        context.forward(value="quiet")


def quiet(beats: wm.KStream) -> wm.KStream:
    """Key: machine, value: whatever it says."""
    stores = [wm.ValueStore("due at", "long"), wm.ValueStore("told", "boolean")]
    return beats.process_values(Quiet, value="string", stores=stores)


class Limit:
    """Lets three requests of a user pass in any second; says of the others that they were refused."""

    def init(self, context: Any) -> None:
        self.passed = context.get_store("passed")

    def process(self, record: Any, context: Any) -> None:
        if len(self.passed.get()) < 3:
            self.passed.append(record.timestamp)
            context.forward(record)
        else:
            context.forward(value=f"refused {record.value}")


def limit(requests: wm.KStream) -> wm.KStream:
    """Key: user, value: the request."""
    return requests.process_values(Limit, value="string", stores=[wm.ListStore("passed", "long", ttl="1 second")])


class Settle:
    """Joins an order with its payments, in whatever order they come, and sends what is open when that is nothing."""

    def init(self, context: Any) -> None:
        self.open = context.get_store("open")

    def process(self, record: Any, context: Any) -> None:
        kind, amount = record.value["kind"], record.value["amount"]
        known = self.open.get() or {"ordered": None, "paid": 0}
        if kind == "order":
            known["ordered"] = amount
        else:
            known["paid"] += amount
        if known["ordered"] is not None and known["paid"] >= known["ordered"]:
            self.open.delete()
            context.forward(key=f"settled {record.key}", value=known["paid"] - known["ordered"])
        else:
            self.open.put(known)


def settle(orders: wm.KStream, payments: wm.KStream) -> wm.KStream:
    """Key of both: number of the order, value: a kind and an amount."""
    open_ = wm.ValueStore("open", "ordered long, paid long")
    return orders.merge(payments).process(Settle, key="string", value="long", stores=[open_])
