"""Python loads this at the start of every process that has this folder on its path: the driver and Spark's workers."""

import dev.site.sitecustomize  # noqa: F401  of two of this name Python loads the first alone
from chaos.hooks import install

install()
