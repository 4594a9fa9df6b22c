"""Which Java is taken, and what is said when there is none that will do; the Javas are small scripts."""

from __future__ import annotations

import pytest

from dev.jvm import JavaMissing, find_java, java_major, proxy_options


def java_that_says(folder, text, code=0):
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\nexit {code}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.1" 2025-10-21', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(text, major):
    assert java_major(text) == major


def test_java_home_goes_before_the_path(tmp_path):
    at_home = java_that_says(tmp_path / "home", 'openjdk version "21.0.1"')
    java_that_says(tmp_path / "path", 'openjdk version "17.0.1"')
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}
    assert find_java(environ) == str(at_home)


def test_without_java_home_the_path_is_searched(tmp_path):
    on_path = java_that_says(tmp_path, 'openjdk version "17.0.1"')
    assert find_java({"PATH": str(on_path.parent)}) == str(on_path)


def test_an_old_java_is_refused_with_its_version_and_what_to_do(tmp_path):
    old = java_that_says(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    with pytest.raises(JavaMissing, match=r"Java 17 or later is needed; .*is Java 11\.\nHint: install"):
        find_java({"PATH": str(old.parent)})


def test_no_java_at_all_is_said_with_the_place_that_was_searched(tmp_path):
    with pytest.raises(JavaMissing, match=r"none was found through the PATH\.\nHint: install"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(JavaMissing, match=r"none was found through JAVA_HOME"):
        find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(tmp_path)})


def test_a_java_that_does_not_run_is_refused_with_its_own_words(tmp_path):
    broken = java_that_says(tmp_path, "Unable to locate a Java Runtime.", code=1)
    with pytest.raises(JavaMissing, match=r"does not run: Unable to locate a Java Runtime"):
        find_java({"PATH": str(broken.parent)})


def test_proxies_of_the_environment_are_handed_on_to_java():
    environ = {"https_proxy": "http://user@proxy.example:3128/", "HTTP_PROXY": "plain.example"}
    assert proxy_options(environ) == [
        "-Dhttp.proxyHost=plain.example",
        "-Dhttp.proxyPort=80",
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
    ]
    assert proxy_options({}) == []
