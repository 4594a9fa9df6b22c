"""The numbers of a query for the boxes and arrows of its topology's picture."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.pictures.picture import Box, Picture
from watersmeet._spark.metrics.metrics import Metrics


@dataclass(frozen=True)
class PictureCounts:
    """Counts in the order of the picture.

    Parameters
    ----------
    arrows : records that the box above has read or forwarded; below a box that counts nothing, those that the output
        has got. None: nobody counts them.
    drops : records that ended at each box.
    """

    arrows: tuple[int | None, ...]
    drops: tuple[int, ...]


def picture_counts(picture: Picture, now: Metrics) -> PictureCounts:
    """The counts of a picture."""
    boxes = picture.boxes
    arrows = [_given(boxes[arrow.tail], now) for arrow in picture.arrows]
    for at, arrow in enumerate(picture.arrows):
        head = boxes[arrow.head]
        if arrows[at] is None and head.kind == "output":
            arrows[at] = now.produced.get(head.node)
    ended: dict[str, int] = {}
    for (node, _), count in now.drops.items():
        ended[node] = ended.get(node, 0) + count
    # of a node that is several boxes the last one shows them
    last = {box.node: at for at, box in enumerate(boxes)}
    drops = tuple(ended.get(box.node, 0) if last[box.node] == at else 0 for at, box in enumerate(boxes))
    return PictureCounts(tuple(arrows), drops)


def _given(box: Box, now: Metrics) -> int | None:
    if box.kind == "input":
        return now.consumed.get(box.node)
    found = now.operators.get(f"{box.node}.{box.part}" if box.part else box.node)
    return None if found is None else found.forwarded
