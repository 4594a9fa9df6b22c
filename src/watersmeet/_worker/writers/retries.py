"""A batch's transaction, tried again while Kafka does not answer: for so long as `Kafka(..., retry_timeout=)` says.

Records of an aborted transaction are gone with it, so they are kept until the transaction is in: in memory if they are
few, else in a file (law 9). If the answer to a commit was lost, the batch's marker shows whether it is in: so each
record is in once, however often it is sent (`producers`).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO

import pyarrow as pa

from watersmeet._engine.rows import blob
from watersmeet._worker.writers.producers import Sender
from watersmeet.errors import SinkError

PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the second attempt, and twice as many before each further one, up to the longest."""
KEPT_BYTES = 8 << 20
"""Of records that are kept in memory."""


class Faults:
    """The faults of one batch: how long they have lasted, and whether it is tried again.

    Parameters
    ----------
    limit : seconds from the first fault on for which it is.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._pause = PAUSE
        self._since: float | None = None

    def passed(self) -> None:
        """Something went well: what comes later is another fault."""
        self._since, self._pause = None, PAUSE

    def again(self, error: SinkError) -> None:
        """Wait a little before the next attempt.

        Raises
        ------
        SinkError : it does not pass by itself, or has lasted too long.
        """
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not error.passing:
            raise error
        if now + self._pause > self._since + self._limit:
            raise SinkError(
                error.message,
                given=f"{error.given}; tried again for {now - self._since:.0f} s",
                hint=f"{error.hint or ''} To try for longer: wm.Kafka(..., retry_timeout=...).".strip(),
            ) from error
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)


class RetriedTransaction:
    """A task's transaction of one batch.

    Parameters
    ----------
    out : writes it.
    begin : opens it, with its marker; False: it is in already.
    send : gives it records.
    commit : commits it.
    is_once : whether it is a transaction of Kafka's; what is written plainly the client itself tries again.

    Attributes
    ----------
    is_in : whether Kafka had it before all of it was sent.
    """

    def __init__(
        self,
        out: Sender,
        begin: Callable[[], bool],
        send: Callable[[pa.RecordBatch | pa.Table], object],
        commit: Callable[[], None],
        *,
        is_once: bool,
    ) -> None:
        self._taken_before = out.takeovers
        self._out, self._begin, self._send, self._commit = out, begin, send, commit
        self._is_once = is_once
        self._faults = Faults(out.retry_seconds if is_once else 0)
        self._sent = _StoredRecords()
        self._is_open = False
        self.is_in = False

    @property
    def takeovers(self) -> int:
        """How often its transactional id was taken over for it."""
        return self._out.takeovers - self._taken_before

    def begin(self) -> bool:
        """Open it; False: it is in already."""
        self._until_done(lambda: None)
        return not self.is_in

    def send(self, records: pa.RecordBatch | pa.Table) -> None:
        """Write records."""
        # what is sent anew has them
        fresh = not self._is_open and self._is_once
        if self._is_once:
            self._sent.add(records)
        if fresh:
            self._until_done(lambda: None)
        else:
            self._until_done(lambda: self._send(records), again=lambda: None)

    def commit(self) -> None:
        """Commit it."""
        try:
            self._until_done(self._commit)
        finally:
            self._sent.close()

    def abandon(self) -> None:
        """Give it up."""
        self._sent.close()
        self._out.abandon()

    def _until_done(self, call: Callable[[], object], again: Callable[[], object] | None = None) -> None:
        """Call within the open transaction; where a fault ends that, behind all that was sent in it (`again`)."""
        while not self.is_in:
            try:
                self._opened()
                if not self.is_in:
                    call()
                self._faults.passed()
                return
            except SinkError as error:
                self._is_open = False
                self._out.abandon()
                self._faults.again(error)
                call = call if again is None else again

    def _opened(self) -> None:
        """Have it open, with all that was sent in it."""
        if self._is_open:
            return
        self.is_in = not self._begin()
        if not self.is_in:
            for records in self._sent:
                self._send(records)
            self._is_open = True


class _StoredRecords:
    """Records, to be read again from the first on."""

    def __init__(self) -> None:
        self._held: list[pa.Table] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._sizes: list[int] = []

    def add(self, records: pa.RecordBatch | pa.Table) -> None:
        rows = pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else records
        self._held.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > KEPT_BYTES:
            self._put()

    def __iter__(self) -> Iterator[pa.Table]:
        if self._file is not None:
            self._file.seek(0)
            for size in self._sizes:
                yield blob.decode(self._file.read(size))
        yield from self._held

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._held, self._sizes, self._file = [], [], None

    def _put(self) -> None:
        if self._file is None:
            # where Spark itself puts what does not fit, if it says so
            folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None
            self._file = tempfile.TemporaryFile(dir=folder, prefix="watersmeet-")  # noqa: SIM115
        self._file.seek(0, os.SEEK_END)
        for rows in self._held:
            content = blob.encode(rows, compress=False)
            self._file.write(content)
            self._sizes.append(len(content))
        self._held, self._bytes = [], 0
