"""A changed topology upon the checkpoint of the one before: state, offsets and numbers of batches are handed over.

Everything is made ready in a folder of its own, which nobody reads before the checkpoint's record names it: the record
is written last, in one piece, so that a start after a crash finds the old topology or the new one
(docs/decisions/0023). In that folder Spark finds a batch that was committed, with the number of the last one, state as
of its end, and where each source is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.carry import CarriedTables
from watersmeet._plan.change.change import Change, TakenTable
from watersmeet._plan.change.replaced import Replacement
from watersmeet._plan.operators.lending import lent_as_recorded
from watersmeet._plan.operators.spec import TableSchema
from watersmeet._plan.physical import Operator, Physical
from watersmeet._spark.checkpoint.checkpoint import CHANGED, Checkpoint
from watersmeet._spark.checkpoint.disk import Disk
from watersmeet._spark.checkpoint.facts import CheckpointFacts
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.checkpoint.offsets import REPLACED, Begin, carried_offsets, source_indexes, with_tasks
from watersmeet._spark.dataflow.carrying import PIECE, Carry, Parts
from watersmeet._spark.dataflow.rescaling import OldShard, Rescales
from watersmeet._spark.query.replaced_tables import ReplacedTables
from watersmeet._spark.session.settings import alone
from watersmeet._spark.stores.read import StateReader
from watersmeet._spark.stores.table_columns import StoreColumns
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.state import CHUNKS
from watersmeet.errors import ChangedTopology

_FIRST = 0
"""The batch in which the levels take their state over, before it gets the number of the last batch."""
_WHOLE_STATE = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"}
"""Each shard's state in one piece: what has been changed since would be numbered from the beginning."""
_NOBODY = 2**31 - 1
"""A label that no shard has: without any row Spark would run no batch."""


@dataclass(frozen=True)
class Handover:
    """One change.

    Parameters
    ----------
    physical : the topology from now on.
    source : where Spark's logs and state lie until now.
    old : what the checkpoint records until now.
    place : the checkpoint as it is to be.
    batch : number of the last batch, which is committed.
    topics : what each Kafka source reads from now on.
    differing : by store, how many rows of each replaced table differ, when that is known.
    """

    physical: Physical
    source: Folder
    old: CheckpointFacts
    place: Checkpoint
    batch: int
    topics: Mapping[str, Begin] = field(default_factory=dict)
    differing: dict[str, Counter[str]] = field(default_factory=dict)

    def run(self) -> None:
        """Make everything ready; the record is yet to be written."""
        for step in self.steps():
            step()

    def counted(self) -> dict[str, Counter[str]]:
        """Count, by store, the rows of each replaced table that differ, and remove the files that this needs."""
        try:
            for step in self._of_state:
                step()
        finally:
            self._disk.remove(self.target.path)
        return self.differing

    def steps(self) -> tuple[Callable[[], None], ...]:
        """The steps, one after the other; none of them touches existing files."""
        state = (*self._of_state, self.number_state) if self.physical.levels else ()
        return (self.clear, *state, self.write_logs)

    @property
    def _of_state(self) -> tuple[Callable[[], None], ...]:
        return (self.gather, self.take_over, *((self.replace_tables,) if self._replacement else ()))

    @property
    def _replacement(self) -> Replacement | None:
        assert self.place.change is not None
        return self.place.change.replacement

    @property
    def target(self) -> Folder:
        """Where Spark's logs and state lie from now on."""
        return self.place.place

    @cached_property
    def _disk(self) -> Disk:
        return Disk(self.source.spark)

    # -- what earlier changes have left ----------------------------------------------------------------------

    def clear(self) -> None:
        """Remove what changes that broke off have left."""
        root = self.place.folder.below(CHANGED)
        for name in self._disk.names(root.path):
            if not self.source.path.rstrip("/").endswith(f"{CHANGED}/{name}"):
                self._disk.remove(root.below(name).path)

    # -- state -------------------------------------------------------------------------------------------------

    def gather(self) -> None:
        """Write the chunks that go on, each under the label that it gets."""
        nothing = self.source.spark.createDataFrame([(_NOBODY, 0, None, None, None)], PIECE)
        frames = self._divided() if self._rescales else self._as_they_are()
        pieces = reduce(DataFrame.unionByName, frames, nothing)
        # chunks have a megabyte each
        with alone(self.source.spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "16"}):
            pieces.write.parquet(self._pieces.path)

    @property
    def _rescales(self) -> bool:
        """Whether some table lies in another number of shards from now on."""
        new, old = self.place.facts.addresses, self.old.addresses
        return any(
            len(old[taken.from_node][taken.from_table]) != len(new[taken.node][taken.table])
            for taken, _, _ in self._takings
        )

    def _as_they_are(self) -> Iterator[DataFrame]:
        """Chunks for as many shards as before."""
        begun = [(label, level, None, None, None) for level, parts in self._parts.items() for label in parts]
        if begun:
            yield self.source.spark.createDataFrame(begun, PIECE)
        yield from self._chunks()

    def _divided(self) -> Iterator[DataFrame]:
        """Chunks and manifests for another number of shards."""
        old = self._old_shards
        if old:
            spark, chunk = self.source.spark, "old int, run string, chunk int, content binary"
            frames = [self._all_chunks(level).filter(F.col("old").isin(*old)) for level in self._reading.levels()]
            begun = spark.createDataFrame([(label, None, None, None) for label in old], chunk)
            chunks = reduce(DataFrame.unionByName, frames, begun)
            by_shard = chunks.repartition(len(old), "old").sortWithinPartitions("old")
            yield by_shard.mapInArrow(Rescales(old), PIECE)

    @cached_property
    def _old_shards(self) -> dict[int, OldShard]:
        """The shards with state until now, by label, and what of them goes where."""
        found: dict[int, dict[tuple[int, ...], tuple[int, CarriedTables]]] = {}
        numbers: dict[int, tuple[int, int]] = {}
        for taken, operator, table in self._takings:
            labels = tuple(self.place.facts.addresses[taken.node][taken.table])
            before = self.old.addresses[taken.from_node][taken.from_table]
            for number, old in enumerate(before):
                if old in self._manifests:
                    to, numbers[old] = found.setdefault(old, {}), (number, len(before))
                    _, so_far = to.get(labels, (0, CarriedTables((), scalars=False)))
                    tables = (*so_far.tables, (self.old.stored_name(taken.from_table), table))
                    to[labels] = operator.level, CarriedTables(tables, so_far.scalars or taken.scalars)
        return {
            old: OldShard(
                *numbers[old],
                self._manifests[old][2],
                [(level, labels, tables) for labels, (level, tables) in to.items()],
            )
            for old, to in found.items()
        }

    @property
    def _pieces(self) -> Folder:
        return self.target.below("pieces")

    def _chunks(self) -> Iterator[DataFrame]:
        """The chunks of runs that go on, by level until now."""
        wanted = sorted(self._wanted())
        if not wanted:
            return
        schema = "old int, run string, label int, level int"
        places = F.broadcast(self.source.spark.createDataFrame(wanted, schema))
        for level in self._reading.levels():
            yield self._all_chunks(level).join(places, ["old", "run"]).select(*PIECE.names)

    def _all_chunks(self, level: int) -> DataFrame:
        """The chunks of a level: (old, run, chunk, content)."""
        return self._reading.state(level, CHUNKS).select(
            F.col("key.label").alias("old"),
            "user_map_key.run",
            "user_map_key.chunk",
            F.col("user_map_value.content").alias("content"),
        )

    def _wanted(self) -> Iterator[tuple[int, str, int, int]]:
        """(label until now, run, label, level) of the runs that go on; each once."""
        found = set()
        for taken, operator, _ in self._takings:
            for old, label in self._labels(taken):
                if old in self._manifests:
                    entry = self._manifests[old][1].tables.get(self.old.stored_name(taken.from_table))
                    runs = () if entry is None else entry.runs()
                    found |= {(old, run.id, label, operator.level) for run in runs}
        yield from found

    @cached_property
    def _reading(self) -> StateReader:
        return StateReader(self.source, self.batch)

    @cached_property
    def _manifests(self) -> dict[int, tuple[int, mf.Manifest, bytes]]:
        return self._reading.manifests()

    @property
    def _takings(self) -> Iterator[tuple[TakenTable, Operator, TableSchema]]:
        """The part that continues, its operator from now on, and the table."""
        assert self.place.change is not None
        tables = {(o.node, table.name): (o, table) for o in self._lent.operators for table in o.keeps}
        for taken in self.place.change.taken:
            operator, table = tables[taken.node, taken.table]
            if operator.lent is None:
                yield taken, operator, table.typed(arrow_type)

    @cached_property
    def _lent(self) -> Physical:
        """The new topology with its lent tables; a borrower takes no rows over, since its lender does."""
        return lent_as_recorded(self.physical, self.place.facts.addresses)

    def _labels(self, taken: TakenTable) -> Iterator[tuple[int, int]]:
        """The label of each range of the hash, until now and from now on."""
        old = self.old.addresses[taken.from_node][taken.from_table]
        new = self.place.facts.addresses[taken.node][taken.table]
        yield from zip(old, new, strict=True)

    @cached_property
    def _parts(self) -> dict[int, Parts]:
        """By level and label the manifests that a shard takes over, and what of each."""
        found: dict[int, dict[int, dict[int, CarriedTables]]] = {}
        for taken, operator, table in self._takings:
            for old, label in self._labels(taken):
                if old in self._manifests:
                    parts = found.setdefault(operator.level, {}).setdefault(label, {})
                    before = parts.get(old, CarriedTables((), scalars=False))
                    tables = (*before.tables, (self.old.stored_name(taken.from_table), table))
                    parts[old] = CarriedTables(tables, before.scalars or taken.scalars)
        return {
            level: {
                label: [(self._manifests[old][2], part) for old, part in parts.items()]
                for label, parts in labels.items()
            }
            for level, labels in found.items()
        }

    def take_over(self) -> None:
        """Run one batch of the levels alone, which take their state over."""
        spark = self.source.spark
        with alone(spark, _WHOLE_STATE):
            pieces = spark.readStream.schema(PIECE).parquet(self._pieces.path)
            frame = Carry(self.physical.levels, {} if self._rescales else self._parts).over(pieces)
            writer = frame.writeStream.format("noop").outputMode("append").trigger(once=True)
            query = writer.option("checkpointLocation", self.target.path).start()
            query.awaitTermination()

    def replace_tables(self) -> None:
        """Run one more batch of the levels, which computes tables anew that are replaced."""
        assert self._replacement is not None
        tables = ReplacedTables(self._lent, self.place.facts, self.target, self._replacement, self._rows)
        with alone(self.source.spark, _WHOLE_STATE):
            self.differing.update(tables.compute(self._pieces))

    def _rows(self, store: str) -> DataFrame:
        """The rows of a store until now."""
        shown = StoreColumns.read(self.old.stores[store])
        return self._reading.rows(store, shown, self.old.addresses[shown.node][store])

    def number_state(self) -> None:
        """Give the state the number that the last batch has left it with."""
        disk, state = self._disk, self.target.below("state").path
        made = _FIRST + 1 if self._replacement is None else _FIRST + 2
        for level in range(self.physical.levels):
            for name in disk.names(f"{state}/{level}"):
                shard = f"{state}/{level}/{name}"
                if name.isdecimal() and self.batch + 1 != made:
                    disk.remove(f"{shard}/{self.batch + 1}.zip")
                    disk.move(f"{shard}/{made}.zip", f"{shard}/{self.batch + 1}.zip")
                    disk.remove(f"{shard}/{made}.changelog")
            told = f"{state}/{level}/_metadata/v2"
            *others, last = sorted((name for name in disk.names(told) if name.isdecimal()), key=int)
            for other in others:
                disk.remove(f"{told}/{other}")
            if int(last) != self.batch:
                disk.move(f"{told}/{last}", f"{told}/{self.batch}")

    # -- Spark's logs ------------------------------------------------------------------------------------------

    def write_logs(self) -> None:
        """Write the plan and the commit of the last batch, and what sources have noted, as they go on from there."""
        disk, new = self._disk, self.place.facts.inputs
        # the rows of tables that were replaced before are no input any more
        old = [name if name != REPLACED else "" for name in self.old.inputs]
        for name in ("offsets", "commits", "sources", "pieces", "rows", "found", "metadata"):
            disk.remove(self.target.below(name).path)
        for before, now in source_indexes(old, new).items():
            disk.copy(self.source.below(f"sources/{before}").path, self.target.below(f"sources/{now}").path)
        files = self.source.contents(f"offsets/{self.batch}")
        plan = carried_offsets(next(iter(files.values())).decode(), old, new, self.topics)
        plan = with_tasks(plan, self.place.facts.tasks)
        for number in range(max(self.batch - 1, 0), self.batch + 1):
            # Spark reads the last two; the one before went as far, so that nothing is read again
            disk.write(self.target.below(f"offsets/{number}").path, plan)
        disk.copy(self.source.below(f"commits/{self.batch}").path, self.target.below(f"commits/{self.batch}").path)
        disk.copy(self.source.below("metadata").path, self.target.below("metadata").path)


def check_change(place: Checkpoint, change: Change, *, unfinished: bool) -> None:
    """Raise unless the checkpoint goes on under the changed topology."""
    if not change.possible:
        raise ChangedTopology(
            "The checkpoint cannot go on under the changed topology.",
            given="\n".join([str(place.folder), *map(str, change.refused)]),
            hint="wm.plan_change(checkpoint, topology) lists the effects of a change in advance. Undo the refused "
            "changes, or start with a new checkpoint.",
        )
    if unfinished:
        raise ChangedTopology(
            "A planned batch is not finished: only the topology that planned it can finish it.",
            given=place.folder,
            hint="Start it once more as it was, with available_now=True, or end it with query.drain(); then change it.",
        )
