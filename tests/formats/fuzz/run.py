"""Fuzzes decoders in a process of its own: `python -m tests.formats.fuzz.run --subject avro --seed 1 --cases 100`.

Each case is a batch of good, broken and hostile bytes in an order by chance. It has to hold that
(a) the process lives, (b) each bad record has a reason and each good one its value, whatever stands beside it, (c) time
and memory of a record are bounded, (d) nothing but the registry is spoken to. What is asked for last stands in the
output first, so that whoever ran this knows the case at which it died.
"""

from __future__ import annotations

import argparse
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa

from tests.formats.fuzz import limits, registered
from tests.formats.fuzz.draws import SUBJECTS, Draw, Subject, varint
from watersmeet._worker.formats import guard

SECONDS = 5.0
"""Of one record, on a busy machine; all of them take some ms."""
GROWTH = 1 << 29
"""Bytes by which one case may grow the process."""
MEMORY = 4 << 30
_SPLICES = [
    b"\0",
    b"\xff",
    b"\x80" * 9 + b"\1",
    varint(1 << 62),
    b"[" * 300,
    b'{"a":' * 300,
    b"\2\2" * 600,
    b"\x0b" * 200,
]


DRAWN = SUBJECTS | {"limits": limits.subject}


def broken(draw: Draw, raw: bytes, others: list[bytes]) -> bytes:
    """Bytes like these with something changed."""
    at, end = sorted(draw.randrange(len(raw) + 1) for _ in range(2))
    pick = draw.randrange(7)
    if pick == 0:
        return raw[:at]
    if pick == 1 and raw:
        flipped = bytearray(raw)
        flipped[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        return bytes(flipped)
    if pick == 2:
        return raw[:at] + raw[end:]
    if pick == 3:
        return raw[:end] + raw[at:end] * draw.choice([1, 3, 100]) + raw[end:]
    if pick == 4:
        return raw[:at] + draw.choice(_SPLICES) + raw[at:]
    if pick == 5:
        other = draw.choice(others)
        return raw[:at] + other[draw.randrange(len(other) + 1) :]
    return raw[:at] + draw.randbytes(draw.randrange(1, 9)) + raw[end:]


def case(draw: Draw, subject: Subject, counts: Counter[str]) -> None:
    """One batch; AssertionError where something does not hold."""
    made: list[tuple[bytes, int | None]] = [(raw, n) for n, raw in enumerate(subject.good)]
    bytes_ = [*subject.good, *subject.hostile, b""]
    made += [(raw, None) for raw in subject.bad]
    made += [(raw, None) for raw in draw.sample(subject.hostile, min(len(subject.hostile), 12))]
    made += [(broken(draw, draw.choice(bytes_), bytes_), None) for _ in range(16)]
    draw.shuffle(made)
    raws: list[bytes | None] = [raw for raw, _ in made]
    alone = [_timed(subject, raw) for raw in raws]
    raws.insert(draw.randrange(len(raws) + 1), None)
    found = guard.read_guard(subject.serde, pa.array(raws, pa.binary()))
    there = [at for at, raw in enumerate(raws) if raw is not None]
    for at, (raw, good), one in zip(there, made, alone, strict=True):
        counts["records"] += 1
        assert bool(found.bad[at]) == bool(one.bad[0]), ("bad in one batch and not alone, or otherwise", raw)
        assert _same(found.values[at : at + 1], one.values), ("another value than alone", raw)
        if found.bad[at]:
            counts["bad"] += 1
            assert not found.values[at].is_valid, ("a bad record has a value", raw)
            why = guard.fault_guard(subject.serde, raw)
            assert why, ("no reason", raw)
            counts["by the net"] += "its decoder fails" in why
            assert good is None, ("good and refused", raw, why)
        else:
            assert raw not in subject.bad, ("bad and read", raw)
        if good is not None and subject.values is not None:
            assert _same(found.values[at : at + 1], subject.values[good : good + 1]), ("another value", raw)


def _same(one: pa.Array, other: pa.Array) -> bool:
    # as text NaN is itself, and any time can be shown
    return one.equals(other) or one.to_string(window=1_000) == other.cast(one.type).to_string(window=1_000)


def _timed(subject: Subject, raw: bytes) -> Any:
    start = time.process_time()
    found = guard.read_guard(subject.serde, pa.array([raw], pa.binary()))
    took = time.process_time() - start
    assert took < SECONDS, (f"{took:.1f} s for one record", raw[:200])
    return found


@contextmanager
def nothing_but(port: int | None) -> Iterator[list[Any]]:
    """Connections to any other place are refused and noted."""
    real, tried = socket.socket.connect, []

    def connect(self: socket.socket, address: Any) -> None:
        if port is None or address[:2] != ("127.0.0.1", port):
            tried.append(address)
            raise OSError(f"the fuzzer connects to nothing: {address}")
        real(self, address)

    socket.socket.connect = connect  # type: ignore[assignment,method-assign]
    try:
        yield tried
    finally:
        socket.socket.connect = real  # type: ignore[method-assign]


def run(name: str, seed: int, cases: int) -> Counter[str]:
    """So many cases of a subject; what there was, counted."""
    counts: Counter[str] = Counter()
    with registered.registry() if name == "registered" else nullcontext(None) as served:
        port = None if served is None else int(served[0].url.rpartition(":")[2])
        draw_subject: Callable[[Draw], Subject] = (
            DRAWN[name] if served is None else lambda draw: registered.subject(draw, *served)
        )
        with nothing_but(port) as tried:
            for number in range(cases):
                print(f"case {name} {seed} {number}", flush=True)
                draw = Draw(f"{name} {seed} {number}")
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                case(draw, draw_subject(draw), counts)
                grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
                assert grown < GROWTH, f"{grown >> 20} MB more after case {number}"
                assert not tried, tried
                counts["cases"] += 1
    return counts


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subject", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=20)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    counts = run(given.subject, given.seed, given.cases)
    print("done", given.subject, dict(sorted(counts.items())), flush=True)


if __name__ == "__main__":
    main()
