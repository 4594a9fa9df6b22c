"""Asking Spark for the types of columns, where the answer may well be that there are no such columns.

Called by `rows`. PySpark writes every analysis error to the log, before anybody could catch it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType

_PYSPARK_LOG = "DataFrameQueryContextLogger"


def analysed(frame: DataFrame, *columns: Column) -> list[DataType]:
    """Types of the columns over the frame; nothing runs.

    Raises
    ------
    pyspark.errors.AnalysisException : they do not fit it.
    """
    with quietly():
        named = [column.alias(f"it{number}") for number, column in enumerate(columns)]
        return [field.dataType for field in frame.select(*named).schema.fields]


@contextmanager
def quietly() -> Iterator[None]:
    """While it lasts, analysis errors are raised and not logged as well."""
    log = logging.getLogger(_PYSPARK_LOG)
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before
