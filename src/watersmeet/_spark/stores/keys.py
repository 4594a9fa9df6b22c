"""Keys of a store that somebody asks for: what they are, and where they lie."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.exchange.shards import shard_of
from watersmeet._engine.keys.keys import group_keys, hash_keys
from watersmeet._engine.state.manifest import Run
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.errors import ConfigError


@dataclass(frozen=True)
class AskedKeys:
    """Keys that are asked for, distinct and in order of their hashes.

    Parameters
    ----------
    hashes : their hashes, which ascend.
    values : the keys.
    """

    hashes: Int64s
    values: pa.Array

    @classmethod
    def of(cls, wanted: Sequence[Any], schema: StructType) -> AskedKeys:
        """The keys of a store with this schema.

        Raises
        ------
        ConfigError : one is not of the type of the store's keys.
        """
        kind = schema["key"].dataType
        given = [key.asDict(recursive=True) if isinstance(key, Row) else key for key in wanted]
        try:
            values = pa.array(given, type=arrow_type(kind))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"A key is not of the type of the store's keys: {wanted!r:.120}.",
                given=", ".join(map(repr, wanted)),
                hint=f"They are of the type {kind.simpleString()}; a struct is given as a dict or a Row.",
            ) from error
        groups = group_keys(hash_keys(values), values)
        distinct = values.take(pa.array(groups.first))
        return cls(hash_keys(distinct), distinct)

    @staticmethod
    def of_text(texts: Sequence[str], schema: StructType) -> list[Any]:
        """The keys that these texts stand for: numbers, dates and the like as Arrow reads them, structs as JSON.

        Raises
        ------
        ConfigError : one stands for no key of this type.
        """
        kind = schema["key"].dataType
        try:
            if isinstance(kind, StructType):
                return [json.loads(text) for text in texts]
            found: list[Any] = pa.array(texts, pa.string()).cast(arrow_type(kind)).to_pylist()
        except (pa.ArrowException, ValueError) as error:
            raise ConfigError(
                f"A key does not have the type of the store's keys: {', '.join(texts):.120}.",
                given=", ".join(texts),
                hint=f"Its keys are of the type {kind.simpleString()}; a struct is given as JSON.",
            ) from error
        return found

    def by_label(self, labels: Sequence[int]) -> dict[int, AskedKeys]:
        """Those that lie under each of a table's labels, one for each range of the hash in order."""
        shards = shard_of(self.hashes, len(labels))
        places = {labels[shard]: np.flatnonzero(shards == shard) for shard in np.unique(shards).tolist()}
        return {label: AskedKeys(self.hashes[some], self.values.take(pa.array(some))) for label, some in places.items()}

    def frame(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """The keys as a DataFrame's one column, `key`."""
        return spark.createDataFrame(pa.table({"key": self.values}), StructType([schema["key"]]))

    def may_lie_in(self, run: Run) -> bool:
        """Whether a run can have one of them."""
        return bool(((self.hashes >= run.low) & (self.hashes <= run.high)).any())
