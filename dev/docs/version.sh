#!/bin/sh
# Puts the site of this checkout beside those of other versions, on the local branch gh-pages; pushes nothing.
# `make docs-version` calls it: version.sh VERSION [ALIAS]; the alias is the version that the site opens with.
set -eu
version=${1:?"VERSION is missing. Hint: make docs-version VERSION=0.1 ALIAS=latest"}
alias=${2:-}
# the site's hooks are modules of this checkout
export PYTHONPATH=. NO_MKDOCS_2_WARNING=1
mike deploy --update-aliases "$version" ${alias:+"$alias"}
if [ -n "$alias" ]; then
    mike set-default "$alias"
elif ! git cat-file -e gh-pages:index.html 2>/dev/null; then
    mike set-default "$version" # until a version has an alias
fi
