"""Normalise e-mail addresses with a plain Python function, and leave out what is none.

Kafka's MapFunction example, with a function of Python's instead of a Column.
"""

from email.utils import parseaddr

import watersmeet as wm


def normalised(text: str) -> str | None:
    """The address alone, in small letters; None if there is none."""
    address = parseaddr(text)[1].lower()
    return address if "@" in address else None


def topology() -> wm.Topology:
    """Any function of Python's may stand where a function of Columns may."""
    builder = wm.StreamsBuilder("emails-normalised")
    signups = builder.stream("signups", key="long", value="string")
    signups.map_values(wm.python(normalised, "string")).filter(lambda email: email.isNotNull()).to("addresses")
    return builder.build()


INPUTS = [
    ("signups", 1, "Ann Ode <Ann@Example.org>", 0),
    ("signups", 2, "nobody", 1),
    ("signups", 3, "bob@example.org", 2),
]
EXPECTED = {"addresses": [(1, "ann@example.org", 0), (3, "bob@example.org", 2)]}
