"""Count the clicks of each visitor's session: a session ends when the visitor has done nothing for five minutes.

Confluent's tutorial "How to create session windows"; SessionWindowsExample.
"""

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """A click between two sessions makes one of them; the earlier results are then taken back."""
    builder = wm.StreamsBuilder("sessions-of-clicks")
    clicks = builder.stream("clicks", key="string", value="string")
    sessions = wm.SessionWindows.of_inactivity_gap_and_grace("5 minutes", "30 minutes")
    counts = clicks.group_by_key().windowed_by(sessions).agg(pages=wm.collect_list(lambda page: page))
    counts.to_stream(key=wm.window_text).to("sessions", value=wm.json())
    return builder.build()


INPUTS = [
    ("clicks", "ann", "/home", 0),
    ("clicks", "ann", "/shop", 8 * MINUTE),
    ("clicks", "ann", "/tent", 4 * MINUTE),
    ("clicks", "bob", "/home", 9 * MINUTE),
]
EXPECTED = {
    "sessions": [
        ("[ann@0/0]", {"pages": ["/home"]}, 0),
        ("[ann@480000/480000]", {"pages": ["/shop"]}, 8 * MINUTE),
        ("[ann@0/0]", None, 0),
        ("[ann@480000/480000]", None, 8 * MINUTE),
        ("[ann@0/480000]", {"pages": ["/home", "/shop", "/tent"]}, 8 * MINUTE),
        ("[bob@540000/540000]", {"pages": ["/home"]}, 9 * MINUTE),
    ]
}
