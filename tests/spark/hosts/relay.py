"""A slow link that loses packets, for kernels without netem: copies frames between a host and the hub.

Called in the host with the hub's name, the name of the device there, and the milliseconds and the share of losses of
each way. Both devices are taps, so the kernel computes all checksums before it hands a frame out.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import selectors
import struct
import sys
import time
from collections import deque

_NEW_NETWORK, _SET_DEVICE, _TAP = 0x40000000, 0x400454CA, 0x1002
_LARGEST = 65_536


def tap(name: str) -> int:
    """A tap of this name in the network of this process."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _SET_DEVICE, struct.pack("16sH22x", name.encode(), _TAP))
    return device


def enter(name: str) -> None:
    """Go over to another network namespace."""
    space = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(space, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "setns", name)


def copy(devices: tuple[int, int], delay: float, loss: float) -> None:
    """Copy frames both ways for ever, each after the same delay, so that none passes another."""
    chance = random.Random(7)
    waiting: deque[tuple[float, int, bytes]] = deque()
    ready = selectors.DefaultSelector()
    for device, other in (devices, devices[::-1]):
        ready.register(device, selectors.EVENT_READ, other)
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for key, _ in ready.select(left):
            frame = os.read(key.fd, _LARGEST)
            if chance.random() >= loss:
                waiting.append((time.monotonic() + delay, key.data, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, device, frame = waiting.popleft()
            try:
                os.write(device, frame)
            except OSError:
                # a device that is down takes nothing: the frame is lost, as on a cable
                continue


if __name__ == "__main__":
    here = tap("net")
    enter(sys.argv[1])
    there = tap(sys.argv[2])
    print("ready", flush=True)
    copy((here, there), float(sys.argv[3]) / 1_000, float(sys.argv[4]))
