"""Where a checkpoint may lie: not where two drivers could both write one plan."""

from __future__ import annotations

import pytest

from watersmeet._spark.checkpoint.folders import CONDITIONAL_MANAGER, LOOK_FIRST, S3A, file_manager
from watersmeet._spark.session import PLAIN_FILES
from watersmeet.errors import ConfigError

HDFS = "org.apache.hadoop.hdfs.DistributedFileSystem"


@pytest.mark.parametrize("manager", [None, CONDITIONAL_MANAGER, *sorted(LOOK_FIRST)])
def test_on_s3_each_of_sparks_file_managers_gives_way_to_one_that_has_the_store_refuse(manager: str | None) -> None:
    assert file_manager("s3a://b/cp", S3A, manager, conditional=True) == CONDITIONAL_MANAGER


def test_a_store_that_refuses_nothing_is_refused() -> None:
    for manager in (None, "my.Manager"):
        with pytest.raises(ConfigError, match=r"both would win(.|\n)*s3a://b/cp(.|\n)*3\.4\.2"):
            file_manager("s3a://b/cp", S3A, manager, conditional=False)


def test_a_file_manager_of_the_users_own_and_other_file_systems_are_left_as_they_are() -> None:
    assert file_manager("s3a://b/cp", S3A, "my.Manager", conditional=True) is None
    assert file_manager("hdfs:///cp", HDFS, None, conditional=False) is None


def test_what_sessions_here_set_is_one_of_those() -> None:
    assert PLAIN_FILES in LOOK_FIRST
