#!/bin/bash
# A success whose body is not what was asked for: an error, or somebody's page. It is never read as
# an empty listing, since what isn't listed counts as gone, nor as done.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/net.sh"
. "$SRC/tests/net/store/bucket.sh"

hostile front --no-tls || test_bail 'the hostile server does not start'
AWS_ENDPOINT_URL=http://127.0.0.1:$(port front http)
export AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_EC2_METADATA_DISABLED=true AWS_REGION=us-east-1

# answer BODY [TIMES]: every request is answered 200 and BODY
answer() {
	export BODY=$1 TIMES=${2:-1000}
	python3 -c 'import json, os
print(json.dumps({"path": "*", "times": int(os.environ["TIMES"]), "status": 200, "body": os.environ["BODY"]}))' | rules front
}
# once BODY [METHOD [STATUS]]: a rule: one request is answered so
once() {
	BODY=$1 METHOD=${2:-GET} STATUS=${3:-200} python3 -c 'import json, os
e = os.environ
print(json.dumps({"path": "*", "method": e["METHOD"], "times": 1, "status": int(e["STATUS"]), "body": e["BODY"]}))'
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
export -f answer once not_done

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

test_expect 'S3: uploads that go on at the same place for ever are an error' '
	export WHY="listing uploads .*the server repeats itself"
	upload="<Upload><Key>pre/k</Key><UploadId>1</UploadId><Initiated>2020-01-01T00:00:00Z</Initiated></Upload>"
	answer "<ListMultipartUploadsResult>$upload<IsTruncated>true</IsTruncated><NextKeyMarker>pre/k</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker></ListMultipartUploadsResult>" 50
	before=$(asked front)
	not_done stale
	test_is "$(($(asked front) - before))" 2
'

test_expect 'S3: names of uploads that come encoded, which the last line of a page says' '
	page="<Upload><Key>pre%2Fa+b</Key><UploadId>1</UploadId><Initiated>2020-01-01T00:00:00Z</Initiated></Upload>"
	page="$page<NextKeyMarker>pre%2Fa+b</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>"
	{
		once "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>$page<EncodingType>url</EncodingType></ListMultipartUploadsResult>"
		once "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"
		once "" DELETE 204
	} | rules front
	test_is "$(b stale)" 1
	test_is "$(asked front "q[\"method\"] == \"GET\" and \"key-marker=pre%2Fa%20b&\" in q[\"target\"]")" 1
	test_is "$(asked front "q[\"method\"] == \"DELETE\" and \"/pre/a%20b?uploadId=1\" in q[\"target\"]")" 1
'

test_expect 'S3: of many deletes one is to come later: it is tried again by itself' '
	later() { once "<DeleteResult><Error><Key>$1</Key><Code>SlowDown</Code><Message>later</Message></Error></DeleteResult>" POST; }
	{ later pre/k2; once "" DELETE 204; } | rules front
	b rm k k2 k3
	test_is "$(asked front "q[\"method\"] == \"DELETE\" and q[\"target\"].endswith(\"pre/k2\")")" 1
	test_is "$(asked front "q[\"method\"] == \"DELETE\" and q[\"target\"].endswith(\"pre/k3\")")" 0
	later pre/other | rules front # none that we named
	export WHY="SlowDown"
	not_done rm k k2 k3
	test_is "$(asked front "q[\"target\"].endswith(\"pre/other\")")" 0
'

test_expect 'GCS: a page that comes again under another token is an error' '
	export STORAGE_EMULATOR_HOST=$AWS_ENDPOINT_URL URI=gs://tbucket/pre WHY="the server repeats itself"
	items="[{\"name\": \"pre/a\", \"size\": \"1\", \"updated\": \"2020-01-01T00:00:00Z\", \"generation\": \"1\", \"etag\": \"e\"}]"
	for token in 1 2 3; do
		once "{\"kind\": \"storage#objects\", \"nextPageToken\": \"$token\", \"items\": $items}"
	done | rules front
	not_done ls
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
