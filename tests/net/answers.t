#!/bin/bash
# A success whose body is not what was asked for: an error, or somebody's page. It is never read as
# an empty listing, since what isn't listed counts as gone, nor as done.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/net/net.sh"
. "$SRC/tests/net/bucket.sh"

hostile front --no-tls || test_bail 'the hostile server does not start'
AWS_ENDPOINT_URL=http://127.0.0.1:$(port front http)
export AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_EC2_METADATA_DISABLED=true AWS_REGION=us-east-1

# answer BODY [TIMES]: every request is answered 200 and BODY
answer() {
	export BODY=$1 TIMES=${2:-1000}
	python3 -c 'import json, os
print(json.dumps({"path": "*", "times": int(os.environ["TIMES"]), "status": 200, "body": os.environ["BODY"]}))' | rules front
}
# not_done COMMAND...: it says that it failed, and why
not_done() {
	test_code 4 b --tries 2 "$@" >out 2>err
	test_grep "${WHY:-.}" err
}
DENIED='<Error><Code>AccessDenied</Code><Message>not you</Message></Error>'
BUSY='<Error><Code>SlowDown</Code><Message>later</Message></Error>'
PAGE='<html><head><title>Welcome</title></head><body>Please log in</body></html>'
export DENIED BUSY PAGE
export -f answer not_done

test_expect 'S3: a success that holds an error is that error' '
	answer "$DENIED"
	export WHY="AccessDenied: not you"
	not_done ls
	not_done stale
	not_done rm k k2 k3
	not_done rm k
	not_done put small k
	not_done put big k
	test_is "$(asked front "q[\"method\"] == \"POST\" and \"delete\" in q[\"target\"]")" 1
'

test_expect 'S3: and is tried again where that helps' '
	answer "$BUSY" 1
	export WHY="status 404|NoSuch|exist"
	before=$(asked front)
	not_done ls
	test_is "$(($(asked front) - before))" 2
'

test_expect 'S3: a page of HTML, or the answer to another question, is no empty listing' '
	for body in "$PAGE" "<ListAllMyBucketsResult/>" "<L><Contents/></L>"; do
		answer "$body"
		export WHY="listing: .*another answer"
		not_done ls
		not_done count
		export WHY="deleting: .*another answer"
		not_done rm k k2 k3
		export WHY="listing uploads: .*another answer"
		not_done stale
	done
	answer "<ListBucketResult xmlns=\"http://example.org/\"><IsTruncated>false</IsTruncated></ListBucketResult>"
	test_is "$(b count)" 0
'

test_expect 'GCS: an object that is no listing is no empty listing' '
	export STORAGE_EMULATOR_HOST=$AWS_ENDPOINT_URL URI=gs://tbucket/pre WHY="no listing"
	for body in "{}" "[]" "{\"error\": {\"code\": 403, \"message\": \"not you\"}}" \
		"{\"kind\": \"x\", \"error\": \"not you\"}" "{\"status\": \"up\"}"; do
		answer "$body"
		not_done ls
		not_done count
	done
	answer "{\"kind\": \"storage#objects\"}"
	test_is "$(b count)" 0
'

test_done
