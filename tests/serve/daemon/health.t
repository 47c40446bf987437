#!/bin/bash
# /healthz and /readyz answer at once, whatever the other requests wait for, and tell the truth.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: wait
steps:
  w: {run: "head -c 4000000 /dev/zero | tr '\\0' x | fold; : >\"$HOME/begun\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done", outputs: {}, cache: false}
YAML

# hold NAME FILE [FROM N]: until `let_go NAME`.
hold() {
	mkfifo "$1.fifo"
	python3 "$SRC/tests/serve/daemon/hold.py" "${@:2}" <"$1.fifo" >"$1.held" &
	exec {fd}>"$1.fifo"
	declare -g "hold_$1=$fd"
	wait_until 30 grep -q held "$1.held"
}
let_go() {
	local name=hold_$1 fd
	fd=${!name}
	exec {fd}>&-
}

# A probe gives up after a second; on a machine that is busy a test may not. What hangs here hangs
# for ten times as long.
quick() {
	curl -s -o body -w '%{http_code}' --max-time 5 "$(serve_url srv)$1" >status
}
many() { # N PATH [CURL OPTION...]: so many requests, not waited for
	local n=$1 path=$2
	shift 2
	for _ in $(seq "$n"); do
		curl -s -N -o /dev/null --max-time 120 "$@" "$(serve_url srv)$path" &
	done
}
open_now() { metric srv cairn_http_connections; }

test_expect 'a database and a loop that hang: both answer, and tell it' '
	serve srv
	url=$(serve_url srv)
	get srv /readyz
	status_is 200
	hold readers .cairn/cairn.db-shm 120 8
	hold writers .cairn/cairn.db.lock
	many 12 /api/v1/runs
	asked() { [ "$(ss -Htn state established "sport = :${url##*:}" | wc -l)" -ge 12 ]; }
	wait_until 30 asked
	for i in 1 2 3; do
		quick /healthz
		status_is 200
		quick /readyz
		test_grep "^(200|503)" status
	done
	hangs() { quick /readyz; [ "$(cat status)" = 503 ] && grep -q "no answer for" body; }
	wait_until 60 hangs
	test_grep "database of work" body
	many 1 /api/v1/runs -X POST -H "Authorization: Bearer $SERVE_TOKEN" --data "{}"
	stuck() { quick /healthz; [ "$(cat status)" = 503 ]; }
	wait_until 90 stuck
	test_is "$(json body "d[\"status\"]")" stuck
	test "$(json body "d[\"stuck_s\"]")" -ge 15
	quick /readyz
	status_is 503
	test_grep "loop turns" body
	let_go readers
	let_go writers
	well() { quick "$1"; [ "$(cat status)" = 200 ]; }
	wait_until 60 well /healthz
	wait_until 60 well /readyz
'

test_expect 'with logs that are followed and readers that take nothing, both answer' '
	post srv /api/v1/runs "{}"
	status_is 202
	wait_until 60 test -e "$HOME/begun"
	many 24 "/api/v1/runs/last/log?task=w&follow=true"
	many 8 "/api/v1/runs/last/log?task=w&follow=true" --limit-rate 1
	streams() { [ "$(metric srv cairn_http_streams)" -ge 32 ]; }
	wait_until 60 streams
	quick /healthz
	status_is 200
	quick /readyz
	status_is 200
	touch "$HOME/go"
	kill $(jobs -p)
	wait
	wait_until 60 sh -c "cairn status last | grep -q succeeded"
	test_is "$(stop srv TERM)" 0
	test_no_grep Sanitizer srv.out
'

test_done
