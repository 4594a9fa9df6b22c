"""Count the edits of each user of an encyclopedia, without those of robots and those that only correct.

Confluent's WikipediaFeedAvroExample.
"""

import watersmeet as wm

SCHEMA = """{"type": "record", "name": "Edit", "fields": [
    {"name": "user", "type": "string"}, {"name": "is_new", "type": "boolean"},
    {"name": "is_robot", "type": ["null", "boolean"], "default": null}]}"""


def topology() -> wm.Topology:
    """The feed in Avro, counts out."""
    builder = wm.StreamsBuilder("edits-by-user")
    feed = builder.stream("wikipedia-feed", key="string", value=wm.avro(SCHEMA))
    new = feed.filter(lambda edit: edit["is_new"] & ~edit["is_robot"].eqNullSafe(True))
    new.group_by(lambda edit: edit["user"]).count().to("edits", key="string", value="long")
    return builder.build()


INPUTS = [
    ("wikipedia-feed", None, {"user": "ann", "is_new": True, "is_robot": None}, 0),
    ("wikipedia-feed", None, {"user": "bot", "is_new": True, "is_robot": True}, 1),
    ("wikipedia-feed", None, {"user": "ann", "is_new": False, "is_robot": False}, 2),
    ("wikipedia-feed", None, {"user": "bob", "is_new": True, "is_robot": False}, 3),
    ("wikipedia-feed", None, {"user": "ann", "is_new": True, "is_robot": False}, 4),
]
EXPECTED = {"edits": [("ann", 1, 0), ("bob", 1, 3), ("ann", 2, 4)]}
