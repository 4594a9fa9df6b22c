"""A network between a client and the broker that loses answers and requests, and cuts connections: by a seed."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType

KINDS = ("none", "answers", "answers", "requests", "both", "cut")
SECONDS = (0.05, 0.3, 4.5)
"""How long something is lost: the last is longer than a request of these tests may take."""


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class LossyNetwork:
    """Passes on what comes to `port`, but for what is lost.

    Parameters
    ----------
    port : of this machine; the broker advertises it.

    Attributes
    ----------
    real : the broker's own port; None: nobody answers.
    """

    def __init__(self, port: int) -> None:
        self.real: int | None = None
        self._lost: frozenset[str] = frozenset()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listening = socket.create_server(("127.0.0.1", port))

    def __enter__(self) -> LossyNetwork:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listening.close()
        self.cut()

    def fault(self, chance: random.Random) -> str:
        """One fault, which has passed when this returns."""
        kind = chance.choice(KINDS)
        time.sleep(chance.random() * 0.12)
        if kind not in ("none", "cut"):
            self._lost = frozenset({"answers", "requests"} if kind == "both" else {kind})
            time.sleep(chance.choice(SECONDS))
        if kind != "none":
            # what was lost never comes: TCP itself would send it again, were the connection still there
            self.cut()
        self._lost = frozenset()
        return kind

    def cut(self) -> None:
        """End all connections."""
        while self._pairs:
            for each in self._pairs.pop():
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.real or 1))
                except OSError:
                    near.close()
                    continue
                self._pairs.append((near, far))
                for pair in ((near, far, "requests"), (far, near, "answers")):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, kind: str) -> None:
        with suppress(OSError):
            while content := source.recv(65_536):
                if kind not in self._lost:
                    target.sendall(content)
        for each in (source, target):
            with suppress(OSError):
                each.close()
