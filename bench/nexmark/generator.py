"""NEXMark's events, the same for ever: each is drawn from the number of its generator and its own id.

Written anew from the rules of nexmark/nexmark (Flink's) as they are told in words: of 50 ids one is a person, three are
auctions, 46 are bids; half of the bids go to a hot auction, three of four come from a hot bidder. What differs: draws
follow from (generator, id), and letters are taken from one long text, so that millions of events are made in numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BASE_MS = 1_436_918_400_000
"""2015-07-15T00:00:00Z, where event time begins."""
EPOCH_IDS, PERSONS, AUCTIONS = 50, 1, 3
"""Of so many ids in a row the first is a person, the next three are auctions, the others are bids."""
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1_000, 10, 5
HOT_EVERY, ACTIVE_PEOPLE, IN_FLIGHT, LEADS = 100, 1_000, 100, 10
HORIZON_EVENTS = IN_FLIGHT * EPOCH_IDS // AUCTIONS
PERSON, AUCTION, BID = 0, 1, 2
"""`event_type` of an event."""
_FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000
_POOL_BYTES = 1 << 20
Numbers = np.ndarray[Any, np.dtype[Any]]
_UINT = np.uint64
Ids = Numbers


@dataclass(frozen=True)
class Shape:
    """What is generated.

    Parameters
    ----------
    events : of all generators together.
    generators : with ids of their own and one time: as many as the topic has partitions.
    rate : events a second of event time.
    """

    events: int
    generators: int = 4
    rate: int = 100_000

    @property
    def each(self) -> int:
        """Events of one generator."""
        return self.events // self.generators


@dataclass(frozen=True)
class Events:
    """Events of one generator, in order.

    Parameters
    ----------
    ts : event times, ms.
    kinds : `PERSON`, `AUCTION` or `BID`.
    values : each event as a JSON text: event_type, person, auction and bid, of which two are null.
    """

    ts: Numbers
    kinds: Numbers
    values: pa.Array


def events(shape: Shape, generator: int, first: int, count: int) -> Events:
    """So many events of a generator, from its `first` on (0, 1, ...)."""
    draw = _Draws(shape, generator, np.arange(first, first + count, dtype=np.int64))
    turn = draw.ids % EPOCH_IDS
    kinds = np.where(turn < PERSONS, PERSON, np.where(turn < PERSONS + AUCTIONS, AUCTION, BID))
    texts = [_person_texts, _auction_texts, _bid_texts]
    made = [make(draw.only(kinds == kind)) for kind, make in enumerate(texts)]
    # each kind's events, put back where they stand among all
    order = np.argsort(np.concatenate([np.flatnonzero(kinds == kind) for kind in range(len(texts))]))
    return Events(draw.ts, kinds, pa.concat_arrays(made).take(pa.array(order)))


class _Draws:
    """The ids of some events of one generator, and what is drawn for each."""

    def __init__(self, shape: Shape, generator: int, numbers: Numbers) -> None:
        self._shape, self._generator = shape, generator
        self.numbers = numbers + 1
        self.ids: Ids = 1 + generator * shape.each + self.numbers
        self.ts = self.time(self.numbers)
        # the salts of the draws, in the order in which they are asked for
        self._salt = 0

    def only(self, member: Numbers) -> _Draws:
        """The same for some of the events."""
        return _Draws(self._shape, self._generator, self.numbers[member] - 1)

    def time(self, numbers: Numbers) -> Numbers:
        """Event times in ms of the generator's events of these numbers, from 1 on."""
        apart = 1_000_000 * self._shape.generators / self._shape.rate
        return BASE_MS + np.trunc(numbers * apart).astype(np.int64) // 1_000

    def bits(self) -> Numbers:
        """64 random bits for each event, others at each call."""
        self._salt += 1
        seed = np.array(self._generator * 1_000 + self._salt, dtype=_UINT)
        return _mixed(self.ids.astype(_UINT) * _UINT(0x9E3779B97F4A7C15) + _mixed(seed))

    def share(self) -> Numbers:
        """Uniform in [0, 1)."""
        return (self.bits() >> _UINT(11)).astype(np.float64) / float(1 << 53)

    def below(self, ends: Numbers | int) -> Numbers:
        """Uniform whole numbers from 0 on, below these."""
        return np.floor(self.share() * ends).astype(np.int64)

    def text(self, longest: int) -> pa.Array:
        """Texts of letters and blanks, of 3 to `longest` - 1 signs, without a blank at either end."""
        return pc.utf8_trim_whitespace(_slices(_BLANKED, self.below(_POOL_BYTES - 1_024), 3 + self.below(longest - 3)))

    def random_texts(self, lengths: Numbers) -> pa.Array:
        """Texts of letters."""
        return _slices(_LETTERS, self.below(_POOL_BYTES - 1_024), lengths)

    def one_of(self, among: list[str] | tuple[str, ...]) -> pa.Array:
        """One of some texts."""
        return pa.array(among).take(pa.array(self.below(len(among))))

    def price(self) -> Numbers:
        """Between 100 and 100,000,000, as often below each power of ten as above."""
        return np.round(10 ** (6 * self.share()) * 100).astype(np.int64)

    def extra(self, sizes: Numbers, average: int) -> pa.Array:
        """What fills events of these sizes up to about an average one."""
        room = np.maximum(average - sizes, 0)
        least = (room * 0.8).astype(np.int64)
        return self.random_texts(least + self.below((room * 1.2).astype(np.int64) - least + 1))

    def person(self) -> Numbers:
        """A person that is active now, or soon will be there."""
        people = self.ids // EPOCH_IDS + 1
        active = np.minimum(people, ACTIVE_PEOPLE)
        return np.asarray(people - active + self.below(active + LEADS))

    def auction(self) -> Numbers:
        """An auction that is open now, or soon will be there."""
        last = _last_auction(self.ids)
        oldest = np.maximum(last - IN_FLIGHT, 0)
        return np.asarray(oldest + self.below(last - oldest + 1 + LEADS))

    def hot(self, ratio: int, hot: Numbers, other: Numbers) -> Numbers:
        """The hot one, but for one of `ratio` events."""
        return np.where(self.below(ratio) > 0, hot, other)


def _last_auction(ids: Ids) -> Numbers:
    epoch, turn = np.divmod(ids, EPOCH_IDS)
    inside = np.where(turn < PERSONS, -1, np.minimum(turn - PERSONS, AUCTIONS - 1))
    return epoch * AUCTIONS + inside


def _person_texts(draw: _Draws) -> pa.Array:
    name = pc.binary_join_element_wise(draw.one_of(_FIRST_NAMES), draw.one_of(_LAST_NAMES), " ")
    mail = pc.binary_join_element_wise(draw.text(7), "@", draw.text(5), ".com", "")
    card = pc.binary_join_element_wise(*[_digits(draw.below(10_000), 4) for _ in range(4)], " ")
    city, state = draw.one_of(_CITIES), draw.one_of(_STATES)
    size = 8 + sum(pc.binary_length(text).to_numpy() for text in (name, mail, card, city, state))
    fields = {
        "id": _number(draw.ids // EPOCH_IDS + FIRST_ID),
        "name": _quoted(name),
        "emailAddress": _quoted(mail),
        "creditCard": _quoted(card),
        "city": _quoted(city),
        "state": _quoted(state),
        "dateTime": _time(draw.ts),
        "extra": _quoted(draw.extra(size, 200)),
    }
    return _event(PERSON, _object(fields), len(draw.ids))


def _auction_texts(draw: _Draws) -> pa.Array:
    item, told = draw.text(20), draw.text(100)
    first = draw.price()
    people = draw.ids // EPOCH_IDS
    seller = draw.hot(4, people // HOT_EVERY * HOT_EVERY, draw.person())
    horizon = draw.time(draw.numbers + HORIZON_EVENTS) - draw.ts
    size = 48 + pc.binary_length(item).to_numpy() + pc.binary_length(told).to_numpy()
    fields = {
        "id": _number(_last_auction(draw.ids) + FIRST_ID),
        "itemName": _quoted(item),
        "description": _quoted(told),
        "initialBid": _number(first),
        "reserve": _number(first + draw.price()),
        "dateTime": _time(draw.ts),
        "expires": _time(draw.ts + 1 + draw.below(np.maximum(2 * horizon, 1))),
        "seller": _number(seller + FIRST_ID),
        "category": _number(FIRST_CATEGORY + draw.below(CATEGORIES)),
        "extra": _quoted(draw.extra(size, 500)),
    }
    return _event(AUCTION, _object(fields), len(draw.ids))


def _bid_texts(draw: _Draws) -> pa.Array:
    auction = draw.hot(2, _last_auction(draw.ids) // HOT_EVERY * HOT_EVERY, draw.auction())
    people = draw.ids // EPOCH_IDS
    bidder = draw.hot(4, people // HOT_EVERY * HOT_EVERY + 1, draw.person())
    number, hot = draw.below(_CHANNELS), draw.below(2) == 1
    channel = pc.if_else(pa.array(hot), draw.one_of(_HOT_CHANNELS), _text("channel-", number))
    fields = {
        "auction": _number(auction + FIRST_ID),
        # twice, as in nexmark/nexmark: a bidder is no person of that id
        "bidder": _number(bidder + 2 * FIRST_ID),
        "price": _number(draw.price()),
        "channel": _quoted(channel),
        "url": _quoted(_urls(channel, number)),
        "dateTime": _time(draw.ts),
        "extra": _quoted(draw.extra(np.full(len(draw.ids), 32), 100)),
    }
    return _event(BID, _object(fields), len(draw.ids))


def _urls(channel: pa.Array, number: Numbers) -> pa.Array:
    seeds = [_mixed(number.astype(_UINT) + _UINT(each)) % _POOL_ROOM for each in (1, 2, 3)]
    parts = [_slices(_SCORED, seed, 3 + number % 2) for seed in seeds]
    ids = _text("&channel_id=", number * 2_654_435_761 % (1 << 31))
    ending = pc.if_else(pa.array(number % 10 > 0), ids, "")
    hot = pc.is_in(channel, pa.array(_HOT_CHANNELS))
    path = pc.binary_join_element_wise(*parts, "/")
    path = pc.if_else(hot, pc.binary_join_element_wise("a", channel, "c", "/"), path)
    start = "https://www.nexmark.com/"
    return pc.binary_join_element_wise(start, path, "/item.htm?query=1", pc.if_else(hot, "", ending), "")


# -- JSON ------------------------------------------------------------------------------------------------------


def _event(kind: int, content: pa.Array, count: int) -> pa.Array:
    before = f'{{"event_type":{kind},'
    for name, place in (("person", PERSON), ("auction", AUCTION)):
        before += f'"{name}":' + ("\0" if place == kind else "null") + ","
    before += '"bid":' + ("\0" if kind == BID else "null") + "}"
    head, _, tail = before.partition("\0")
    return pc.binary_join_element_wise(head, content, tail, "") if count else pa.array([], pa.string())


def _object(fields: dict[str, pa.Array]) -> pa.Array:
    pieces = []
    for number, (name, value) in enumerate(fields.items()):
        pieces += [f'{"," if number else "{"}"{name}":', value]
    return pc.binary_join_element_wise(*pieces, "}", "")


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _number(numbers: Numbers) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _digits(numbers: Numbers, width: int) -> pa.Array:
    return pc.utf8_lpad(_number(numbers), width, "0")


def _text(start: str, numbers: Numbers) -> pa.Array:
    return pc.binary_join_element_wise(start, _number(numbers), "")


def _time(ms: Numbers) -> pa.Array:
    """As Flink writes a TIMESTAMP(3)."""
    return _quoted(pc.strftime(pa.array(ms, pa.timestamp("ms")), format="%Y-%m-%d %H:%M:%S"))


# -- random letters --------------------------------------------------------------------------------------------


def _mixed(bits: Numbers) -> Numbers:
    """Each bit of what comes in changes half of those that come out (the end of SplitMix64)."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> _UINT(30))) * _UINT(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> _UINT(27))) * _UINT(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> _UINT(31)))


def _slices(pool: Numbers, starts: Numbers, lengths: Numbers) -> pa.Array:
    """Texts of these lengths out of a pool of letters."""
    ends = np.cumsum(lengths)
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    places = np.repeat(starts.astype(np.int64) - (ends - lengths), lengths) + np.arange(offsets[-1])
    content = pool[places]
    return pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def _pool(special: str) -> Numbers:
    bits = _mixed(np.arange(_POOL_BYTES, dtype=_UINT) * _UINT(0x9E3779B97F4A7C15) + _UINT(ord(special)))
    letters = (bits % _UINT(26)).astype(np.uint8) + ord("a")
    return np.where((bits >> _UINT(32)) % _UINT(13) == 0, np.uint8(ord(special)), letters).astype(np.uint8)


_BLANKED, _SCORED = _pool(" "), _pool("_")
_LETTERS = np.where(ord(" ") == _BLANKED, np.uint8(ord("a")), _BLANKED)
_POOL_ROOM = _UINT(_POOL_BYTES - 1_024)
