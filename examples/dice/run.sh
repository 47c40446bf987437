#!/bin/bash
# Runs the dice pipeline; needs nothing but cairn, which is built when CAIRN=path names none. Arguments go to `cairn run`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../setup.sh
. "$here/../setup.sh"

setup_cairn
cd "$here"
exec "$CAIRN" run pipeline.yaml "$@"
