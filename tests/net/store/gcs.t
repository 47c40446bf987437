#!/bin/bash
# Google Cloud Storage's JSON API against fake-gcs-server, and the bad days that the hostile server makes of its answers.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/net.sh"
. "$SRC/tests/net/store/bucket.sh"

server_can fake-gcs-server || test_skip_all "fake-gcs-server is neither there nor can it be built ($(server_build fake-gcs-server))"
server gcs fake-gcs-server || test_bail 'fake-gcs-server does not start'
server_env gcs fake-gcs-server
G=$STORAGE_EMULATOR_HOST
export URI=$SERVER_URI/pre

test_expect 'bytes come back as they were, with their encoding' '
	b put small k
	b cat k | cmp - small
	b put empty k.empty
	b get k.empty out
	test_is "$(wc -c <out)" 0
	b put sixteen k16
	b get k16 out
	cmp out sixteen
	b put big kbig no zstd
	test_is "$(b get kbig out)" "40000000 zstd"
	cmp out big
	b put small enc no zstd
	test_is "$(b get enc out)" "1000 zstd"
	test_grep "encoding=zstd" <(b head enc)
'

test_expect 'any name' '
	for key in "a b" "a+b" "a%20b" "a&b<c>\"d\"" "é/ü/日本" "q?x=1#f"; do
		b put small "n/$key"
		b cat "n/$key" | cmp - small
		b ls "n/" >out
		grep -qF "n/$key 1000 " out
	done
	b rmall n/
'

test_expect 'parts of an object' '
	test_is "$(b get k16 out 1000 2000)" "2000 "
	cmp out <(tail -c +1001 sixteen | head -c 2000)
	b get kbig out 17000000 20000000
	cmp out <(tail -c +17000001 big | head -c 20000000)
	b get kbig out 39999000 5000
	cmp out <(tail -c 1000 big)
'

test_expect 'written if absent; of many at once one wins' '
	b put small once if-absent
	test_code 1 b put sixteen once if-absent
	b cat once | cmp - small
	test_code 1 b put big kbig if-absent
	for i in 1 2 3 4 5 6 7 8; do
		if b put "racer$i" race if-absent; then echo 0; else echo 1; fi >"race.$i" &
	done
	wait
	test_is "$(cat race.[1-8] | sort | tr -d "\n")" 01111111
	b cat race >out
	cmp out "racer$(grep -l 0 race.[1-8] | sed s/race.//)"
'

test_expect 'what may not be written any more is not, in one piece or in chunks' '
	b put small may
	for key in may may.new; do
		test_code 4 b --may 0 put sixteen "$key" 2>err
		test_grep "writing .*$key came too late" err
		for tries in 0 1 2; do # of three chunks
			test_code 4 b --may $tries put big "$key" 2>err
			test_grep "writing .*$key came too late" err
		done
	done
	b cat may | cmp - small
	test_is "$(b exist may.new)" "may.new no 0"
	b --may 1 put sixteen may.new
	b --may 3 put big may
	b get may out
	cmp out big
'

test_expect 'a generation is deleted only if it is that one' '
	b put small v
	generation=$(b head v | sed "s/.*version=\(\S*\).*/\1/")
	b put sixteen v
	test_code 1 b rmif v "$generation"
	b rmif v "$(b head v | sed "s/.*version=\(\S*\).*/\1/")"
	test_is "$(b exist v k)" "$(printf "v no 0\nk yes 1000")"
	test_code 1 b rmif v "$generation"
'

test_expect '1,500 objects are listed in order, by prefix, from a key on, by folder; and deleted' '
	mkdir many
	for i in $(seq -w 1500); do echo "$i" >"many/o$i"; done
	export URI=gs://tbucket/many
	b putdir many
	test_is "$(b count)" 1500
	b ls | cut -d" " -f1 >out
	LC_ALL=C sort -c out
	test_is "$(b ls o14 o1450 | sed -n 1p | cut -d" " -f1)" o1451
	b put small d1/x
	b put small d2/x
	test_is "$(b ls d "" / | cut -d" " -f1,2 | tr "\n" " ")" "d1/ 0 d2/ 0 "
	b rm d1/x d2/x nothing
	mkdir back
	b getdir back
	diff -r many back
	test_is "$(b rmall "")" 1500
	test_is "$(b count)" 0
'

test_expect 'what it can do is found out' '
	test_grep "^if_absent=1 checks_body=1 delete_if=0 ranges=1 " <(b probe)
'

test_expect 'what does not exist' '
	test_code 4 b cat nope 2>err
	test_grep "gs://tbucket/pre/nope: it doesn.t exist" err
	URI=gs://no-such-bucket/x test_code 4 b ls 2>err
	test_grep "bucket doesn.t exist" err
'

# ---- tokens and bad days -------------------------------------------------------------------------------------------------

hostile front --no-tls --upstream "$G" || test_bail 'the hostile server does not start'
F=http://127.0.0.1:$(port front http)
export F

test_expect 'a token of a refresh token is sent, renewed when it is refused, and never shown' '
	unset STORAGE_EMULATOR_HOST
	echo "{\"type\":\"authorized_user\",\"client_id\":\"i\",\"client_secret\":\"c-secret\",\"refresh_token\":\"r-secret\",\"token_uri\":\"$F/token\"}" >key.json
	export GOOGLE_APPLICATION_CREDENTIALS=$PWD/key.json
	rules front <<-E
		{"path": "/token", "times": 1, "status": 200, "body": "{\"access_token\":\"tok-1\",\"expires_in\":3600}"}
		{"path": "/token", "status": 200, "body": "{\"access_token\":\"tok-2\",\"expires_in\":3600}"}
		{"path": "/storage/*", "times": 1, "status": 401, "body": "{\"error\":{\"code\":401,\"message\":\"old\"}}"}
	E
	b --endpoint "$F" cat k | cmp - small
	test_is "$(asked front "q[\"headers\"].get(\"authorization\") == \"Bearer tok-1\"")" 1
	test_is "$(($(asked front "q[\"headers\"].get(\"authorization\") == \"Bearer tok-2\"") >= 1))" 1
	rules front <<-E
		{"path": "/token", "status": 200, "body": "{\"access_token\":\"tok-1\",\"expires_in\":3600}"}
		{"path": "/*", "status": 401, "body": "{\"error\":{\"code\":401,\"message\":\"old\"}}"}
	E
	test_code 4 b --endpoint "$F" put small k 2>err
	test_grep "refused" err
	test_no_grep "tok-|secret" err
	rm front/rules
	test_code 4 b --endpoint http://example.org cat k 2>err
	test_grep "must be https" err
'

test_expect 'a try that follows another one asks anew whether it may write' '
	b put small k
	export STORAGE_EMULATOR_HOST=$F
	rules front <<<"{\"method\": \"POST\", \"times\": 1, \"day\": \"slow-down\"}"
	test_code 4 b --may 1 put sixteen k 2>err
	test_grep "came too late" err
	b cat k | cmp - small
	rules front <<<"{\"method\": \"POST\", \"times\": 1, \"day\": \"slow-down\"}"
	b --may 2 put sixteen k
	b get k out
	cmp out sixteen
	rm front/rules
	b put small k
'

test_expect 'a connection that ends at any place of an answer: the request is made again' '
	export STORAGE_EMULATOR_HOST=$F
	for day in reset-accept reset-start reset-status reset-headers reset-body reset-end close-start close-body close-end slow-down; do
		rules front <<<"{\"method\": \"GET\", \"times\": 2, \"upstream\": true, \"day\": \"$day\"}"
		b cat k >out
		cmp out small
		rules front <<<"{\"method\": \"POST\", \"times\": 2, \"upstream\": true, \"day\": \"$day\"}"
		b put small k
	done
	rm front/rules
'

test_expect 'other bytes than were sent are noticed and taken away' '
	export STORAGE_EMULATOR_HOST=$F
	rules front <<<"{\"method\": \"POST\", \"status\": 200, \"body\": \"{\\\"name\\\":\\\"k\\\",\\\"size\\\":\\\"1000\\\",\\\"generation\\\":\\\"5\\\",\\\"crc32c\\\":\\\"AAAAAA==\\\"}\"}"
	test_code 4 b put small torn 2>err
	test_grep "other bytes" err
	test_is "$(($(asked front "q[\"method\"] == \"DELETE\"") >= 1))" 1
	rm front/rules
'

test_expect 'who took a lock, and lost the answer, still has it' '
	export STORAGE_EMULATOR_HOST=$F
	rules front <<<"{\"method\": \"POST\", \"times\": 1, \"upstream\": true, \"day\": \"reset-start\"}"
	b put small lock if-absent
	rm front/rules
	test_code 1 b put empty lock if-absent
'

test_expect 'a chunk that fails: the upload ends well all the same' '
	export STORAGE_EMULATOR_HOST=$F
	rules front <<<"{\"method\": \"PUT\", \"skip\": 1, \"times\": 1, \"day\": \"reset-accept\"}"
	b put big kchunk
	rm front/rules
	b get kchunk out
	cmp out big
'

test_expect 'a session on another host is refused' '
	export STORAGE_EMULATOR_HOST=$F
	rules front <<<"{\"method\": \"POST\", \"query\": \"resumable\", \"status\": 200, \"headers\": {\"Location\": \"http://example.org/upload\"}}"
	test_code 4 b put big kelse 2>err
	test_grep "another host" err
	rm front/rules
'

test_done
