"""Python loads this at the start of every process that has this folder on its path: the driver and Spark's workers."""

from chaos.hooks import install

install()
