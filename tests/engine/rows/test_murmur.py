"""murmur2 beside the hashes that Kafka's own classes printed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa

from watersmeet._engine.keys import murmur2

RECORDED = json.loads(gzip.decompress((Path(__file__).parents[2] / "recordings" / "bytes.json.gz").read_bytes()))


def test_every_recorded_hash_is_found_also_in_slices_and_beside_nulls() -> None:
    entries = RECORDED["murmur2"]
    contents = [bytes.fromhex(entry["bytes_hex"]) for entry in entries]
    wanted = [entry["murmur2"] % 2**32 for entry in entries]
    assert {len(content) % 4 for content in contents} == {0, 1, 2, 3}
    assert murmur2(pa.array(contents)).tolist() == wanted
    assert murmur2(pa.array([b"xyz", *contents, None]).slice(1)).tolist()[:-1] == wanted
    assert murmur2(pa.chunked_array([contents[:3], contents[3:]], pa.binary())).tolist() == wanted
    assert murmur2(pa.array([], pa.binary())).tolist() == []
