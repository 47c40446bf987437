#!/bin/bash
# Runs the fashion pipeline, also on a Debian 12 that has nothing installed: packages, build, run. CAIRN=path names a
# binary that is built already. Arguments go to `cairn run`: ./run.sh -p epochs=8
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../setup.sh
. "$here/../setup.sh"

setup_packages "$here/../packages.txt" "$here/packages.txt"
setup_cairn
setup_python torch numpy
cd "$here"
exec "$CAIRN" run pipeline.yaml "$@"
