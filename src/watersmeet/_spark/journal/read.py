"""The journal, read: the batches that count, and the records in them as tasks have written them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pyarrow as pa

from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.journal.folders import ended_ms, folder_of, folders
from watersmeet._worker.packing.journaled import SUFFIX
from watersmeet.errors import ConfigError, CorruptData

_HINT = 'Start the topology with explain="1 day" (or True): the journal begins with the next batch.'
_DAMAGED = "Remove this folder of the journal; the query does not need it."


@dataclass(frozen=True)
class JournalBatch:
    """A batch of the journal.

    Parameters
    ----------
    number : the batch's.
    folder : where its files lie.
    ended_ms : when it was written, in ms since 1970.
    """

    number: int
    folder: Path
    ended_ms: int

    def frames(self) -> Iterator[tuple[pa.Table, bool]]:
        """The rows of each task, and whether they are a table's snapshot.

        Raises
        ------
        ConfigError : the batch was removed meanwhile.
        CorruptData : a file is damaged.
        """
        for file in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                with pa.ipc.open_file(str(file)) as reader:
                    yield reader.read_all(), file.name.startswith("snapshot")
            except FileNotFoundError:
                raise self._removed() from None
            except (pa.ArrowException, OSError) as error:
                raise CorruptData("A file of the journal cannot be read.", given=str(file), hint=_DAMAGED) from error
        # a batch loses this mark before its files
        if ended_ms(self.folder) != self.ended_ms:
            raise self._removed()

    def _removed(self) -> ConfigError:
        return ConfigError(
            f"Batch {self.number} left the journal while it was read.", given=str(self.folder), hint="Ask again."
        )


@dataclass(frozen=True)
class Journal:
    """The batches that can be replayed: those before the last one that was committed, without a gap.

    Parameters
    ----------
    batches : in order; at least one.
    committed : the last batch that was committed.
    """

    batches: tuple[JournalBatch, ...]
    committed: int

    @property
    def is_complete(self) -> bool:
        """Whether it begins with the first batch of the checkpoint, and ends with the last one."""
        return self.batches[0].number == 0 and self.batches[-1].number == self.committed

    @classmethod
    def of(cls, place: Folder) -> Journal:
        """The journal of a checkpoint.

        Raises
        ------
        ConfigError : there is none.
        """
        journal = folder_of(place)
        committed = max((int(name) for name in place.names("commits/[0-9]*")), default=-1)
        named = [] if journal is None else folders(journal)
        whole = {number: (folder, ended_ms(folder)) for number, folder in named if number <= committed}
        found = [JournalBatch(n, folder, ended) for n, (folder, ended) in whole.items() if ended is not None]
        if not found:
            raise ConfigError("The checkpoint has no journal of its input records.", given=str(place), hint=_HINT)
        last = found[-1].number
        unbroken = list(takewhile(lambda pair: pair[1].number == last - pair[0], enumerate(reversed(found))))
        return cls(tuple(batch for _, batch in reversed(unbroken)), committed)
