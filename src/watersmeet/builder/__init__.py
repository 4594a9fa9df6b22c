"""StreamsBuilder: where a topology is begun and built, what it reads, and what becomes of records that end."""

from watersmeet.builder.builder import StreamsBuilder

__all__ = ["StreamsBuilder"]
