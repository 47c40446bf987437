#!/bin/bash
# Inputs by URI: https files, S3 and GCS prefixes, artifacts; copied and referenced; what happens when an origin changes.
. "$(dirname "$0")/../../net/servers.sh"
. "$(dirname "$0")/../../lib.sh"

web() { # NAME [CERT KEY]
	start "$1" python3 "$SRC/tests/net/files.py" files "$1.port" "$1.log" "${@:2}"
	wait_until 30 test -s "$1.port"
}
mkdir files
web web || test_bail 'the web server does not start'
W=http://127.0.0.1:$(cat web.port)
asked() { wc -l <web.log; }
counts() { json "$1" '"%(executed)d %(hits)d %(failed)d" % d["counts"]'; }
# pipeline NAME INPUTS STEPS: a project of its own
pipeline() {
	mkdir -p "$1"
	printf 'reference_above: 1Ki\n%s\n' "${CONFIG:-}" >"$1/cairn.yaml"
	printf 'pipeline: p\ninputs: %s\nsteps:\n%s\n' "$2" "$3" >"$1/pipeline.yaml"
}
# shellcheck disable=SC2089,SC2090 # quotes of YAML
USE='  use: {run: "cat ${{ inputs.a }} >${{ outputs.o }}", inputs: {a: "${{ inputs.a }}"}, outputs: {o: o.txt}}'
# shellcheck disable=SC2090
export USE W
: >web.log
seq 1 100 >files/small.csv
seq 1 500000 >files/large.csv

test_expect 'a file at a URL: copied when it is small, and not fetched again' '
	pipeline small "{a: $W/etag/small.csv}" "$USE"
	cairn -C small run -q --json >out
	test_is "$(counts out)" "1 0 0"
	cairn -C small get -q use -o o
	cmp small/o files/small.csv
	: >web.log
	cairn -C small run -q --json >out
	test_is "$(counts out)" "0 1 0"
	test_is "$(cat web.log)" "HEAD /etag/small.csv 200 -"
'
test_expect 'its suffix stays, and what is recorded is where it came from' '
	grep -q "inputs/a.csv" <(cairn -C small plan --json 2>&1; cairn -C small why use 2>&1; sqlite3 small/.cairn/cairn.db "select cast(bytes as text) from key_record" | tr -d "\0") ||
		python3 - <<-PY
		import sqlite3
		b = sqlite3.connect("small/.cairn/cairn.db").execute("select bytes from key_record").fetchone()[0]
		assert b"inputs/a.csv" in b, b
		PY
	python3 - <<-PY
	import sqlite3
	assert sqlite3.connect("small/.cairn/cairn.db").execute("select origin from run_input where name = ?", ("input:a",)).fetchone()[0] == "$W/etag/small.csv"
	PY
'
test_expect 'a large one is referenced: fetched in ranges by the step that needs it, once' '
	: >web.log
	pipeline large "{a: $W/etag/large.csv}" "$USE
  again: {run: \"wc -l <\${{ inputs.a }} >\${{ outputs.o }}\", inputs: {a: \"\${{ inputs.a }}\"}, outputs: {o: o.txt}}"
	cairn -C large run -q -j 1 --json >out
	test_is "$(counts out)" "2 0 0"
	cairn -C large get -q use -o o
	cmp large/o files/large.csv
	test_is "$(grep -c GET web.log)" 1
	test_grep "GET /etag/large.csv 206 bytes=0-" web.log
	: >web.log
	cairn -C large run -q --json >out
	test_is "$(counts out)" "0 2 0"
	test_is "$(cat web.log)" "HEAD /etag/large.csv 200 -"
'
test_expect 'a plan and a hit fetch nothing' '
	pipeline plan "{a: $W/etag/large.csv}" "$USE"
	: >web.log
	cairn -C plan plan -q
	test_is "$(cat web.log)" "HEAD /etag/large.csv 200 -"
	test_missing plan/.cairn/store/origins
'
test_expect 'one that changed between two runs is fetched anew; why says so' '
	echo more >>files/small.csv
	cairn -C small why use >why
	cairn -C small run -q --json >out
	test_is "$(counts out)" "1 0 0"
	cairn -C small get -q use -o o2
	cmp small/o2 files/small.csv
	test_grep "input a changed.*$W/etag/small.csv" why
'
test_expect 'one that changes between the pin and the fetch: one clear error, no other bytes' '
	for kind in etag ignores weak dated; do
		seq 1 50000 >files/moving.csv
		touch -d 2020-01-01 files/moving.csv
		pipeline "moving-$kind" "{a: $W/$kind/moving.csv}" "  first: {run: \"seq 2 50001 >$PWD/files/moving.csv && touch x\", outputs: {x: x}, cache: false}
  use: {run: \"cat \${{ inputs.a }} >\${{ outputs.o }}\", inputs: {a: \"\${{ inputs.a }}\"}, outputs: {o: o.txt}, needs: [first]}"
		test_code 4 cairn -C "moving-$kind" run -q 2>err
		test_grep "$W/$kind/moving.csv: the origin has changed since the run pinned it" err
	done
'
test_expect 'what was read by reference is an edge of the lineage, also after a reindex' '
	told() { # DIR
		mkdir "$1"
		cairn -C large lineage --json use >"$1/lineage"
		cairn -C large export "$run" --format slsa >"$1/slsa"
		cairn -C large export "$run" --format openlineage >"$1/openlineage"
	}
	run=$(json <(cairn -C large runs --json -n 0) "[r[\"id\"] for r in d[\"runs\"] if r[\"counts\"][\"executed\"]][0]")
	told told-before
	for f in lineage slsa openlineage; do test_grep "$W/etag/large.csv" "told-before/$f"; done
	rm large/.cairn/cairn.db*
	cairn -C large store reindex -q
	told told-after
	diff -r told-before told-after
'
test_expect 'without an ETag and a date it can only be copied' '
	pipeline bare "{a: {uri: $W/bare/large.csv, mode: reference}}" "$USE"
	test_code 3 cairn -C bare run -q 2>err
	test_grep "pipeline.yaml:2:10: input .a. \($W/bare/large.csv\): .*neither an ETag nor a time of the last change.*mode: copy" err
	pipeline bare "{a: $W/bare/large.csv}" "$USE"
	cairn -C bare run -q
	cairn -C bare get -q use -o o
	cmp bare/o files/large.csv
	cairn -C bare run -q --json >out
	test_is "$(counts out)" "0 1 0"
'
test_expect 'servers of all sorts: a date alone, a weak ETag, no HEAD, no length, no ranges' '
	for kind in dated weak nohead nolength ignores; do
		pipeline "sort-$kind" "{a: $W/$kind/large.csv}" "$USE"
		cairn -C "sort-$kind" run -q
		cairn -C "sort-$kind" get -q use -o o
		cmp "sort-$kind/o" files/large.csv
	done
'
test_expect 'redirects are followed, a few, and never away from this machine without TLS' '
	pipeline to "{a: $W/to/small.csv}" "$USE"
	cairn -C to run -q
	cairn -C to get -q use -o o
	cmp to/o files/small.csv
	pipeline loop "{a: $W/loop/small.csv}" "$USE"
	test_code 3 cairn -C loop run -q 2>err
	test_grep "input .a. .*redirected again and again" err
	pipeline far "{a: $W/far/small.csv}" "$USE"
	test_code 3 cairn -C far run -q 2>err
	test_grep "redirected to an address that isn.t https" err
'
test_expect 'what is not there, refused, or cut short' '
	pipeline none "{a: $W/etag/none.csv}" "$USE"
	test_code 4 cairn -C none run -q 2>err
	test_grep "pipeline.yaml:2:10: input .a. .*there is no such object" err
	pipeline deny "{a: $W/deny/small.csv}" "$USE"
	test_code 3 cairn -C deny run -q 2>err
	test_grep "access is refused .403." err
	pipeline short "{a: {uri: $W/short/small.csv, mode: copy}}" "$USE"
	test_code 4 cairn -C short run -q 2>err
	test_grep "fetching $W/short/small.csv" err
'
test_expect 'offline: one clear error; a run that was begun goes on with what it pinned' '
	port=$(server_free_port)
	pipeline off "{a: http://127.0.0.1:$port/x.csv}" "$USE"
	test_code 4 cairn -C off run -q 2>err
	test_grep "input .a. \(http://127.0.0.1:$port/x.csv\)" err
	test_is "$(grep -c . err)" 1
	pipeline on "{a: $W/etag/large.csv}" "  first: {run: \"if [ ! -e $PWD/go ]; then touch $PWD/begun; cat $PWD/fifo; fi; touch x\", outputs: {x: x}, cache: false}
  use: {run: \"cat \${{ inputs.a }} >\${{ outputs.o }}\", inputs: {a: \"\${{ inputs.a }}\"}, outputs: {o: o.txt}, needs: [first]}"
	mkfifo fifo
	start engine cairn -C on run -q
	wait_until 30 test -e begun
	kill -9 "$(cat engine.pid)"
	wait_until 30 test -s engine.rc
	touch go
	: >web.log
	cairn -C on resume -q
	test_no_grep HEAD web.log
	cairn -C on get -q use -o o
	cmp on/o files/large.csv
'
test_expect 'a signature in a URL is used, and recorded nowhere but in the pipeline as it was written' '
	pipeline signed "{a: \"$W/signed/large.csv?X-Amz-Credential=alice&v=2&X-Amz-Signature=good\"}" "$USE"
	cairn -C signed check 2>err
	test_grep "pipeline.yaml:[0-9:]* warning: the signature in this URL is kept with the pipeline in the store" err
	test_no_grep "=good|alice" <(grep -v "^ " err)
	cairn -C signed run -q
	cairn -C signed get -q use -o o
	cmp signed/o files/large.csv
	python3 - <<-PY
	import sqlite3
	d = sqlite3.connect("signed/.cairn/cairn.db")
	assert d.execute("select origin from run_input where name = ?", ("input:a",)).fetchone()[0] == "$W/signed/large.csv?v=2"
	PY
	cat signed/.cairn/cairn.db* signed/.cairn/store/origins >state
	test_no_grep "Signature=good" state
	grep -rlE "Signature=good" signed/.cairn/store >held # the pipeline, which is kept as it is
	while read -r f; do grep -q "^pipeline: p" "$f" || { echo "$f holds it"; exit 1; }; done <held
	sed -i s/=good/=bad/ signed/pipeline.yaml
	test_code 3 cairn -C signed run -q 2>err
	test_no_grep "Signature|alice" err
	pipeline user "{a: \"https://alice:pass@example.org/x\"}" "$USE"
	test_code 3 cairn -C user check 2>err
	grep -v "^ " err >said
	test_no_grep "pass@|:pass" said
	test_grep "don.t belong into a pipeline" said
'
test_expect 'an artifact by its hash: a file, a directory, one that is not there' '
	hash=$(sha256sum files/small.csv | cut -d" " -f1)
	cp small/pipeline.yaml small/keep.yaml
	printf "pipeline: p\ninputs: {a: artifact:%s}\nsteps:\n%s\n" "$hash" "$USE" >small/pipeline.yaml
	cairn -C small run -q --force use
	cairn -C small get -q use -o o3
	cmp small/o3 files/small.csv
	printf "pipeline: p\ninputs: {a: artifact:%064d}\nsteps:\n%s\n" 0 "$USE" >small/pipeline.yaml
	test_code 4 cairn -C small run -q 2>err
	test_grep "input .a. .*is not in the store" err
	cp small/keep.yaml small/pipeline.yaml
'
test_expect 'https, with the certificate checked' '
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
	web tls cert.pem key.pem
	pipeline tls "{a: https://localhost:$(cat tls.port)/etag/large.csv}" "$USE"
	test_code 3 cairn -C tls run -q 2>err
	test_grep "input .a.*certificate" err
	SSL_CERT_FILE=$PWD/cert.pem cairn -C tls run -q
	cairn -C tls get -q use -o o
	cmp tls/o files/large.csv
'

# ---- buckets -----------------------------------------------------------------------------------------------------------

# bucket_suite NAME SCHEME CONFIG: what lies in files/b goes into a bucket `in`; `bput FILE KEY`, `brm KEY` change it
bucket_suite() {
	export S=$1 B=$2://inb CONFIG=$3
	test_expect "$S: a prefix becomes a directory: copied, and a second run asks for one listing" '
		pipeline "$S-copy" "{a: {uri: $B/raw/, mode: copy}}" "  use: {run: \"find -L \${{ inputs.a }} -type f | sort | xargs cat >\${{ outputs.o }}; ls -R \${{ inputs.a }}\", inputs: {a: \"\${{ inputs.a }}\"}, outputs: {o: o.txt}}"
		cairn -C "$S-copy" run -q --json >out
		test_is "$(counts out)" "1 0 0"
		cairn -C "$S-copy" get -q use -o o
		test_is "$(sha256sum <"$S-copy/o")" "$(find files/b/raw -type f | sort | xargs cat | sha256sum)"
		cairn -C "$S-copy" run -q --json >out
		test_is "$(counts out)" "0 1 0"
	'
	test_expect "$S: by reference: a step that takes one file of it fetches that one" '
		pipeline "$S-ref" "{a: {uri: $B/raw/, mode: reference}}" "  one: {run: \"cat \${{ inputs.f }} >\${{ outputs.o }}\", inputs: {f: \"\${{ inputs.a }}/deep/2.txt\"}, outputs: {o: o.txt}}"
		cairn -C "$S-ref" run -q --json >out
		test_is "$(counts out)" "1 0 0"
		cairn -C "$S-ref" get -q one -o o
		cmp "$S-ref/o" files/b/raw/deep/2.txt
		test_is "$(find "$S-ref/.cairn/store/blobs" -type f | xargs grep -l "raw 3" | wc -l)" 0
	'
	test_expect "$S: each over its members; a glob; what changed runs again, and nothing else" '
		pipeline "$S-each" "{a: {uri: \"$B/raw/**/*.txt\", mode: reference}}" "  each: {run: \"cat \${{ inputs.f }} >\${{ outputs.o }}\", each: \"\${{ inputs.a }}/deep/*.txt\", inputs: {f: \"\${{ item }}\"}, outputs: {o: o.txt}}"
		cairn -C "$S-each" run -q --json >out
		test_is "$(counts out)" "4 0 0"
		echo changed >new
		bput new raw/deep/3.txt
		cairn -C "$S-each" run -q --json >out
		test_is "$(counts out)" "1 3 0"
		cairn -C "$S-each" run -q --json >out
		test_is "$(counts out)" "0 4 0"
		bput files/b/raw/deep/3.txt raw/deep/3.txt
	'
	test_expect "$S: one object, and its version" '
		pipeline "$S-one" "{a: $B/raw/big.bin}" "$USE"
		cairn -C "$S-one" run -q --json >out
		test_is "$(counts out)" "1 0 0"
		cairn -C "$S-one" get -q use -o o
		cmp "$S-one/o" files/b/raw/big.bin
	'
	test_expect "$S: an object that is replaced between the pin and the fetch" '
		how="$PWD/put-$S $PWD/new raw/deep/1.txt"
		pipeline "$S-moving" "{a: {uri: $B/raw/, mode: reference}}" "  first: {run: \"$how; touch x\", outputs: {x: x}, cache: false, env: {PATH: \"$PATH\", HOME: \"$HOME\"}}
  use: {run: \"cat \${{ inputs.a }}/deep/1.txt >\${{ outputs.o }}\", inputs: {a: \"\${{ inputs.a }}\"}, outputs: {o: o.txt}, needs: [first]}"
		test_code 4 cairn -C "$S-moving" run -q 2>err
		test_grep "$B/raw/deep/1.txt: the origin has changed since the run pinned it" err
		bput files/b/raw/deep/1.txt raw/deep/1.txt
	'
	test_expect "$S: verify says what changed at the origin" '
		cairn -C "$S-each" run -q
		cairn -C "$S-each" store verify --json >out
		test "$(json out "d[\"origins\"][\"unchanged\"]")" -ge 4
		before=$(json out "d[\"origins\"][\"changed\"]")
		bput new raw/deep/2.txt
		brm raw/deep/4.txt
		cairn -C "$S-each" store verify >said || :
		test_grep "changed.*$B/raw/deep/2.txt" said
		test_grep "gone.*$B/raw/deep/4.txt" said
		cairn -C "$S-each" store verify --json >out || :
		test_is "$(json out "d[\"origins\"][\"changed\"] - $before >= 1 and d[\"origins\"][\"gone\"] >= 1")" true
		bput files/b/raw/deep/2.txt raw/deep/2.txt
		bput files/b/raw/deep/4.txt raw/deep/4.txt
	'
	test_expect "$S: what is not there" '
		pipeline "$S-none" "{a: $B/nothing/}" "$USE"
		test_code 4 cairn -C "$S-none" run -q 2>err
		test_grep "input .a. .$B/nothing/.: there is no object under it" err
		pipeline "$S-none" "{a: $B/raw}" "$USE"
		test_code 4 cairn -C "$S-none" run -q 2>err
		test_grep "write it with a slash at its end" err
		pipeline "$S-none" "{a: \"$B/raw/*.nope\"}" "$USE"
		test_code 4 cairn -C "$S-none" run -q 2>err
		test_grep "no object matches it" err
	'
}

mkdir -p files/b/raw/deep
for i in 1 2 3 4; do echo "raw $i deep" >"files/b/raw/deep/$i.txt"; done
echo "raw 3" >files/b/raw/top.csv
head -c 20000000 /dev/urandom >files/b/raw/big.bin
echo other >new

BUCKET_TOOL=$(test_tool bucket_tool)
if server_can versitygw && [ -x "$BUCKET_TOOL" ]; then
	mkdir -p gw.data/inb
	server gw versitygw || test_bail 'versitygw does not start'
	cp -r files/b/raw gw.data/inb/
	export AWS_ACCESS_KEY_ID=$SERVER_KEY AWS_SECRET_ACCESS_KEY=$SERVER_SECRET AWS_REGION=us-east-1
	AWS_ENDPOINT_URL_TEST=http://127.0.0.1:$(server_port gw)
	export AWS_ENDPOINT_URL_TEST
	# Through the server, so that ETags are its own.
	cat >put-s3 <<-SH
	#!/bin/sh
	AWS_ACCESS_KEY_ID=$SERVER_KEY AWS_SECRET_ACCESS_KEY=$SERVER_SECRET AWS_ENDPOINT_URL=$AWS_ENDPOINT_URL_TEST exec "$BUCKET_TOOL" s3://inb put "\$1" "\$2"
	SH
	chmod +x put-s3
	bput() { "$TRASH/work/put-s3" "$1" "$2"; }
	brm() { AWS_ENDPOINT_URL=$AWS_ENDPOINT_URL_TEST "$BUCKET_TOOL" s3://inb rmall "$1"; }
	(cd files/b && find raw -type f) | while read -r f; do bput "files/b/$f" "$f"; done
	bucket_suite s3 s3 "store_options: {endpoint: \"$AWS_ENDPOINT_URL_TEST\", style: path}"
	test_expect 's3: an input can say itself how it is reached; without, the machine decides' '
		CONFIG= pipeline own "{a: {uri: s3://inb/raw/top.csv, endpoint: \"$AWS_ENDPOINT_URL_TEST\", region: us-east-1}}" "$USE"
		cairn -C own run -q
		cairn -C own get -q use -o o
		cmp own/o files/b/raw/top.csv
		pipeline anon "{a: {uri: s3://inb/raw/top.csv, endpoint: \"$AWS_ENDPOINT_URL_TEST\", anonymous: true}}" "$USE"
		test_code 3 cairn -C anon run -q 2>err
		test_no_grep "$SERVER_SECRET" err
	'
	test_expect 's3: a shared store does not get what is only referenced' '
		CONFIG="store: s3://tbucket/shared
store_options: {endpoint: \"$AWS_ENDPOINT_URL_TEST\", style: path}" pipeline sharing "{a: {uri: s3://inb/raw/big.bin, mode: reference}}" "  use: {run: \"wc -c <\${{ inputs.a }} >\${{ outputs.o }}\", inputs: {a: \"\${{ inputs.a }}\"}, outputs: {o: o.txt}}"
		cairn -C sharing run -q
		test "$(du -sk gw.data/tbucket/shared | cut -f1)" -lt 2000
		rm -rf sharing/.cairn
		cairn -C sharing run -q --json >out
		test_is "$(counts out)" "0 1 0"
		test "$(du -sk sharing/.cairn | cut -f1)" -lt 5000
	'
else
	test_skip 's3 inputs' 'no versitygw, or no bucket_tool'
fi
if server_can rclone && [ -x "$BUCKET_TOOL" ]; then
	# A server that doesn't keep to If-Match: what came is held against the pin all the same.
	mkdir -p lack.data/inb
	server lack rclone --etag-hash MD5 || test_bail 'rclone does not start'
	export AWS_ACCESS_KEY_ID=$SERVER_KEY AWS_SECRET_ACCESS_KEY=$SERVER_SECRET AWS_REGION=us-east-1
	L=http://127.0.0.1:$(server_port lack)
	export L
	printf '#!/bin/sh\nAWS_ENDPOINT_URL=%s exec "%s" s3://inb put "$1" "$2"\n' "$L" "$BUCKET_TOOL" >put-lack
	chmod +x put-lack
	test_expect 'a server that knows no conditions: a changed object is noticed all the same' '
		seq 1 50000 >old
		seq 2 50001 >new
		truncate -s "$(wc -c <old)" new
		"$PWD/put-lack" old x.csv
		CONFIG="" pipeline lack "{a: {uri: s3://inb/x.csv, mode: reference, endpoint: \"$L\", region: us-east-1}}" "  first: {run: \"$PWD/put-lack $PWD/new x.csv; touch x\", outputs: {x: x}, cache: false, env: {PATH: \"$PATH\", HOME: \"$HOME\", AWS_ACCESS_KEY_ID: $SERVER_KEY, AWS_SECRET_ACCESS_KEY: $SERVER_SECRET, AWS_REGION: us-east-1}}
  use: {run: \"cat \${{ inputs.a }} >\${{ outputs.o }}\", inputs: {a: \"\${{ inputs.a }}\"}, outputs: {o: o.txt}, needs: [first]}"
		test_code 4 cairn -C lack run -q 2>err
		test_grep "s3://inb/x.csv: the origin has changed since the run pinned it" err
	'
else
	test_skip 'a server that knows no conditions' 'no rclone, or no bucket_tool'
fi
if server_can fake-gcs-server; then
	server gcs fake-gcs-server || test_bail 'fake-gcs-server does not start'
	GCS=http://127.0.0.1:$(server_port gcs)
	STORAGE_EMULATOR_HOST=${GCS#http://}
	export GCS STORAGE_EMULATOR_HOST
	curl -sf -H 'Content-Type: application/json' -d '{"name":"inb"}' "$GCS/storage/v1/b" >/dev/null
	urlencode() { python3 -c 'import sys, urllib.parse; print(urllib.parse.quote(sys.argv[1], ""))' "$1"; }
	cat >put-gcs <<-SH
	#!/bin/sh
	exec curl -sf --data-binary "@\$1" -o /dev/null "$GCS/upload/storage/v1/b/inb/o?uploadType=media&name=\$(echo "\$2" | sed s,/,%2F,g)"
	SH
	chmod +x put-gcs
	bput() { "$TRASH/work/put-gcs" "$1" "$2"; }
	brm() { curl -sf -X DELETE "$GCS/storage/v1/b/inb/o/$(urlencode "$1")"; }
	(cd files/b && find raw -type f) | while read -r f; do bput "files/b/$f" "$f"; done
	bucket_suite gcs gs ""
else
	test_skip 'gs inputs' 'no fake-gcs-server'
fi
test_done
