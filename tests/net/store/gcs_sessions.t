#!/bin/bash
# Resumable uploads to Google Cloud Storage that a kill cut off: taken on by the next process, or ended; never mixed with other content.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/store/bucket.sh"

start service python3 "$SRC/tests/net/store/gcs_sessions.py" "$TRASH/work/gs"
wait_until 20 test -s gs/port || test_bail 'the server does not start'
export URI=gs://tbucket/pre
g() { b --anonymous --endpoint "http://127.0.0.1:$(cat gs/port)" --uploads "$TRASH/work/uploads" "$@"; }
# chunks: of the log's requests that carry bytes of an upload, which; and questions how far one came
chunks() { sed -n 's/^PUT session bytes=\([0-9]*-[0-9]*\).*/\1/p' gs/log | tr '\n' ' '; }
asked() { grep -c 'PUT session bytes=\*' gs/log; }
# killed FILE KEY: an upload that dies when its first chunk has arrived
killed() {
	rm -f up.pid up.rc gs/held
	touch gs/hold
	start up "$BUCKET_TOOL" --tries 6 --anonymous --endpoint "http://127.0.0.1:$(cat gs/port)" --uploads "$TRASH/work/uploads" "$URI" put "$1" "$2"
	wait_until 30 test -e gs/held
	kill -9 "$(cat up.pid)"
	wait_until 30 test -s up.rc
	rm gs/hold
}

test_expect 'a whole upload leaves nothing behind' '
	g put big k
	test_is "$(chunks)" "0-16777215 16777216-33554431 33554432-39999999 "
	g get k out
	cmp out big
	test_is "$(ls uploads)" ""
'
test_expect 'what kill -9 cut off is taken on: only what is missing is sent' '
	killed big k1
	test_is "$(ls uploads | wc -l)" 1
	test_is "$(stat -c %a uploads/*)" 600
	: >gs/log
	g put big k1
	test_is "$(chunks)" "16777216-33554431 33554432-39999999 "
	test_is "$(asked)" 1
	test_no_grep "^POST" gs/log
	g get k1 out
	cmp out big
	test_is "$(ls uploads)" ""
'
test_expect 'other content under that name begins anew' '
	killed big k2
	: >gs/log
	g put big2 k2
	test_is "$(chunks)" "0-16777215 16777216-33554431 33554432-39999999 "
	g get k2 out
	cmp out big2
'
test_expect 'a session that is gone, and a file that is no session: begun anew' '
	killed big k3
	sed -i "s|session/.*|session/nothing|" uploads/*
	g put big k3
	killed big k4
	echo garbage >"$(ls uploads/*)"
	: >gs/log
	g put big k4
	test_is "$(chunks | wc -w)" 3
	killed big k5
	sed -i "s|http://[^/]*|http://example.org|" uploads/*
	g put big k5
	g get k5 out
	cmp out big
	test_is "$(ls uploads)" ""
'
test_expect 'what nobody goes on with is ended' '
	killed big k6
	: >gs/log
	test_is "$(g stale)" 1
	test_grep "^DELETE session - 499" gs/log
	test_is "$(ls uploads)" ""
	test_is "$(g stale)" 0
'
test_expect 'one that another process works on is left alone' '
	rm -f gs/held up.pid up.rc
	touch gs/hold
	start up "$BUCKET_TOOL" --tries 6 --anonymous --endpoint "http://127.0.0.1:$(cat gs/port)" --uploads "$TRASH/work/uploads" "$URI" put big k7
	wait_until 30 test -e gs/held
	test_is "$(g stale)" 0
	rm gs/hold
	g put big k7
	wait_until 30 test -s up.rc
	test_is "$(cat up.rc)" 0
	g get k7 out
	cmp out big
'
test_done
