"""The handles, such as KStream and KTable, with which a user writes a topology."""

from __future__ import annotations
