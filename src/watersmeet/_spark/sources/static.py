"""Static DataFrames beside streams: written once under the checkpoint, read as a stream of files.

Spark refuses the union of static and streaming frames. The copy is taken at the first start and stays: a
restart must find the rows that the checkpoint has counted. Where the DataFrame has others by then, it is said.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import quote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet._spark.checkpoint.files import RESTORE, Folder
from watersmeet._spark.session.warned import warn
from watersmeet.errors import ChangedTopology, CorruptData

ROWS_PER_FILE = 1_000_000
_PART = "part-*"


@dataclass(frozen=True)
class Content:
    """The content of the rows.

    Parameters
    ----------
    rows : how many.
    digest : a sum over all of them, in any order; of columns that Spark has hashes for.
    schema : their types.
    """

    rows: int
    digest: str
    schema: str

    @classmethod
    def of(cls, rows: DataFrame) -> Content:
        """The content of a scan's rows: what is in them, not where they lie."""
        kinds = {name: kind for name, kind in rows.dtypes if not name.startswith("order_")}
        hashed = [name for name, kind in kinds.items() if "map<" not in kind and "variant" not in kind]
        digest = F.sum(F.xxhash64(*hashed).cast("decimal(38,0)")).cast("string")
        found = rows.agg(F.count(F.lit(1)).alias("rows"), F.coalesce(digest, F.lit("0")).alias("digest")).collect()[0]
        return cls(found["rows"], found["digest"], _schema(rows))


def as_stream(
    rows: DataFrame,
    order: Sequence[str],
    folder: Folder,
    name: str,
    *,
    at_once: bool = False,
    begun: bool = False,
) -> DataFrame:
    """The rows of a scan, ordered by their ordering columns, as a stream.

    Parameters
    ----------
    folder, name : where the copy lies.
    at_once : whether all its rows make one batch.
    begun : whether the checkpoint's sources have begun, so that the copy must be there. Else it is taken (anew).

    Raises
    ------
    CorruptData : the copy is not whole any more: Spark would read it again, or leave out what is missing.
    ChangedTopology : the rows have other types than the copy.
    """
    place = quote(name, safe="")
    copy, done = folder.below(place), folder.below(f"{place}.done")
    if begun:
        _check(rows, copy, done, name)
    else:
        take(rows, order, copy, done)
    reader = folder.spark.readStream.schema(rows.schema)
    return (reader if at_once else reader.option("maxFilesPerTrigger", 1)).parquet(copy.path)


def take(rows: DataFrame, order: Sequence[str], copy: Folder, done: Folder) -> None:
    """Write the rows of a scan, ordered, as files, and what there is beside them."""
    # one task writes one file after the other, so that their order in time is the order of the rows
    ordered = rows.coalesce(1).sortWithinPartitions(*(F.col(name).asc_nulls_last() for name in order))
    ordered.write.option("maxRecordsPerFile", ROWS_PER_FILE).mode("overwrite").parquet(copy.path)
    content = Content.of(copy.spark.read.schema(rows.schema).parquet(copy.path))
    told = json.dumps({"files": len(copy.names(_PART)), **asdict(content)})
    copy.spark.range(1).select(F.lit(told)).coalesce(1).write.mode("overwrite").text(done.path)


def check_whole(copy: Folder, done: Folder, what: str) -> int:
    """How many files a copy has.

    Raises
    ------
    CorruptData : it is not whole any more.
    """
    expected, found = _description(done), len(copy.names(_PART))
    if expected is None or expected[0] != found:
        raise CorruptData(
            f"The checkpoint's copy of the {what} is incomplete.",
            given=f"{copy}: {found} files, "
            + ("their number is not recorded" if expected is None else f"{expected[0]} expected"),
            hint=RESTORE,
        )
    return found


def _check(rows: DataFrame, copy: Folder, done: Folder, name: str) -> None:
    check_whole(copy, done, f"static DataFrame {name!r}")
    told = _description(done)
    assert told is not None
    content, schema = told[1], _schema(rows)
    if content.schema != schema:
        raise ChangedTopology(
            f"The static DataFrame {name!r} has other types than the copy of it in the checkpoint.",
            given=f"{schema}; the copy has {content.schema}",
            hint="Give it the types that it had at the first start, or begin a new checkpoint.",
        )
    now = Content.of(rows)
    if now != content:
        rest = f"{now.rows} rows, {content.rows} in the copy" if now.rows != content.rows else "as many rows, others"
        warn(
            f"The static DataFrame {name!r} has changed since the first start ({rest}), which has a copy of it.",
            "begin a new checkpoint to take it as it is now; read what changes as a stream.",
        )


def _schema(rows: DataFrame) -> str:
    """Names and types; what may be null is another matter where rows come from files."""
    return ", ".join(f"{name} {kind}" for name, kind in rows.dtypes)


def _description(done: Folder) -> tuple[int, Content] | None:
    """How many files a copy has, and what is in them; None: it was not made, or not to its end."""
    try:
        written = [json.loads(content) for content in done.contents(_PART).values()]
        files = [int(each.pop("files")) for each in written]
        return files[0], Content(**written[0])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None
