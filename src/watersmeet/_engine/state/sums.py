"""The sums of the cache's files, checked again in the background: what a failing disk alters while it is mapped."""

from __future__ import annotations

import os
import struct
import threading
import time
import weakref
import zlib
from typing import Protocol

HEADER = struct.Struct("<4sHHQQ40s")
"""Magic, version, nothing, length and CRC of the rest, id of the run."""
CHECK_SECONDS = 1.0
"""At least so long from one file that is checked to the next."""
_PART = 1 << 20

Identity = tuple[int, int, int]
"""Inode, size and modification time: a file that keeps them is taken for unchanged."""


class Checked(Protocol):
    """Files to check."""

    def check_next(self) -> float:
        """Check one of them, all in turn; the seconds that it took."""


def identity_of(stat: os.stat_result) -> Identity:
    """The identity of a file."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def keeps_its_sum(path: str, known: Identity) -> bool:
    """Whether a file has its checksum; one that is gone, or another one by now, is nobody's any more."""
    try:
        # read, not mapped: one that is cut off meanwhile would end the process
        with open(path, "rb") as file:
            if identity_of(os.fstat(file.fileno())) != known:
                return True
            header, crc = file.read(HEADER.size), 0
            while part := file.read(_PART):
                crc = zlib.crc32(part, crc)
            return identity_of(os.fstat(file.fileno())) != known or HEADER.unpack(header)[4] == crc
    except FileNotFoundError:
        return True
    except OSError:
        # the disk does not give it back: nor will it to who reads the map
        return False


def in_background(checked: Checked) -> None:
    """Check files from now on, for as long as what has them lives."""
    arguments = (weakref.ref(checked),)
    threading.Thread(target=_watch, args=arguments, name="watersmeet: the cache's sums", daemon=True).start()


def _watch(of: weakref.ref[Checked]) -> None:
    pause = CHECK_SECONDS
    while True:
        time.sleep(pause)
        checked = of()
        if checked is None:
            return
        # a hundredth of a core at most
        pause = max(CHECK_SECONDS, 100 * checked.check_next())
        del checked
