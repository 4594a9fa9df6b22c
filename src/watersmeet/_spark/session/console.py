"""What Spark says on the console of a session that watersmeet makes: no warnings of what is as it should be.

Of the driver alone; executors have files of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from watersmeet._spark.session.master import folder_of_settings

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def log_options(said: Iterable[str]) -> str:
    """The JVM's option that names watersmeet's settings of the log; nothing where somebody has settings already.

    Parameters
    ----------
    said : options that others give to the JVM.
    """
    own = any(folder_of_settings().glob("log4j*"))
    if own or any("log4j" in text for text in said) or "LOG4J_CONFIGURATION_FILE" in os.environ:
        return ""
    # as an address it has no spaces
    return f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
