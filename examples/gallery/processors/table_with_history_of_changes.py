"""Number the versions of each row of a table, and keep when it was first seen.

Kafka's KTable.transformValues with a state store.
"""

from typing import Any

import watersmeet as wm


class Versions:
    """The result is a table again: a deletion deletes, and the numbers begin anew."""

    def init(self, context: Any) -> None:
        self.known = context.get_store("known")

    def transform(self, record: Any, context: Any) -> dict[str, Any] | None:
        if record.value is None:
            self.known.delete()
            return None
        known = self.known.get() or {"version": 0, "since": record.timestamp}
        known["version"] += 1
        self.known.put(known)
        return {"value": record.value, **known}


def topology() -> wm.Topology:
    """Documents in, documents with their version out."""
    builder = wm.StreamsBuilder("table-with-history-of-changes")
    documents = builder.table("documents", key="string", value="string")
    stores = [wm.ValueStore("known", "version int, since long")]
    numbered = documents.transform_values(
        Versions, value="value string, version int, since long", stores=stores, store="numbered"
    )
    numbered.to("numbered-documents", value=wm.json())
    return builder.build()


INPUTS = [
    ("documents", "d", "draft", 5),
    ("documents", "d", "final", 7),
    ("documents", "d", None, 8),
    ("documents", "d", "anew", 9),
]
EXPECTED = {
    "numbered-documents": [
        ("d", {"value": "draft", "version": 1, "since": 5}, 5),
        ("d", {"value": "final", "version": 2, "since": 5}, 7),
        ("d", None, 8),
        ("d", {"value": "anew", "version": 1, "since": 9}, 9),
    ]
}
STORES = {"numbered": [("d", {"value": "anew", "version": 1, "since": 9})]}
