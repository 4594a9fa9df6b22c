"""The epochs of a checkpoint: each start takes the next one, and with it the checkpoint from the former owner.

An epoch is a file that is made only where it is not there yet. So of two that take one number, one gets an error. The
owner of an epoch checks, before each commit, whether a later one has been taken; nothing depends on a clock.
"""

from __future__ import annotations

import json
from typing import Protocol

from watersmeet.errors import ConfigError

KEPT = 16
"""Files of earlier epochs that are left for a reader's eyes."""
_DIGITS = 10
_END = ".ended"
_ONE_QUERY = (
    "Run one query per checkpoint. The results that are written stay; stop the other query before you start this one "
    "again."
)


class EpochFiles(Protocol):
    """The folder of the epochs, on whatever file system the checkpoint lies."""

    def names(self) -> list[str]:
        """Names of the files that are there now; none where there is no folder."""

    def create(self, name: str, text: str) -> bool:
        """Write a file that is not there yet, in one step; False: it is there."""

    def read(self, name: str) -> str:
        """The content of a file; "" for a missing one."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""


class Epochs:
    """The epochs of one checkpoint, as one start sees them.

    Parameters
    ----------
    files : where they lie.
    owner : a name that no other start has.
    who : says to people who that is.
    checkpoint : as the user wrote it.

    Attributes
    ----------
    number : of the epoch that is held; 0: none.
    is_fresh : whether nobody runs under the epoch before: it was ended, or there was none.
    """

    def __init__(self, files: EpochFiles, owner: str, who: str, checkpoint: str) -> None:
        self._files, self._owner, self._who, self._checkpoint = files, owner, who, checkpoint
        self._text = json.dumps({"owner": owner, "who": who})
        self.number = 0
        self.is_fresh = False

    def take(self) -> None:
        """Take the next epoch: the former owner finds out before it commits.

        Raises
        ------
        ConfigError : another start has taken it just now.
        """
        names = self._files.names()
        last = _last(names)
        name = _name(last + 1)
        # an answer that was lost leaves a file that is ours
        if not self._files.create(name, self._text) and self._owner_of(name) != self._owner:
            raise ConfigError(
                "Another query is being started on this checkpoint.",
                given=f"{self._checkpoint}: epoch {last + 1} is taken by {self._who_of(name)}",
                hint=_ONE_QUERY,
            )
        self.number = last + 1
        self.is_fresh = last == 0 or _name(last) + _END in names
        for old in names:
            if _number(old) <= last - KEPT:
                self._files.remove(old)

    def is_exclusive(self) -> bool:
        """Create the epoch's file again. True: the file system refuses; False: it does not, and the file is removed."""
        if not self._files.create(_name(self.number), self._text):
            return True
        self._files.remove(_name(self.number))
        return False

    def check(self) -> None:
        """Return where the epoch is still the last one.

        Raises
        ------
        ConfigError : another start has taken the checkpoint over, or the checkpoint was replaced.
        """
        last = _last(self._files.names())
        if last == self.number:
            return
        if last < self.number:
            raise ConfigError(
                "The checkpoint was removed or replaced while the query ran: nothing more is written.",
                given=f"{self._checkpoint}: epoch {self.number} of this query is gone",
                hint="Start the query again, on the checkpoint that is there now.",
            )
        raise ConfigError(
            "Another query has taken this checkpoint over: this one writes nothing more.",
            given=f"{self._checkpoint}: this query has epoch {self.number}, epoch {last} was taken by "
            f"{self._who_of(_name(last))}",
            hint=_ONE_QUERY,
        )

    def end(self) -> None:
        """Say that nothing runs under the epoch any more; again is no error."""
        # a checkpoint that is gone stays so
        if self.number and _name(self.number) in self._files.names():
            self._files.create(_name(self.number) + _END, self._who)

    def _owner_of(self, name: str) -> str:
        return _body(self._files.read(name)).get("owner", "")

    def _who_of(self, name: str) -> str:
        return _body(self._files.read(name)).get("who", "somebody")


def _last(names: list[str]) -> int:
    return max(map(_number, names), default=0)


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}"


def _number(name: str) -> int:
    first = name.removesuffix(_END)
    return int(first) if first.isdecimal() else 0


def _body(text: str) -> dict[str, str]:
    try:
        body = json.loads(text)
    except ValueError:
        # its writer died before it wrote
        return {}
    return body if isinstance(body, dict) else {}
