#!/bin/bash
# Roles: STS as moto plays it, and the session's credentials in every request after it. Instance metadata and containers, as the hostile server plays them.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/net.sh"
. "$SRC/tests/net/store/bucket.sh"

server_can moto || test_skip_all 'moto is neither there nor can it be installed: tests/net/servers.sh moto'
server aws moto || test_bail 'moto does not start'
hostile front --no-tls --upstream "127.0.0.1:$(server_port aws)" || test_bail 'the hostile server does not start'
F=http://127.0.0.1:$(port front http)
export F AWS_ENDPOINT_URL=$F AWS_EC2_METADATA_DISABLED=true
http PUT "$F/tbucket" >/dev/null || test_bail 'no bucket'
mkdir -p "$HOME/.aws"

# with_token NAME: of the requests for objects, how many were signed with NAME's session.
signed() { asked front "\"tbucket\" in q[\"target\"] and \"Credential=$1\" in q[\"headers\"].get(\"authorization\", \"\") and bool(q[\"headers\"].get(\"x-amz-security-token\"))"; }

test_expect 'a role of a profile, taken with the keys of another' '
	cat >"$HOME/.aws/config" <<-E
		[profile worker]
		role_arn = arn:aws:iam::123456789012:role/worker
		source_profile = base
		role_session_name = cairn-test
		[profile base]
		aws_access_key_id = base-key
		aws_secret_access_key = base-secret
	E
	b --profile worker put small k
	b --profile worker cat k | cmp - small
	test_is "$(asked front "q[\"method\"] == \"POST\" and \"Credential=base-key/\" in q[\"headers\"].get(\"authorization\", \"\") and \"/sts/\" in q[\"headers\"][\"authorization\"]")" 2
	test_is "$(signed ASIA)" 2
'

test_expect 'a web identity' '
	echo header.payload.signature >token
	before=$(signed ASIA)
	AWS_WEB_IDENTITY_TOKEN_FILE=$PWD/token AWS_ROLE_ARN=arn:aws:iam::123456789012:role/web b cat k | cmp - small
	test_is "$(($(signed ASIA) - before))" 1
	AWS_WEB_IDENTITY_TOKEN_FILE=$PWD/nothing AWS_ROLE_ARN=arn:aws:iam::123456789012:role/web test_code 4 b cat k 2>err
	test_grep "token" err
	test_grep "^code: 2" err
'

test_expect 'STS that is down for a moment: asked again at the next request, and an error in words' '
	rules front <<<"{\"method\": \"POST\", \"path\": \"/\", \"status\": 403, \"body\": \"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>\"}"
	test_code 4 b --profile worker cat k 2>err
	test_grep "STS refuses the role arn:aws:iam::123456789012:role/worker: AccessDenied: not you" err
	test_no_grep "base-secret" err
	rm front/rules
'

test_expect 'instance metadata, version 2' '
	unset AWS_EC2_METADATA_DISABLED
	export AWS_EC2_METADATA_SERVICE_ENDPOINT=$F
	rules front <<-E
		{"method": "PUT", "path": "/latest/api/token", "status": 200, "body": "imds-token"}
		{"path": "/latest/meta-data/iam/security-credentials/node", "status": 200, "body": "{\"AccessKeyId\":\"imds-key\",\"SecretAccessKey\":\"imds-secret\",\"Token\":\"imds-session\",\"Expiration\":\"2099-01-01T00:00:00Z\"}"}
		{"path": "/latest/meta-data/iam/security-credentials/", "status": 200, "body": "node"}
	E
	b cat k | cmp - small
	test_is "$(signed imds-key)" 1
	test_is "$(asked front "q[\"headers\"].get(\"x-aws-ec2-metadata-token\") == \"imds-token\"")" 2
	rm front/rules
'

test_expect 'a container, with a token of its own' '
	echo pod-token >pod
	export AWS_CONTAINER_CREDENTIALS_FULL_URI=$F/v1/credentials AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=$PWD/pod
	rules front <<-E
		{"path": "/v1/credentials", "status": 200, "body": "{\"AccessKeyId\":\"pod-key\",\"SecretAccessKey\":\"pod-secret\",\"Token\":\"pod-session\",\"Expiration\":\"2099-01-01T00:00:00Z\"}"}
	E
	b cat k | cmp - small
	test_is "$(signed pod-key)" 1
	test_is "$(asked front "q[\"headers\"].get(\"authorization\") == \"pod-token\"")" 1
	rules front <<<"{\"path\": \"/v1/credentials\", \"status\": 200, \"body\": \"pod-secret\"}"
	test_code 4 b cat k 2>err
	test_no_grep "pod-secret|pod-token" err
	rm front/rules
'

test_expect 'no credentials at all: what to do' '
	test_code 4 b cat k 2>err
	test_grep "no credentials for S3.*AWS_ACCESS_KEY_ID.*aws configure" err
'

test_done
