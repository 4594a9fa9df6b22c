"""Workloads as users have them: values are JSON of several fields, functions do more than put texts together.

`orders` joins two tables that keep changing, `enrich` gives each click what two tables know of it. Beside each stands
the plain workload of the same shape, whose values are texts of about the same length: what JSON and the functions
cost is the ratio of watersmeet's own rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.workloads.datasets import EPOCH, Shape, key_of, values
from bench.workloads.datasets import prepared as prepared_tables
from bench.workloads.readings import of_json
from bench.workloads.workload import RECORDS_PER_MS, ROUNDS, Data, Piece, Topics, Workload, spread, written

ORDER = "customer string, item string, quantity int, amount double, express boolean"
PAYMENT = "paid double, method string, reference string"
CLICK = "page long, url string, ms int"
USER = "name string, country string, since int"
PAGE = "title string, section string"
PAGE_DIGITS = 8
"""Of a click's text, where values are texts: the number of its page."""
_VERSION = 1
_ENRICH = ("clicks", "users", "pages")
_METHODS = pa.array(["card", "transfer", "invoice", "voucher"])
_COUNTRIES = pa.array(["DE", "FR", "PL", "BR", "IN", "US", "JP", "KE"])


# -- data ------------------------------------------------------------------------------------------------------


def orders_data(root: Path, shape: Shape) -> Data:
    """Orders and payments: each side is filled in random order, then updated at random."""
    folder = root / "data" / f"orders-{shape.name}-{_VERSION}"
    return written(folder, _order_pieces(shape), f"{shape.keys:,} orders, as many payments")


def _order_pieces(shape: Shape) -> Iterator[Mapping[str, Piece]]:
    rng = np.random.default_rng([_VERSION, shape.keys])
    filled = [rng.permutation(shape.keys) for _ in range(2)]
    picks = [[side[at : at + shape.fill] for side in filled] for at in range(0, shape.keys, shape.fill)]
    picks += [[rng.integers(0, shape.keys, shape.rows) for _ in filled] for _ in range(shape.updates)]
    at = EPOCH
    for left, right in picks:
        span = len(left) // RECORDS_PER_MS
        ts = at + spread(len(left), span)
        yield {
            "left": (key_of(left), _orders(len(left), rng), ts),
            "right": (key_of(right), _payments(len(right), rng), ts),
        }
        at += span


def _orders(count: int, rng: np.random.Generator) -> pa.Array:
    return _object(
        customer=_text("customer ", rng.integers(0, 200_000, count)),
        item=_text("item ", rng.integers(0, 10_000, count)),
        quantity=_number(rng.integers(1, 10, count)),
        amount=_money(rng.integers(100, 50_000, count)),
        express=_choice(pa.array(["true", "false"]), count, rng),
    )


def _payments(count: int, rng: np.random.Generator) -> pa.Array:
    return _object(
        paid=_money(rng.integers(0, 60_000, count)),
        method=_quoted(_choice(_METHODS, count, rng)),
        reference=_text("RF18 5390 0754 7034 ", rng.integers(0, 10_000_000, count)),
    )


def enrich_data(root: Path, users: int, pages: int, clicks: int, *, plain: bool = False) -> Data:
    """Users and pages, which are all there before the first click; then the clicks."""
    folder = root / "data" / f"enrich-{'plain-' if plain else ''}{users}-{pages}-{clicks}-{_VERSION}"
    shown = f"{clicks:,} clicks, {users:,} users, {pages:,} pages"
    return written(folder, _enrich_pieces(users, pages, clicks, plain=plain), shown, _ENRICH)


def _enrich_pieces(users: int, pages: int, clicks: int, *, plain: bool) -> Iterator[Mapping[str, Piece]]:
    rng, first, files = np.random.default_rng([_VERSION, users, clicks]), 4, 4 * (ROUNDS - 1)
    parts = zip(
        np.array_split(rng.permutation(users), first), np.array_split(rng.permutation(pages), first), strict=True
    )
    for number, (own, others) in enumerate(parts):
        at = EPOCH + 1_000 * number
        one, other = (values(len(n), rng) for n in (own, others)) if plain else (_users(own, rng), _pages(others, rng))
        yield {
            "users": (key_of(own), one, at + spread(len(own), 1_000)),
            "pages": (others if plain else key_of(others), other, at + spread(len(others), 1_000)),
        }
    for number in range(files):
        each, span = clicks // files, clicks // files // RECORDS_PER_MS
        # some users and pages are not known
        own, others = rng.integers(0, users * 21 // 20, each), rng.integers(0, pages * 21 // 20, each)
        made = _plain_clicks(others, rng) if plain else _clicks(others, rng)
        yield {"clicks": (key_of(own), made, EPOCH + 5_000 + number * span + spread(each, span))}


def _clicks(pages: np.ndarray, rng: np.random.Generator) -> pa.Array:
    return _object(
        page=_number(key_of(pages)),
        url=_text("https://example.org/section/page?from=mail&n=", rng.integers(0, 1_000_000, len(pages))),
        ms=_number(rng.integers(0, 60_000, len(pages))),
    )


def _plain_clicks(pages: np.ndarray, rng: np.random.Generator) -> pa.Array:
    digits = pc.utf8_lpad(_number(pages), PAGE_DIGITS, "0")
    return pc.binary_join_element_wise(digits, pc.utf8_slice_codeunits(values(len(pages), rng), PAGE_DIGITS), "")


def _users(numbers: np.ndarray, rng: np.random.Generator) -> pa.Array:
    return _object(
        name=_text("Zoë Zabel ", numbers),
        country=_quoted(_choice(_COUNTRIES, len(numbers), rng)),
        since=_number(rng.integers(1990, 2026, len(numbers))),
    )


def _pages(numbers: np.ndarray, rng: np.random.Generator) -> pa.Array:
    return _object(title=_text("How to do things, part ", numbers), section=_text("section ", numbers % 50))


def _object(**members: pa.Array) -> pa.Array:
    """JSON objects of these texts."""
    pieces: list[Any] = []
    for name, texts in members.items():
        pieces += [pa.scalar(f'{"," if pieces else "{"}"{name}":'), texts]
    return pc.binary_join_element_wise(*pieces, pa.scalar("}"), "")


def _number(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _money(cents: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(_number(cents // 100), pc.utf8_lpad(_number(cents % 100), 2, "0"), ".")


def _text(before: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(f'"{before}'), _number(numbers), pa.scalar('"'), "")


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar('"'), texts, pa.scalar('"'), "")


def _choice(among: pa.Array, count: int, rng: np.random.Generator) -> pa.Array:
    return among.take(pa.array(rng.integers(0, len(among), count)))


# -- topologies ------------------------------------------------------------------------------------------------


def open_orders(builder: Any, topics: Topics) -> Any:
    """What is still to be paid of each order, while there is something."""
    import watersmeet as wm

    left, right = topics
    orders = builder.table(left, key="long", value=wm.json(ORDER))
    payments = builder.table(right, key="long", value=wm.json(PAYMENT))
    return orders.left_join(payments, _open_order).filter(lambda order: order["open"] > 0)


def _open_order(order: Any, payment: Any) -> Any:
    from pyspark.sql import functions as F

    rest = order["amount"] - F.coalesce(payment["paid"], F.lit(0.0))
    return F.struct(order["customer"], order["item"], order["quantity"], rest.alias("open"), payment["method"])


def plain_orders(builder: Any, topics: Topics) -> Any:
    """The same join of texts."""
    from pyspark.sql import functions as F

    left, right = (builder.table(topic, key="long", value="string") for topic in topics)
    return left.left_join(right, F.concat)


def known_clicks(builder: Any, topics: Topics) -> Any:
    """Each click with its user, then, by its page, with the page."""
    import watersmeet as wm

    clicks, users, pages = topics
    stream = builder.stream(clicks, key="long", value=wm.json(CLICK))
    by_user = stream.join(builder.table(users, key="long", value=wm.json(USER)), _with_user)
    by_page = by_user.select_key(lambda click: click["page"])
    return by_page.join(builder.table(pages, key="long", value=wm.json(PAGE)), _with_page)


def _with_user(click: Any, user: Any) -> Any:
    from pyspark.sql import functions as F

    return F.struct(click["page"], click["url"], click["ms"], user["name"], user["country"])


def _with_page(click: Any, page: Any) -> Any:
    from pyspark.sql import functions as F

    names = ("url", "ms", "name", "country")
    return F.struct(*[click[name].alias(name) for name in names], page["title"], page["section"])


def plain_clicks(builder: Any, topics: Topics) -> Any:
    """The same joins of texts."""
    from pyspark.sql import functions as F

    clicks, users, pages = topics
    stream = builder.stream(clicks, key="long", value="string")
    by_user = stream.join(builder.table(users, key="long", value="string"), F.concat)
    by_page = by_user.select_key(lambda value: value.substr(1, PAGE_DIGITS).cast("long"))
    return by_page.join(builder.table(pages, key="long", value="string"), F.concat)


def _orders_shape(quick: bool) -> Shape:
    return Shape(20_000, 10_000, 2, 10_000) if quick else Shape(1_000_000, 125_000, 8, 125_000)


def _plain_orders_data(root: Path, quick: bool) -> Data:
    shape = _orders_shape(quick)
    return Data(prepared_tables(root, shape), shape.records, f"{shape.keys:,} keys per side")


def _enrich_data(root: Path, quick: bool, *, plain: bool = False) -> Data:
    return enrich_data(root, *((20_000, 2_000, 60_000) if quick else (1_000_000, 100_000, 3_000_000)), plain=plain)


WORKLOADS = {
    "orders": Workload(
        lambda root, quick: orders_data(root, _orders_shape(quick)),
        open_orders,
        "table",
        values_as=of_json,
        cached=True,
        plain="orders_plain",
    ),
    "enrich": Workload(
        _enrich_data, known_clicks, "records", _ENRICH, values_as=of_json, parted=True, plain="enrich_plain"
    ),
}
PLAIN = {
    "orders_plain": Workload(_plain_orders_data, plain_orders, "table"),
    "enrich_plain": Workload(
        lambda root, quick: _enrich_data(root, quick, plain=True), plain_clicks, "records", _ENRICH, parted=True
    ),
}
