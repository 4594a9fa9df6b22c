"""Let through at most three requests of each client in ten seconds, and tell the others when to try again.

A rate limiter with a bucket of tokens, a program that many write with a state store of Kafka Streams.
"""

from typing import Any

import watersmeet as wm

SECOND = 1_000
BUCKET, REFILL = 3, 10 * SECOND


class Limit:
    """When the last requests were let through, for as long as they count."""

    def init(self, context: Any) -> None:
        self.passed = context.get_store("passed")

    def process(self, record: Any, context: Any) -> None:
        times = [time for time in self.passed.get() if time > record.timestamp - REFILL]
        if len(times) < BUCKET:
            self.passed.put([*times, record.timestamp])
            context.forward(value={"request": record.value, "allowed": True, "again_at": None})
        else:
            context.forward(value={"request": record.value, "allowed": False, "again_at": min(times) + REFILL})


def topology() -> wm.Topology:
    """Requests in, answers out."""
    builder = wm.StreamsBuilder("requests-within-a-rate")
    requests = builder.stream("requests", key="string", value="string")
    answers = requests.process_values(
        Limit,
        value="struct<request: string, allowed: boolean, again_at: long>",
        stores=[wm.ListStore("passed", "long", ttl="10 seconds")],
    )
    answers.to("answers", value=wm.json())
    return builder.build()


INPUTS = [
    ("requests", "c", "r1", 0),
    ("requests", "c", "r2", 1 * SECOND),
    ("requests", "c", "r3", 2 * SECOND),
    ("requests", "c", "r4", 3 * SECOND),
    ("requests", "d", "r5", 4 * SECOND),
    ("requests", "c", "r6", 10 * SECOND),
]


def _answer(request: str, again_at: int | None = None) -> dict[str, object]:
    return {"request": request, "allowed": again_at is None, "again_at": again_at}


EXPECTED = {
    "answers": [
        ("c", _answer("r1"), 0),
        ("c", _answer("r2"), 1 * SECOND),
        ("c", _answer("r3"), 2 * SECOND),
        ("c", _answer("r4", 10 * SECOND), 3 * SECOND),
        ("d", _answer("r5"), 4 * SECOND),
        ("c", _answer("r6"), 10 * SECOND),
    ]
}
