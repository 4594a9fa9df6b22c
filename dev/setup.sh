#!/bin/sh
# Finds a Python that is new enough and lets it set everything up (dev/bootstrap.py).
# In shell, so that a machine whose Python is too old, or has none, gets an answer and no syntax error.
# PYTHON=/path/of/python chooses one.
set -eu
cd "$(dirname "$0")/.."

tried=""
for candidate in ${PYTHON:-python3 python python3.14 python3.13 python3.12 python3.11}; do
    found=$(command -v "$candidate" 2>/dev/null) || continue
    version=$("$found" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
    if "$found" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        exec "$found" dev/bootstrap.py "$@"
    fi
    tried="$tried
  $found is Python $version"
done

echo "Python 3.11 or later is needed${PYTHON:+ (asked for: PYTHON=$PYTHON)}; found: ${tried:-none}" >&2
echo "Hint: install one (on Debian or Ubuntu \`apt-get install python3 python3-venv\`, on macOS \`brew install" >&2
echo "python\`) or name one: \`make setup PYTHON=/path/of/python3.11\`." >&2
exit 1
