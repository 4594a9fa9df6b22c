#!/bin/sh
# Writes requirements/*.txt and dev/jars.sha256 anew: exact versions and checksums of everything that development
# installs, for every platform, with no word on where it comes from (each machine's own settings say that).
# Versions already locked stay unless pyproject.toml rules them out; --upgrade takes the newest. `make lock` calls it.
set -eu
cd "$(dirname "$0")/.."

.venv/bin/python -m pip install --quiet --require-hashes -r requirements/lock.txt

compile() {
    output=$1
    shift
    .venv/bin/python -m uv pip compile --quiet --universal --python-version 3.11 \
        --fork-strategy fewest --generate-hashes --no-header --no-emit-find-links -o "requirements/$output" "$@"
}

compile bootstrap.txt --group bootstrap "$@"
compile lock.txt --group lock "$@"
compile release.txt --group release "$@"
compile dev.txt pyproject.toml --all-extras --group dev --group docs "$@"
# what users install, in the versions that the tests run with
compile runtime.txt pyproject.toml --all-extras --constraint requirements/dev.txt

.venv/bin/python dev/fetch_jars.py --relock
