"""The rows by which replaced tables differ from their new contents: computed, counted, read by the first batch.

They lie beside the changed topology's logs and state, in a folder that nobody reads before the record names it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet._plan.change.change import Change
from watersmeet._plan.change.replaced import Anew, Difference, Replacement, replacement
from watersmeet._plan.physical import Physical
from watersmeet._spark.checkpoint.checkpoint import Checkpoint, CheckpointFiles
from watersmeet._spark.checkpoint.disk import Disk
from watersmeet._spark.checkpoint.facts import CheckpointFacts, carried_over, changed_functions
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.checkpoint.offsets import REPLACED, VOID
from watersmeet._spark.dataflow.carrying import PIECE
from watersmeet._spark.dataflow.replacing import BEGIN, COUNTS, replacing_frame
from watersmeet._spark.sources.bootstrap import source_rows
from watersmeet._spark.sources.scans import Scan
from watersmeet._worker.formats.dead_letters import HEADERS
from watersmeet._worker.wire.wire import END, WIRE, Labels, spread_labels

PLACE = "replaced"
"""Among the folders of a changed topology: the rows that differ."""


@dataclass(frozen=True)
class ReplacedTables:
    """The replaced tables of a changed topology.

    Parameters
    ----------
    physical : the topology from now on.
    facts : what the checkpoint is to record of it.
    target : where its logs and state lie.
    replacement : what is computed.
    rows : gives the rows of a store until now: key, value and timestamp.
    """

    physical: Physical
    facts: CheckpointFacts
    target: Folder
    replacement: Replacement = field(repr=False)
    rows: Callable[[str], DataFrame]

    def compute(self, pieces: Folder) -> dict[str, Counter[str]]:
        """Run one batch of the levels, which leaves the rows that differ; how many each table has, by store.

        Parameters
        ----------
        pieces : what the levels have read before; this batch reads what is added.
        """
        spark, labels, found = self.target.spark, self._labels, self.target.below("found")
        begins = [(label, None, None, None, None) for number in self._roles for label in labels.of_target(number)]
        spark.createDataFrame(begins, PIECE).write.mode("append").parquet(pieces.path)
        read = spark.readStream.schema(PIECE).parquet(pieces.path)
        begun = read.select(
            F.coalesce("label", F.lit(0)).alias("label"),
            F.lit(BEGIN).alias("port"),
            F.lit(b"").alias("blob"),
            F.lit(None).cast("long").alias("count"),
        )
        inputs = self._inputs()
        frame = replacing_frame(self.physical, begun, inputs, (labels, self.facts.tasks), self._roles)
        ports = [role.port for role in self._roles.values() if isinstance(role, Difference)]
        kept = frame.filter(F.col("port").isin(COUNTS, *ports)).select(*WIRE.names)

        def write(rows: DataFrame, _: int) -> None:
            rows.write.mode("overwrite").parquet(found.path)

        self._expect(len(inputs))
        # Spark's own sink of files would look for those of the batch before, which it has not written
        writer = kept.writeStream.foreachBatch(write).trigger(once=True)
        writer.option("checkpointLocation", self.target.path).start().awaitTermination()
        return self._with_ends(spark.read.schema(WIRE).parquet(found.path), labels)

    def _inputs(self) -> list[Scan]:
        """The rows of the tables that are read, as a query reads what an input begins with."""
        numbers = {source.name: number for number, source in enumerate(self.physical.plan.sources)}
        found = []
        for name, store in self.replacement.inputs.items():
            number, copy = numbers[name], self.target.below(f"rows/{numbers[name]}")
            kept = self.rows(store).select(F.unix_millis("timestamp").alias("ts"), "key", "value")
            kept.write.parquet(copy.path)
            read = self.target.spark.readStream.schema(kept.schema).parquet(copy.path)
            frame = source_rows(read.withColumn("order_0", F.col("ts")), number, ["order_0"])
            frame = frame.withColumn("headers", F.lit(None).cast(HEADERS)) if self.physical.plan.headers else frame
            found.append(Scan(frame.coalesce(1), (name,), ("order_0",), begins=True, snapshot=True))
        return found

    def _expect(self, inputs: int) -> None:
        """Give the batch before more sources, of which it has read nothing: Spark wants as many as there are now."""
        disk, plan = Disk(self.target.spark), self.target.below("offsets/0").path
        text = disk.read(plan).rstrip("\n") + f"\n{VOID}" * inputs
        disk.remove(plan)
        disk.write(plan, text)

    def _with_ends(self, found: DataFrame, labels: Labels) -> dict[str, Counter[str]]:
        """Write the rows to where the query reads them, with the ends that each batch's rows have behind them."""
        ends = found.sparkSession.createDataFrame([(label, END, b"", 0) for label in labels.ends], WIRE)
        rows = found.filter(F.col("port") != COUNTS).unionByName(ends)
        rows.coalesce(self.facts.tasks).write.mode("overwrite").parquet(self.target.below(PLACE).path)
        counts: dict[str, Counter[str]] = {}
        for row in found.filter(F.col("port") == COUNTS).select("label", "blob").collect():
            operator = self.physical.operators[labels.place(row["label"])[0]]
            told: Mapping[str, int] = json.loads(bytes(row["blob"]))
            counts.setdefault(operator.keeps[0].name, Counter()).update(told)
        return counts

    @property
    def _roles(self) -> Mapping[int, Anew | Difference]:
        return self.replacement.roles

    @property
    def _labels(self) -> Labels:
        return spread_labels(self.physical, self.facts.shards, self.facts.tasks, self.facts.addresses)


def asked_replacement(
    physical: Physical, names: Sequence[str], found: CheckpointFiles, facts: CheckpointFacts
) -> Replacement | None:
    """The operators that are computed anew to replace tables of a checkpoint; None if no definition has changed.

    Parameters
    ----------
    names : as `replace=` has them.
    facts : what the checkpoint is to record.
    """
    old = found.binding
    if not names or old is None or "reads" not in old.described:
        return None
    functions = changed_functions(carried_over(old, facts), facts)
    asked = replacement(physical, names, old.described, facts.described, functions.keys())
    return asked if asked.roles or asked.refused else None


def with_counts(change: Change, differing: Mapping[str, Mapping[str, int]]) -> Change:
    """A change that says how many rows of each replaced table differ."""
    items = (
        replace(item, reason=", ".join(f"{count} rows {kind}" for kind, count in differing[item.name].items()))
        if item.outcome == "replaced" and item.name in differing
        else item
        for item in change.items
    )
    return replace(change, items=tuple(items))


def replaced_rows(place: Checkpoint) -> list[DataFrame]:
    """The rows as a stream of wire rows, if the checkpoint has replaced tables, or is to have them."""
    if REPLACED not in place.facts.inputs:
        return []
    folder = place.place.below(PLACE)
    if place.change is not None:
        # the query is made before its rows are; Spark reads no folder that is not there
        Disk(folder.spark).write(folder.below("_begun").path, "")
    return [folder.spark.readStream.schema(WIRE).parquet(folder.path)]
