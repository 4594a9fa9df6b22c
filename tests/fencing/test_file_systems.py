"""Where a checkpoint may lie: not where two drivers could both write one plan."""

from __future__ import annotations

import pytest

from watersmeet._spark.fencing.file_systems import LOOK_FIRST, S3A, check_place
from watersmeet._spark.session.settings import PLAIN_FILES
from watersmeet.errors import ConfigError

HDFS = "org.apache.hadoop.hdfs.DistributedFileSystem"


@pytest.mark.parametrize("manager", [None, *sorted(LOOK_FIRST)])
def test_on_s3_each_of_sparks_file_managers_is_refused_with_the_reason(manager: str | None) -> None:
    with pytest.raises(
        ConfigError, match=r"of two drivers that plan one batch both would win(.|\n)*s3a://b/cp"
    ) as told:
        check_place("s3a://b/cp", S3A, manager, conditional=True)
    assert (manager or "not set") in str(told.value)


def test_a_store_that_refuses_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"overwrites existing files(.|\n)*3\.4\.2"):
        check_place("s3a://b/cp", S3A, "my.Manager", conditional=False)


def test_a_file_manager_of_the_users_own_and_other_file_systems_are_taken() -> None:
    check_place("s3a://b/cp", S3A, "my.Manager", conditional=True)
    check_place("hdfs:///cp", HDFS, None, conditional=False)


def test_what_sessions_here_set_is_one_of_those() -> None:
    assert PLAIN_FILES in LOOK_FIRST
