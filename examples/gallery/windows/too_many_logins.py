"""Flag users with more than two attempts to log in within a minute.

Confluent's AnomalyDetectionLambdaExample; the tutorial "How to detect anomalies in a stream".
"""

import watersmeet as wm

SECOND = 1_000


def topology() -> wm.Topology:
    """Counts by user and minute; those beyond the limit, by user."""
    builder = wm.StreamsBuilder("too-many-logins")
    attempts = builder.stream("logins", key="string", value="string")
    windows = wm.TimeWindows.of_size_with_no_grace("1 minute")
    counts = attempts.group_by(lambda user: user).windowed_by(windows).count()
    anomalies = counts.filter(lambda n: n > 2)
    anomalies.to_stream(key="key").filter(lambda n: n.isNotNull()).to("anomalous-users")
    return builder.build()


INPUTS = [
    ("logins", None, "ann", 0),
    ("logins", None, "bob", 1 * SECOND),
    ("logins", None, "ann", 20 * SECOND),
    ("logins", None, "ann", 59 * SECOND),
    ("logins", None, "bob", 60 * SECOND),
    ("logins", None, "ann", 60 * SECOND),
    ("logins", None, "bob", 61 * SECOND),
    ("logins", None, "bob", 62 * SECOND),
]
EXPECTED = {"anomalous-users": [("ann", 3, 59 * SECOND), ("bob", 3, 62 * SECOND)]}
