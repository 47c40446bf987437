#!/bin/bash
# Whole runs on bad days: a hostile server between `cairn run` and a real store. Each day has its retry, which nobody notices, or its one clear error; the
# run goes on or stops in order; nothing is lost: what could not be sent is sent later, and then others find it, whole.
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/net.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"
server gw versitygw || test_bail 'versitygw does not start'
server_env gw versitygw
hostile front --upstream "127.0.0.1:$(server_port gw)" || test_bail 'the hostile server does not start'
GOOD=$AWS_ENDPOINT_URL FRONT=http://127.0.0.1:$(port front http)
export GOOD FRONT AWS_ENDPOINT_URL=$FRONT AWS_MAX_ATTEMPTS=6
head -c 20000000 /dev/urandom >big # two parts

# team NAME: two projects that share a store, ann and bob
team() {
	local who
	mkdir "$1"
	for who in ann bob; do
		mkdir "$1/$who"
		ln ../work/big "$1/$who/big"
		echo "store: s3://tbucket/$1" >"$1/$who/cairn.yaml"
		cat >"$1/$who/pipeline.yaml" <<-'YAML'
			pipeline: day
			params: {n: 20}
			inputs: {big: big}
			steps:
			  small:
			    run: for i in $(seq ${{ params.n }}); do echo "line $i" >${{ outputs.d }}/$i; done
			    outputs: {d: d/}
			  middle:
			    run: head -c 600000 ${{ inputs.big }} >${{ outputs.o }}
			    inputs: {big: "${{ inputs.big }}"}
			    outputs: {o: o.bin}
			  large:
			    run: rev ${{ inputs.big }} 2>/dev/null | cat - ${{ inputs.big }} | tail -c 20000000 | tr a-z b-za >${{ outputs.o }}; cat ${{ inputs.d }}/* >>${{ outputs.o }}
			    inputs: {big: "${{ inputs.big }}", d: "${{ steps.small.outputs.d }}"}
			    outputs: {o: o.bin}
		YAML
	done
	cd "$1" || return
}
counts() { json "$1" '"%(executed)d %(hits)d" % d["counts"]'; }
unsent() { json "$1" 'd["cache_failures"]'; }

# calm: no bad day any more
calm() { rm -f "$TRASH/work/front/rules"; export AWS_ENDPOINT_URL=$GOOD; }

# others_have_it: bob finds all, and what he gets is what ann made; the store is whole
others_have_it() {
	calm
	cairn -C bob run -q --json >out
	test_is "$(counts out)" "0 3"
	cairn -C bob get -q large -o got --replace
	cairn -C ann get -q large -o got
	cmp ann/got bob/got
	cairn -C bob get -q small/d -o d
	test_is "$(ls bob/d | wc -l)" 20
	cairn -C ann store verify --json >out
	test_is "$(json out "d[\"problems\"]")" "[]"
}

# ---- what is tried again --------------------------------------------------------------------------------------------------

export -f team counts unsent calm others_have_it

for day in reset-accept reset-start reset-status reset-headers reset-body reset-end close-start close-headers close-body close-end slow-down; do
	export day
	test_expect "$day, of every kind of request: nobody notices" '
		team "t-$day"
		rules front <<-E
			{"method": "PUT", "times": 3, "upstream": true, "day": "$day"}
			{"method": "GET", "times": 2, "upstream": true, "day": "$day"}
			{"method": "HEAD", "times": 2, "upstream": true, "day": "$day"}
			{"method": "POST", "times": 2, "upstream": true, "day": "$day"}
			{"method": "DELETE", "times": 1, "upstream": true, "day": "$day"}
			{"method": "PUT", "query": "partNumber=2", "skip": 1, "times": 2, "upstream": true, "day": "$day"}
		E
		cairn -C ann run -q --json >out 2>err
		test_is "$(counts out)" "3 0"
		test_is "$(unsent out)" 0
		test_is "$(cat err)" ""
		rules front <<-E
			{"method": "GET", "times": 4, "upstream": true, "day": "$day"}
			{"method": "HEAD", "times": 2, "upstream": true, "day": "$day"}
		E
		cairn -C bob run -q --json >out
		test_is "$(counts out)" "0 3"
		cairn -C bob get -q middle -o got
		others_have_it
	'
done

test_expect 'an end of an upload that says 200 and means an error; one whose answer never comes' '
	team complete
	rules front <<-E
		{"method": "POST", "query": "uploadId", "times": 2, "day": "error-200"}
		{"method": "POST", "query": "uploadId", "skip": 0, "times": 1, "upstream": true, "day": "reset-start"}
	E
	cairn -C ann run -q --json >out
	test_is "$(unsent out)" 0
	test "$(asked front "q[\"rule\"] == \"error-200\" or q[\"rule\"] == \"rule\"")" -ge 2
	others_have_it
'

test_expect 'fewer bytes than announced, and other bytes: fetched again, or made again; never taken' '
	team wrong
	cairn -C ann run -q
	rules front <<-E
		{"name": "short", "method": "GET", "path": "*/packs/*", "times": 2, "upstream": true, "length": 500}
		{"name": "short", "method": "GET", "path": "*/blobs/*", "times": 2, "upstream": true, "cut": "body", "how": "close"}
	E
	cairn -C bob run -q --json >out
	test_is "$(counts out)" "0 3"
	rules front <<-E
		{"name": "other", "method": "GET", "path": "*/blobs/*", "times": 1, "upstream": true, "flip": 1000}
		{"name": "other", "method": "GET", "path": "*/packs/*", "times": 1, "upstream": true, "flip": 100}
	E
	for what in large middle small/d; do
		cairn -C bob get -q $what -o got --replace 2>err || cairn -C bob run -q --json >out
	done
	test "$(asked front "q[\"rule\"] == \"other\"")" -ge 1
	calm
	cairn -C bob run -q
	cairn -C bob get -q large -o got2
	cairn -C ann get -q large -o got
	cmp ann/got bob/got2
	cairn -C ann store verify -q
'

test_expect 'a page in the place of an answer stores nothing, and nothing is taken for stored' '
	team portal
	rules front <<-E
		{"method": "PUT", "path": "*/packs/*", "status": 200, "times": 2, "headers": {"Content-Type": "text/html"}, "body": "<html>log in</html>"}
		{"method": "PUT", "path": "*/blobs/*", "status": 200, "times": 2, "headers": {"Content-Type": "text/html"}, "body": "<html>log in</html>"}
		{"method": "PUT", "path": "*/actions/*", "status": 200, "times": 2, "headers": {"Content-Type": "text/html"}, "body": "<html>log in</html>"}
	E
	cairn -C ann run -q --json >out
	test_is "$(counts out) $(unsent out)" "3 0 0"
	others_have_it
'
test_expect 'an ETag that is none of the server: the upload is made anew, or the failure is counted' '
	team etag
	rules front <<<"{\"method\": \"PUT\", \"query\": \"partNumber\", \"times\": 1, \"upstream\": true, \"headers\": {\"ETag\": \"\\\"0123456789abcdef0123456789abcdef\\\"\", \"Etag\": \"\\\"0123456789abcdef0123456789abcdef\\\"\"}}"
	cairn -C ann run -q --json >out
	test_is "$(counts out)" "3 0"
	calm
	cairn -C ann run -q --json >out # sends what is missing, if anything
	test_is "$(unsent out)" 0
	others_have_it
'

test_expect 'a clock that is wrong is put right by the server' '
	team clock
	rules front <<<"{\"times\": 1, \"status\": 403, \"headers\": {\"Date\": \"Fri, 24 May 2030 00:00:00 GMT\"}, \"body\": \"<Error><Code>RequestTimeTooSkewed</Code></Error>\"}"
	cairn -C ann run -q --json >out
	test_is "$(unsent out)" 0
	others_have_it
'

# ---- what fails, counted; the run succeeds --------------------------------------------------------------------------------

# counted WHAT PATTERN RULE...: the store takes us at first, and then has this day for good.
counted() {
	local what=$1 pattern=$2
	shift 2
	team "$what"
	AWS_ENDPOINT_URL=$GOOD cairn -C bob store stat >/dev/null || :
	AWS_ENDPOINT_URL=$GOOD cairn -C bob run -q -p n=1 --until small # the store is there
	printf '%s\n' "$@" | rules front
	AWS_MAX_ATTEMPTS=2 cairn -C ann run --json >out 2>err
	test_is "$(counts out)" "3 0"
	test "$(unsent out)" -ge 1
	test_grep "could not be sent to s3://tbucket/$what.*cairn store push" err
	test_grep "$pattern" err
	test_is "$(grep -c "could not be sent" err)" 1
	test_no_grep "$SERVER_SECRET" err
	# All is here: it is a hit without the store, too; and the next run on a good day sends it.
	cairn -C ann run -q --json --cache=off >out
	test_is "$(counts out)" "0 3"
	calm
	cairn -C ann run -q --json >out 2>err
	test_is "$(counts out)" "0 3"
	test_is "$(unsent out)" 0
	test_is "$(find ann/.cairn/store/remote -path "*unsent*" -type f | wc -l)" 0
	others_have_it
}
export -f counted

test_expect 'the quota is full' '
	counted quota "quota is used up" "{\"method\": \"PUT\", \"path\": \"*/tbucket/quota/[bpar]*\", \"status\": 403, \"body\": \"<Error><Code>QuotaExceeded</Code><Message>no more</Message></Error>\"}" \
		"{\"method\": \"POST\", \"status\": 403, \"body\": \"<Error><Code>QuotaExceeded</Code></Error>\"}"
'
test_expect 'the disks of the server are full' '
	counted disks "disks are full" "{\"method\": \"PUT\", \"path\": \"*/[bpar]*/*\", \"status\": 507}" "{\"method\": \"POST\", \"status\": 507}"
'
test_expect 'credentials that may only read' '
	counted readonly "may not write" "{\"method\": \"PUT\", \"status\": 403, \"body\": \"<Error><Code>AccessDenied</Code></Error>\"}" \
		"{\"method\": \"POST\", \"status\": 403, \"body\": \"<Error><Code>AccessDenied</Code></Error>\"}"
'
test_expect 'credentials that expire in mid-run, and nobody renews' '
	counted expired "have expired" "{\"method\": \"PUT\", \"path\": \"*/[bpar]*/*\", \"status\": 400, \"body\": \"<Error><Code>ExpiredToken</Code></Error>\"}" \
		"{\"method\": \"POST\", \"status\": 400, \"body\": \"<Error><Code>ExpiredToken</Code></Error>\"}"
'
test_expect 'every write fails on the server' '
	counted broken "SlowDown|server fails" "{\"method\": \"PUT\", \"path\": \"*/[bpar]*/*\", \"day\": \"slow-down\"}" "{\"method\": \"POST\", \"day\": \"slow-down\"}"
'
test_expect 'bytes that arrive as others, always: refused by the server' '
	counted digest "other bytes" "{\"method\": \"PUT\", \"path\": \"*/[bpar]*/*\", \"status\": 400, \"body\": \"<Error><Code>XAmzContentSHA256Mismatch</Code></Error>\"}" \
		"{\"method\": \"POST\", \"status\": 400, \"body\": \"<Error><Code>BadDigest</Code></Error>\"}"
'
test_expect 'the bucket goes away in mid-run' '
	counted gone "bucket doesn.t exist" "{\"path\": \"*/[bpar]*/*\", \"status\": 404, \"body\": \"<Error><Code>NoSuchBucket</Code></Error>\"}" \
		"{\"method\": \"POST\", \"status\": 404, \"body\": \"<Error><Code>NoSuchBucket</Code></Error>\"}"
'

# away NAME PATTERN ENDPOINT: nothing answers from the beginning: nothing is begun, in words. Told to do without, the run goes on
# alone, and a push sends what it made.
away() {
	team "$1"
	AWS_ENDPOINT_URL=$GOOD cairn -C bob run -q -p n=1 --until small
	AWS_MAX_ATTEMPTS=3 CAIRN_SERVED=1 AWS_ENDPOINT_URL=$3 test_code 4 cairn -C ann run 2>err # nobody waits: all tries
	test_grep "can.t be reached" err
	AWS_MAX_ATTEMPTS=100 AWS_ENDPOINT_URL=$3 test_code 4 cairn -C ann run --json >out 2>err
	test_grep "the store s3://tbucket/$1 can.t be reached: .*$2.*--cache off" err
	test_is "$(json err "len(d[\"errors\"])")" 1
	test_is "$(cairn -C ann runs --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\"runs\"])")" "[]"
	AWS_ENDPOINT_URL=$3 cairn -C ann run --json --cache off >out
	test_is "$(counts out)" "3 0"
	calm
	cairn -C ann store push -q
	others_have_it
}
export -f away
test_expect 'nobody listens, for a while' 'away refused "[Cc]onnect|refused" "http://127.0.0.1:$(port front refused)"'
test_expect 'the name is unknown, for a while' 'away dns "resolve" http://store.invalid:9000'

# ---- what stops before anything is done: one error, exit 3 or 4 -------------------------------------------------------------

# stops NAME CODE PATTERN [RULE...]
stops() {
	local what=$1 code=$2 pattern=$3
	shift 3
	team "$what"
	[ $# -eq 0 ] || printf '%s\n' "$@" | rules front
	AWS_MAX_ATTEMPTS=2 test_code "$code" cairn -C ann run 2>err || { cat err; return 1; }
	test_grep "$pattern" err
	test_is "$(grep -c "^cairn: \|^error" err)" 1
	test_no_grep "$SERVER_SECRET" err
	calm
	cairn -C ann run -q --json >out
	test_is "$(counts out)" "3 0"
	others_have_it
}
export -f stops

test_expect 'the bucket does not exist' '
	stops nobucket 4 "bucket doesn.t exist" "{\"status\": 404, \"body\": \"<Error><Code>NoSuchBucket</Code></Error>\"}"
'
test_expect 'a redirect that goes in a circle' '
	stops circle 3 "region|elsewhere" "{\"status\": 301, \"headers\": {\"Location\": \"/elsewhere\"}}"
'
test_expect 'credentials that have expired' '
	stops old 3 "have expired: get new ones" "{\"status\": 400, \"body\": \"<Error><Code>ExpiredToken</Code></Error>\"}"
'
test_expect 'credentials that may nothing' '
	stops denied 3 "may not read" "{\"status\": 403, \"body\": \"<Error><Code>AccessDenied</Code></Error>\"}"
'
test_expect 'certificates that do not verify: another CA, another name, an expired one, one signed by itself' '
	team tls
	for door in https wrong_name expired self_signed; do
		[ $door = https ] && ca=/etc/ssl/certs/ca-certificates.crt || ca=$TRASH/work/front/ca.pem
		AWS_CA_BUNDLE=$ca AWS_ENDPOINT_URL=https://127.0.0.1:$(port front $door) test_code 3 cairn -C ann run 2>err
		test_grep "certificate|CA" err
		test_is "$(grep -c "^cairn: " err)" 1
	done
	AWS_CA_BUNDLE=$TRASH/work/front/ca.pem AWS_ENDPOINT_URL=https://127.0.0.1:$(port front https) cairn -C ann run -q --json >out
	test_is "$(unsent out)" 0
	others_have_it
'

# ---- slow ones ---------------------------------------------------------------------------------------------------------------

test_expect 'a server that speaks a byte at a time, and one that falls silent: given up, asked again' '
	team loris
	rules front <<-E
		{"name": "loris", "method": "PUT", "path": "*/packs/*", "times": 1, "upstream": true, "day": "loris-headers", "drip": [1, 1000]}
		{"name": "silent", "method": "PUT", "path": "*/blobs/*", "times": 1, "upstream": true, "hold": "start"}
	E
	cairn -C ann run -q --json >out
	test_is "$(unsent out)" 0
	test_is "$(asked front "q[\"rule\"] in (\"loris\", \"silent\")")" 2
	others_have_it
'

# ---- killed -------------------------------------------------------------------------------------------------------------------

# The last step waits for $TRASH/go, once.
slow_team() {
	local who
	team "$1"
	for who in ann bob; do
		cat >"$who/pipeline.yaml" <<-'YAML'
			pipeline: day
			steps:
			  a: {run: "echo a >${{ outputs.o }}", outputs: {o: o}}
			  b: {run: "cat ${{ inputs.i }} >${{ outputs.o }}; head -c 400000 /dev/zero >>${{ outputs.o }}", inputs: {i: "${{ steps.a.outputs.o }}"}, outputs: {o: o}}
			  c: {run: "touch $TRASH/started; while [ ! -e $TRASH/go ]; do sleep 0.02; done; wc -c <${{ inputs.i }} >${{ outputs.o }}", inputs: {i: "${{ steps.b.outputs.o }}"}, outputs: {o: o}, env: {TRASH: "DIR"}}
		YAML
		sed -i "s|DIR|$TRASH|" "$who/pipeline.yaml"
	done
	rm -f "$TRASH/started" "$TRASH/go"
}
# killed_run [FILE-PATTERN]: until the last step has started (and such a file is there), and no further
killed_run() {
	rm -f "$TRASH/work"/run.{pid,rc}
	start run cairn -C "$PWD/ann" run
	wait_until 30 test -e "$TRASH/started"
	[ $# -eq 0 ] || wait_until 30 eval "[ -n \"\$(find ann/.cairn/store/remote -path '$1' -type f)\" ]"
	kill -9 "$(cat "$TRASH/work/run.pid")"
	wait_until 30 test -s "$TRASH/work/run.rc"
	touch "$TRASH/go"
}
export -f slow_team killed_run

test_expect 'killed before what is on record here was sent: resume sends it' '
	slow_team kill1
	cairn -C ann store stat >/dev/null || :
	rules front <<<"{\"method\": \"PUT\", \"path\": \"*/packs/*\", \"hold\": \"start\"}"
	killed_run
	calm
	cairn -C ann resume -q --json >out
	test_is "$(unsent out)" 0
	cairn -C bob run -q --json >out
	test_is "$(counts out)" "0 3"
	cairn -C bob store verify -q
'
test_expect 'killed so: another run of other steps sends it, without looking at all that there is' '
	slow_team kill2
	rules front <<<"{\"method\": \"PUT\", \"path\": \"*/actions/*\", \"hold\": \"start\"}"
	killed_run "*unsent*"
	rm front/rules 2>/dev/null || rm "$TRASH/work/front/rules"
	test_is "$(find ann/.cairn/store/remote -path "*unsent*" -type f | wc -l)" 1
	echo "{pipeline: other, steps: {x: {run: echo}}}" >ann/other.yaml
	cairn -C ann run -q other.yaml
	test_is "$(find ann/.cairn/store/remote -path "*unsent*" -type f | wc -l)" 0
	calm
	cairn -C bob run -q --json --until a >out
	test_is "$(counts out)" "0 1"
	cairn -C ann store push --unsent --json >out
	test_is "$(json out "[d[\"objects\"], d[\"requests\"]]")" "[0, 0]"
'
test_expect 'killed so: store push --unsent sends just that' '
	slow_team kill3
	echo "{pipeline: other, steps: {x: {run: \"seq 1000 >\${{ outputs.o }}\", outputs: {o: o}}}}" >ann/other.yaml
	cairn -C ann run -q --cache=off other.yaml # made alone: no business of --unsent
	rules front <<<"{\"method\": \"PUT\", \"path\": \"*/actions/*\", \"hold\": \"start\"}"
	killed_run "*unsent*"
	calm
	cairn -C ann store push --unsent --json >out
	test "$(json out "d[\"objects\"]")" -ge 1
	test "$(json out "d[\"objects\"]")" -le 12
	cairn -C bob run -q --json --until a >out
	test_is "$(counts out)" "0 1"
	test_code 2 cairn -C ann store push --unsent last 2>err
'
test_done
