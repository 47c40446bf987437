#!/bin/bash
# S3 against real servers: what every request does, that what is signed is checked, and that what was cut off goes on.
# versitygw and MinIO check signatures and keep conditions; rclone's server lacks conditional writes.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/net.sh"
. "$SRC/tests/net/store/bucket.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"

export AWS_ACCESS_KEY_ID=$SERVER_KEY AWS_SECRET_ACCESS_KEY=$SERVER_SECRET AWS_EC2_METADATA_DISABLED=true

# suite SERVER LACKS: what each server must do; LACKS: words of what it is known not to.
suite() {
	export S=$1 LACKS=" $2 " AWS_ENDPOINT_URL
	AWS_ENDPOINT_URL=http://127.0.0.1:$(server_port "$S")
	test_expect "$S: bytes come back as they were" '
		b put small k
		b cat k | cmp - small
		b put empty k.empty
		b get k.empty out
		test_is "$(wc -c <out)" 0
		b put sixteen k16
		b get k16 out
		cmp out sixteen
		b put big kbig
		b get kbig out
		cmp out big
	'
	test_expect "$S: any name, any encoding" '
		for key in "a b" "a+b" "a%20b" "a&b<c>\"d\"" "é/ü/日本" "x/../y" "a//b" "~t-._" "q?x=1#f"; do
			[ "$S" = minio ] && case $key in *..*|*//*) continue ;; esac
			[ "$S" != minio ] && [ "$S" != wide ] && case $key in *..*|*//*) continue ;; esac # kept in directories
			b put small "n/$key"
			b cat "n/$key" | cmp - small
			b ls "n/" >out
			grep -qF "n/$key 1000 " out || { echo "not listed: $key"; cat out; false; }
		done
		b put small enc no zstd
		test_grep "encoding=zstd" <(b head enc)
		test_is "$(b get enc out)" "1000 zstd"
		b rmall n/
	'
	test_expect "$S: parts of an object" '
		test_is "$(b get kbig out 17000000 20000000)" "20000000 "
		cmp out <(tail -c +17000001 big | head -c 20000000)
		test_is "$(b get kbig out 39999000 -)" "1000 "
		cmp out <(tail -c 1000 big)
		test_is "$(b get kbig out 39999000 5000)" "1000 "
		test_is "$(b get k out 1 2)" "2 "
		cmp out <(tail -c +2 small | head -c 2)
	'
	[[ $LACKS == *" if-absent "* ]] || test_expect "$S: written if absent; of many at once one wins" '
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
	test_expect "$S: what may not be written any more is not, in one piece or in parts" '
		b put small may
		for key in may may.new; do
			test_code 4 b --may 0 put sixteen "$key" 2>err
			test_grep "writing .*$key came too late" err
			test_code 4 b --may 0 put big "$key" 2>err
			test_grep "writing .*$key came too late" err
		done
		b cat may | cmp - small
		test_is "$(b exist may.new)" "may.new no 0"
		b --may 1 put sixteen may.new
		b --may 1 put big may
		b get may out
		cmp out big
		b stale >out
	'
	test_expect "$S: a version is asked for, and deleted only if it is that one" '
		b put small v
		etag=$(b head v | sed "s/.*etag=\(\S*\).*/\1/")
		b cat v "$etag" | cmp - small
		b put sixteen v
		[ "$S" = lacking ] || test_code 4 b cat v "$etag"
		test_code 1 b rmif v "$etag"
		b rmif v "$(b head v | sed "s/.*etag=\(\S*\).*/\1/")"
		test_is "$(b exist v)" "v no 0"
		test_code 1 b rmif v "$etag"
	'
	test_expect "$S: what is there, in one question" '
		test_is "$(b exist k nope kbig)" "$(printf "k yes 1000\nnope no 0\nkbig yes 40000000")"
		test_code 4 b head nope 2>err
		test_grep "nope.*exist" err
	'
	test_expect "$S: 1,500 objects are listed in order, by prefix, from a key on, by folder; and deleted" '
		[ -d many ] || { mkdir many; for i in $(seq -w 1500); do echo "$i" >"many/o$i"; done; }
		URI=s3://tbucket/many b putdir many
		export URI=s3://tbucket/many
		test_is "$(b count)" 1500
		b ls | cut -d" " -f1 >out
		LC_ALL=C sort -c out
		test_is "$(b ls o150 | wc -l)" 1
		test_is "$(b ls o14 o1450 | sed -n 1p | cut -d" " -f1)" o1451
		b put small d1/x
		b put small d1/y
		b put small d2/x
		test_is "$(b ls "" o1499 / | cut -d" " -f1,2 | tr "\n" " ")" "o1500 5 "
		test_is "$(b ls d "" / | cut -d" " -f1,2 | tr "\n" " ")" "d1/ 0 d2/ 0 "
		test_is "$(URI=s3://tbucket b ls many/d "" / | sed -n 1p | cut -d" " -f1)" many/d1/
		mkdir -p "back.$S"
		b rm d1/x d1/y d2/x
		b getdir "back.$S"
		diff -r many "back.$S"
		test_is "$(b rmall "")" 1500
		test_is "$(b count)" 0
	'
	test_expect "$S: what it can do is found out" '
		b probe >out
		want="if_absent=1 checks_body=1 delete_if=1 ranges=1"
		[[ $LACKS == *" delete-if "* ]] && want=${want/delete_if=1/delete_if=0}
		[[ $LACKS == *" if-absent "* ]] && want="if_absent=0 checks_body=0 delete_if=0 ranges=1"
		test_grep "^$want " out
		test_is "$(b ls cairn-probe)" ""
	'
	[ "$S" = lacking ] || test_expect "$S: wrong credentials are said to be wrong, and never shown" '
		AWS_SECRET_ACCESS_KEY=wrong-$SERVER_SECRET test_code 4 b cat k 2>err
		test_grep "secret key is wrong" err
		test_no_grep "$SERVER_SECRET" err
		AWS_ACCESS_KEY_ID=nobody test_code 4 b head k 2>err
		test_grep "know the access key" err
		test_code 4 b --anonymous cat k 2>err
		test_grep "credentials are needed" err
		URI=s3://no-such-bucket/x test_code 4 b put small k 2>err
		test_grep "bucket doesn.t exist" err
	'
}

server gw versitygw || test_bail 'versitygw does not start'
server wide versitygw --virtual-domain localhost || test_bail 'versitygw does not start'
suite gw ''
if server_can minio && server minio minio; then suite minio delete-if; else test_skip 'minio' 'it is not built: tests/net/servers.sh minio'; fi
if server_can rclone && server lacking rclone; then suite lacking 'if-absent delete-if'; else test_skip 'rclone' 'it is not built: tests/net/servers.sh rclone'; fi

# ---- signatures ------------------------------------------------------------------------------------------------------

start flip.server python3 "$SRC/tests/net/store/flip.py" "$TRASH/work/flip" "127.0.0.1:$(server_port gw)"
wait_until 20 test -s flip/port || test_bail 'flip.py does not start'
AWS_ENDPOINT_URL=http://127.0.0.1:$(cat flip/port)
export AWS_ENDPOINT_URL S=gw

# flipped WHAT COMMAND...: the command works through the proxy, and fails with a bit changed.
flipped() {
	local what=$1
	shift
	echo none >flip/flip
	b "$@" || { echo "refused though nothing was changed: $*"; return 1; }
	echo "$what" >flip/flip
	: >flip/seen
	b "$@" >/dev/null 2>err && { echo "taken with another $what: $*"; return 1; }
	echo none >flip/flip
	grep -q ' flipped 4' flip/seen || { echo "nothing of $what was changed in: $*"; tail -n 5 flip/seen err; return 1; }
}

test_expect 'each request is refused when a bit of what is signed is another' '
	b put small k
	for what in signature path x-amz-date x-amz-content-sha256; do
		flipped $what put small k
		flipped $what cat k
		flipped $what rm k k2 k3
		b put small k
	done
	flipped signature head k
	flipped signature exist k
	flipped signature ls
	flipped query ls
	flipped body put small k
	flipped x-amz-meta-cairn-encoding put small k no zstd
	flipped range get k out 5 10
	flipped body rm k k2 k3
	flipped signature put big kbig
	flipped body put big kbig
	flipped query put big kbig
	flipped signature stale
	flipped method rm k
'

# at METHOD QUERY WHAT COMMAND...: only in those requests; QUERY -: none
at() {
	local which="$1 $2" what=$3
	shift 3
	flipped "$what $which" "$@"
}

test_expect 'each class of requests by itself: those before and after it are as they were' '
	b put small k
	for what in signature path x-amz-date x-amz-content-sha256; do
		at PUT - $what put small k                # PUT
		at GET - $what cat k                      # GET
		at HEAD - $what head k                    # HEAD
		at POST delete $what rm k k2 k3           # batch delete
		b put small k
		at POST uploads $what put big kbig        # multipart: begin
		at PUT partNumber=2 $what put big kbig    # a part
		at POST uploadId $what put big kbig       # its end
		at GET list-type $what ls                 # LIST
		at GET uploads $what stale                # LIST of uploads
	done
	at GET - range get k out 5 10                     # ranged GET
	at PUT - body put small k
	at PUT partNumber=2 body put big kbig
	at PUT partNumber=2 query put big kbig
	at POST uploadId query put big kbig
	at POST uploadId body put big kbig
	at POST uploads query put big kbig
	at POST delete body rm k k2 k3
	at GET list-type query ls
'

test_expect 'DELETE of one, with and without a condition, and of an upload' '
	for what in signature path x-amz-date x-amz-content-sha256 if-match; do
		b put small k
		etag=$(b head k | sed "s/.*etag=\(\S*\).*/\1/")
		echo "$what DELETE" >flip/flip
		: >flip/seen
		b rmif k "$etag" >out 2>err && { echo "taken with another $what"; false; }
		echo none >flip/flip
		grep -q "^DELETE flipped 4" flip/seen
		test_is "$(b exist k)" "k yes 1000"
	done
	id=$(python3 "$SRC/tests/net/store/begin_upload.py" s3://tbucket/pre left)
	for what in signature path query x-amz-date; do
		echo "$what DELETE uploadId" >flip/flip
		: >flip/seen
		b stale >out 2>err || :
		echo none >flip/flip
		grep -q "^DELETE flipped 4" flip/seen || { echo "not refused with another $what"; cat flip/seen out err; false; }
	done
	test_is "$(b stale)" 1
	test_is "$(b stale)" 0
'

# ---- addresses and certificates ---------------------------------------------------------------------------------------

test_expect 'a bucket in the host name' '
	b put small k
	AWS_ENDPOINT_URL=http://localhost:$(server_port wide) b --style virtual put small k
	AWS_ENDPOINT_URL=http://localhost:$(server_port wide) b --style virtual cat k | cmp - small
	AWS_ENDPOINT_URL=http://localhost:$(server_port wide) b --style virtual put big kbig
	test_is "$(AWS_ENDPOINT_URL=http://localhost:$(server_port wide) b --style virtual ls | cut -d" " -f1,2 | tr "\n" " ")" "k 1000 kbig 40000000 "
'

hostile tls --upstream "127.0.0.1:$(server_port gw)" || test_bail 'the hostile server does not start'

test_expect 'TLS: with the CA that is named, and not without' '
	AWS_ENDPOINT_URL=https://127.0.0.1:$(port tls https) b --ca tls/ca.pem cat k | cmp - small
	AWS_ENDPOINT_URL=https://127.0.0.1:$(port tls https) AWS_CA_BUNDLE=$PWD/tls/ca.pem b cat k | cmp - small
	for door in https wrong_name expired self_signed; do
		[ $door = https ] && ca=/etc/ssl/certs/ca-certificates.crt || ca=tls/ca.pem
		AWS_ENDPOINT_URL=https://127.0.0.1:$(port tls $door) test_code 4 b --ca $ca cat k 2>err
		test_grep "certificate|CA" err
		test_grep "^code: 2" err
	done
'

# ---- what was cut off -------------------------------------------------------------------------------------------------

hostile front --no-tls --upstream "127.0.0.1:$(server_port gw)" || test_bail 'the hostile server does not start'
AWS_ENDPOINT_URL=http://127.0.0.1:$(port front http)

test_expect 'an upload that was cut off is taken on: only what is missing is sent' '
	export URI=s3://tbucket/crash
	rules front <<<"{\"method\": \"PUT\", \"query\": \"partNumber=2\", \"day\": \"slow-down\"}"
	test_code 4 b --tries 2 put big kbig 2>err
	test_grep "kbig" err
	test_is "$(b exist kbig)" "kbig no 0"
	rm front/rules
	before=$(asked front "q[\"method\"] == \"PUT\" and q[\"body_bytes\"] > 1000")
	b put big kbig
	test_is "$(($(asked front "q[\"method\"] == \"PUT\" and q[\"body_bytes\"] > 1000") - before))" 1
	b get kbig out
	cmp out big
'

test_expect 'other content under the same name is not mixed with what was cut off' '
	export URI=s3://tbucket/crash
	rules front <<<"{\"method\": \"PUT\", \"query\": \"partNumber=3\", \"day\": \"slow-down\"}"
	test_code 4 b --tries 2 put big other 2>err
	rm front/rules
	b put big2 other
	b get other out
	cmp out big2
'

test_expect 'uploads that nobody goes on with are cleared away' '
	export URI=s3://tbucket/stale
	rules front <<<"{\"method\": \"PUT\", \"query\": \"partNumber=2\", \"day\": \"slow-down\"}"
	test_code 4 b --tries 2 put big left 2>err
	rm front/rules
	test_is "$(b stale)" 1
	test_is "$(b stale)" 0
'

# ---- bad days -----------------------------------------------------------------------------------------------------------

test_expect 'a connection that ends at any place of an answer: the request is made again' '
	b put small k
	b put big kbig
	for day in reset-accept reset-start reset-status reset-headers reset-body reset-end close-start close-status close-headers close-body close-end slow-down; do
		rules front <<<"{\"method\": \"GET\", \"times\": 2, \"upstream\": true, \"day\": \"$day\"}"
		b cat k >out
		cmp out small
		rules front <<<"{\"method\": \"PUT\", \"times\": 2, \"upstream\": true, \"day\": \"$day\"}"
		b put small k
		rules front <<<"{\"method\": \"GET\", \"times\": 1, \"upstream\": true, \"day\": \"$day\"}"
		b get kbig out
		cmp out big
	done
	rm front/rules
'

test_expect 'a try that follows another one asks anew whether it may write' '
	export URI=s3://tbucket/may
	b put small k
	for what in sixteen big; do
		for left in 1 2; do
			if [ $what = big ]; then
				rules front <<<"{\"method\": \"POST\", \"query\": \"uploadId\", \"times\": 1, \"day\": \"slow-down\"}"
			else
				rules front <<<"{\"method\": \"PUT\", \"times\": 1, \"day\": \"slow-down\"}"
			fi
			if [ $left = 1 ]; then
				test_code 4 b --may 1 put $what k 2>err
				test_grep "came too late" err
				b cat k | cmp - small
			else
				b --may 2 put $what k
				b get k out
				cmp out $what
				b put small k
			fi
		done
	done
	rm front/rules
'

test_expect 'a part that fails is sent again alone' '
	rules front <<<"{\"method\": \"PUT\", \"query\": \"partNumber=2\", \"times\": 2, \"day\": \"reset-accept\"}"
	before=$(asked front "q[\"method\"] == \"PUT\"")
	URI=s3://tbucket/parts b put big kbig
	test_is "$(($(asked front "q[\"method\"] == \"PUT\"") - before))" 5
	rm front/rules
'

test_expect 'an end of an upload that says 200 and means an error; one whose answer is lost' '
	rules front <<<"{\"method\": \"POST\", \"query\": \"uploadId\", \"times\": 2, \"day\": \"error-200\"}"
	URI=s3://tbucket/end1 b put big kbig
	rules front <<<"{\"method\": \"POST\", \"query\": \"uploadId\", \"times\": 1, \"upstream\": true, \"day\": \"reset-start\"}"
	URI=s3://tbucket/end2 b put big kbig
	URI=s3://tbucket/end3 b put big2 kbig if-absent
	rm front/rules
	URI=s3://tbucket/end2 b get kbig out
	cmp out big
'

test_expect 'who took a lock, and lost the answer, still has it' '
	rules front <<<"{\"method\": \"PUT\", \"times\": 1, \"upstream\": true, \"day\": \"reset-start\"}"
	b put small lock if-absent
	rm front/rules
	test_code 1 b put empty lock if-absent
'

test_expect 'a clock that is wrong is put right by the server, once' '
	rules front <<<"{\"times\": 1, \"status\": 403, \"headers\": {\"Date\": \"Fri, 24 May 2030 00:00:00 GMT\"}, \"body\": \"<Error><Code>RequestTimeTooSkewed</Code></Error>\"}"
	before=$(asked front "\"20300524T\" in q[\"headers\"].get(\"x-amz-date\", \"\")")
	b cat k | cmp - small # the real server disagrees with that clock, and is believed
	test_is "$(($(asked front "\"20300524T\" in q[\"headers\"].get(\"x-amz-date\", \"\")") - before >= 1))" 1
	rm front/rules
'

test_expect 'a redirect names the region: signed anew for it; one that goes in a circle ends' '
	rules front <<<"{\"times\": 1, \"status\": 301, \"headers\": {\"x-amz-bucket-region\": \"eu-west-3\"}, \"body\": \"<Error><Code>PermanentRedirect</Code></Error>\"}"
	b cat k | cmp - small # and back: the server says that it is us-east-1
	test_is "$(($(asked front "\"/eu-west-3/s3/\" in q[\"headers\"].get(\"authorization\", \"\")") >= 1))" 1
	rules front <<<"{\"status\": 301, \"headers\": {\"Location\": \"/elsewhere\"}}"
	before=$(asked front)
	test_code 4 b cat k 2>err
	test_grep "region" err
	test_is "$(($(asked front) - before))" 1
	rm front/rules
'

test_expect 'credentials that expire in the middle are renewed' '
	mkdir -p "$HOME/.aws"
	cat >"$HOME/.aws/config" <<-E
		[profile turning]
		credential_process = echo x >>$PWD/turns; if [ \$(wc -l <$PWD/turns) -gt 1 ]; then printf "{\"AccessKeyId\":\"$SERVER_KEY\",\"SecretAccessKey\":\"$SERVER_SECRET\"}"; else printf "{\"AccessKeyId\":\"old\",\"SecretAccessKey\":\"old\"}"; fi
	E
	rules front <<<"{\"times\": 1, \"status\": 400, \"body\": \"<Error><Code>ExpiredToken</Code></Error>\"}"
	b --profile turning cat k | cmp - small
	test_is "$(wc -l <turns)" 2
	rm front/rules
'

test_expect 'wrong bytes: another length, a changed version in the middle' '
	rules front <<<"{\"method\": \"GET\", \"times\": 2, \"upstream\": true, \"length\": 500}"
	b cat k | cmp - small
	rules front <<<"{\"method\": \"GET\", \"skip\": 1, \"times\": 1, \"upstream\": true, \"headers\": {\"ETag\": \"\\\"other\\\"\"}}"
	test_code 4 b get kbig out 2>err
	test_grep "kbig changed while it was fetched" err
	rm front/rules
'

test_expect 'a server that is down is given up after a few tries, in words' '
	AWS_ENDPOINT_URL=http://127.0.0.1:$(port front refused) test_code 4 b --tries 2 cat k 2>err
	test_grep "connect|refused" err
	rules front <<<"{\"day\": \"slow-down\"}"
	test_code 4 b --tries 2 cat k 2>err
	test_grep "SlowDown" err
	rm front/rules
'

test_expect 'answers that are no S3: an error, no crash' '
	for body in "" "<html>hello</html>" "<Error>" "{}" "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>" \
		"<ListBucketResult><Contents><Size>5</Size></Contents></ListBucketResult>" \
		"<ListBucketResult><Contents><Key>pre/x</Key><Size>many</Size></Contents></ListBucketResult>"; do
		rules front <<<"{\"method\": \"GET\", \"status\": 200, \"body\": \"$body\"}"
		b --tries 2 ls >out 2>err || test_grep "^error: " err
		test_is "$(wc -l <out)" 0
	done
	rules front <<<"{\"method\": \"GET\", \"status\": 200, \"body\": \"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken><Contents><Key>pre/a</Key></Contents></ListBucketResult>\"}"
	test_code 4 b ls >out 2>err
	test_grep "repeats itself" err
	rm front/rules
'

test_done
