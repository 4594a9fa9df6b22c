"""Fetches the jars of dev/ivy.xml with the Ivy that PySpark ships, so that no Maven is needed.

Every jar is checked against dev/jars.sha256 (name and SHA-256), so that what runs is what was locked,
whatever mirror it came from. A group whose jars are all there and right is not fetched again.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dev.jars import GROUPS, JARS, ROOT
from dev.jvm import JavaMissing, find_java, proxy_options

IVY_FILE = ROOT / "dev" / "ivy.xml"
SUMS_FILE = ROOT / "dev" / "jars.sha256"
# For a company's own mirror: a path of an Ivy settings file. Unset, Ivy looks where it does by default.
SETTINGS_VARIABLE = "WATERSMEET_IVY_SETTINGS"


class FetchFailed(RuntimeError):
    """Ivy could not fetch the jars, or what came is not what is locked; the message says which."""


def pyspark_jars() -> Path:
    """The folder of the jars inside the installed PySpark, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise FetchFailed("PySpark is not installed in this Python.\nHint: run `make setup`, or use .venv/bin/python.")
    return Path(spec.submodule_search_locations[0]) / "jars"


def locked_sums(sums_file: Path = SUMS_FILE) -> dict[str, str]:
    """The locked SHA-256 by `group/name.jar`."""
    pairs = (line.split() for line in sums_file.read_text().splitlines() if line)
    return {name: digest for digest, name in pairs}


def present_sums(group: str, folder: Path) -> dict[str, str]:
    """The SHA-256 of each jar or archive of the group that lies in the folder, by `group/name.jar`."""
    found = sorted(path for suffix in ("jar", "tar.gz") for path in (folder / group).glob(f"*.{suffix}"))
    return {f"{group}/{jar.name}": hashlib.sha256(jar.read_bytes()).hexdigest() for jar in found}


def differences(locked: dict[str, str], present: dict[str, str]) -> list[str]:
    """What keeps the present jars from being the locked ones, a line each; empty when they are the same."""
    return [
        *(f"missing: {name}" for name in sorted(locked.keys() - present.keys())),
        *(f"not locked: {name}" for name in sorted(present.keys() - locked.keys())),
        *(f"other content: {name}" for name in sorted(locked.keys() & present.keys()) if locked[name] != present[name]),
    ]


def ivy_command(groups: Sequence[str], into: Path) -> list[str]:
    """The command line that resolves the groups and lays each group's jars into its folder."""
    settings = os.environ.get(SETTINGS_VARIABLE)
    return [
        find_java(),
        *proxy_options(),
        "-cp",
        str(pyspark_jars() / "*"),
        "org.apache.ivy.Main",
        *(["-settings", settings] if settings else []),
        *("-ivy", str(IVY_FILE), "-confs", *groups, "-types", "jar", "bundle", "-warn"),
        *("-retrieve", str(into / "[conf]" / "[artifact]-[revision](-[classifier]).[ext]")),
    ]


def run_ivy(groups: Sequence[str], into: Path) -> None:
    """Fetches the groups' jars into a folder of each group's name."""
    print(f"fetching jars: {', '.join(groups)} (a minute the first time)", flush=True)
    done = subprocess.run(ivy_command(groups, into), capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    # Ivy's progress dots are of no use to a reader who looks for the reason
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip(". ")]
    raise FetchFailed(
        "Ivy could not fetch the jars:\n  " + "\n  ".join(said[-30:]) + "\n"
        "Hint: is the network reachable? Proxies are taken from http_proxy and https_proxy; a mirror of\n"
        f"your own is named in an Ivy settings file, whose path goes into {SETTINGS_VARIABLE}."
    )


def fetch(groups: Sequence[str], *, relock: bool = False) -> None:
    """Makes the groups' folders hold exactly the locked jars; with `relock`, locks what Ivy brings."""
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS / ".lock").open("w") as lock:  # tests that run side by side fetch into one folder
        fcntl.flock(lock, fcntl.LOCK_EX)
        _fetch(groups, relock=relock)


def _fetch(groups: Sequence[str], *, relock: bool) -> None:
    locked = {} if relock else locked_sums()
    wanted = [group for group in groups if relock or _differences_of(group, locked, JARS)]
    if not wanted:
        return
    staging = JARS / "incoming"
    shutil.rmtree(staging, ignore_errors=True)
    run_ivy(wanted, staging)
    if relock:
        _write_sums({name: digest for group in wanted for name, digest in present_sums(group, staging).items()})
    for group in wanted:
        wrong = [] if relock else _differences_of(group, locked, staging)
        if wrong:
            raise FetchFailed(
                f"The fetched jars of {group!r} are not those of {SUMS_FILE.name}:\n  " + "\n  ".join(wrong) + "\n"
                "Hint: after a change of dev/ivy.xml run `make lock`; else the mirror has other jars."
            )
        shutil.rmtree(JARS / group, ignore_errors=True)
        # renamed only when whole and right, so that an interrupted run leaves no half-filled class path
        (staging / group).rename(JARS / group)
    shutil.rmtree(staging, ignore_errors=True)


def _differences_of(group: str, locked: dict[str, str], folder: Path) -> list[str]:
    mine = {name: digest for name, digest in locked.items() if name.startswith(f"{group}/")}
    return differences(mine, present_sums(group, folder))


def _write_sums(sums: dict[str, str]) -> None:
    SUMS_FILE.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetches the groups named on the command line, all of them by default."""
    parser = argparse.ArgumentParser(description="Fetch the jars of dev/ivy.xml into .jars/.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--relock", action="store_true", help="write dev/jars.sha256 anew from what Ivy brings")
    options = parser.parse_args(arguments)
    unknown = set(options.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    try:
        fetch(GROUPS if options.relock else options.groups or GROUPS, relock=options.relock)
    except (FetchFailed, JavaMissing) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
