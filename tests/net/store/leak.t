#!/bin/bash
# No credential anywhere but in requests: not in what cairn says, however much it is asked to, its logs, its database, manifests, the store, the arguments or
# the environment of what it starts.
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/net.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"
export SERVER_KEY=leaktestkeyid SERVER_SECRET=LeakTestSecret/With+Odd==Parts TOKEN=LeakTestSessionToken-0123456789
server gw versitygw || test_bail 'versitygw does not start'
server_env gw versitygw
hostile front --no-tls --upstream "127.0.0.1:$(server_port gw)" || test_bail 'the hostile server does not start'
AWS_ENDPOINT_URL=http://127.0.0.1:$(port front http)
export AWS_ENDPOINT_URL AWS_MAX_ATTEMPTS=2

# Each step says what it can see of the engine and its helpers: arguments of all processes but this test's own servers, its own environment.
write project/pipeline.yaml <<'YAML'
pipeline: leak
params: {n: 1}
steps:
  look:
    run: |
      echo ${{ params.n }}
      env | sort
      for p in /proc/[0-9]*; do tr "\0" " " <$p/cmdline; echo; done 2>/dev/null | grep -v "versitygw" || :
      env | sort >${{ outputs.o }}
    outputs: {o: o.txt}
  fail:
    run: env; exit 3
    if: ${{ params.n == 2 }}
YAML
echo "store: s3://tbucket/leak" >project/cairn.yaml

# clean FILE...: none of them has the secret, the token, or either of them as URLs and JSON write it
clean() {
	python3 - "$@" <<-'E'
		import base64, json, os, sys, urllib.parse
		words = set()
		for v in (os.environ["SERVER_SECRET"], os.environ["TOKEN"]):
		    words |= {v, urllib.parse.quote(v, safe=""), json.dumps(v)[1:-1].replace("/", "\\/"), base64.b64encode(v.encode()).decode().rstrip("="), v.encode().hex()}
		bad, seen = [], 0
		for top in sys.argv[1:]:
		    files = [top] if os.path.isfile(top) else [os.path.join(d, f) for d, _, names in os.walk(top) for f in names]
		    for f in files:
		        with open(f, "rb") as h:
		            data = h.read()
		        seen += 1
		        bad += [f"{f}: {w}" for w in words if w.encode() in data]
		print(f"{seen} files looked at")
		sys.exit("\n".join(bad) if bad or not seen else 0)
	E
}
export -f clean

test_expect 'the search finds what it is for' '
	mkdir planted
	printf "x%sy" "$SERVER_SECRET" >planted/a
	test_must_fail clean planted
	printf "x%sy" "$(printf %s "$TOKEN" | base64)" | tr -d "=\n" >planted/a
	test_must_fail clean planted
	printf "https://x/?a=LeakTestSecret%%2FWith%%2BOdd%%3D%%3DParts" >planted/a
	test_must_fail clean planted
	echo nothing >planted/a
	clean planted
'
test_expect 'a run, its hits, its failures, with all that it can be made to say' '
	cairn -vv -C project run >run1 2>&1
	cairn -vv -C project run >run2 2>&1
	cairn -vv -C project run --json >run2.json 2>&1
	test_code 1 cairn -vv -C project run -p n=2 >run3 2>&1
	cairn -C project logs look >log
	test_grep "cairn" log # the processes were seen
	for what in "why look" "lineage look/o" "diff last last" "runs" "status" "metrics" "doctor" "store stat" "store probe" "store verify" "store push" "store pull" "store gc" "runs --json" "store stat --json"; do
		cairn -vv -C project $what >"said.${what// /-}" 2>&1 </dev/null || :
	done
	clean run1 run2 run2.json run3 log said.* project
'
test_expect 'the bucket has none, nor anything in it once it is unpacked' '
	test "$(find gw.data/tbucket/leak -type f | wc -l)" -ge 5
	clean gw.data/tbucket
	mkdir other
	cp project/*.yaml other
	cairn -C other store pull -q
	clean other
	cairn -C other run -q
	cairn -C other get -q look -o o
	clean other/o
'
test_expect 'errors: wrong keys, refused tokens, a server that is away or quotes what it was sent' '
	AWS_SECRET_ACCESS_KEY=x$SERVER_SECRET test_must_fail cairn -vv -C project store push >bad1 2>&1
	AWS_ACCESS_KEY_ID=nobody test_must_fail cairn -vv -C project store push >bad2 2>&1
	AWS_ENDPOINT_URL=http://127.0.0.1:$(port front refused) cairn -vv -C project run -p n=3 >bad3 2>&1 || :
	for status in 400 403 500; do
		rules front <<<"{\"status\": $status, \"body\": \"<Error><Code>InvalidToken</Code><Message>no</Message><Token>$TOKEN</Token><Secret>$SERVER_SECRET</Secret></Error>\"}"
		AWS_SESSION_TOKEN=$TOKEN cairn -vv -C project store push >bad4.$status 2>&1 || :
	done
	rm front/rules
	clean bad* project
'
test_expect 'keys of a file, of a process, of a web identity: as little' '
	mkdir -p "$HOME/.aws"
	cat >"$HOME/.aws/credentials" <<-E
		[filed]
		aws_access_key_id = $SERVER_KEY
		aws_secret_access_key = $SERVER_SECRET
	E
	printf "{\"Version\": 1, \"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"%s\"}" "$SERVER_KEY" "$SERVER_SECRET" >"$HOME/keys.json"
	printf "[profile asked]\ncredential_process = cat %s\n[profile broken]\ncredential_process = sh -c \"cat %s; exit 1\"\n" "$HOME/keys.json" "$HOME/keys.json" >"$HOME/.aws/config"
	unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
	for profile in filed asked; do
		AWS_PROFILE=$profile cairn -vv -C project run -p n="$([ $profile = filed ] && echo 41 || echo 42)" >said.$profile 2>&1
	done
	AWS_PROFILE=broken test_must_fail cairn -vv -C project store push >said.broken 2>&1
	echo "$TOKEN" >web
	AWS_WEB_IDENTITY_TOKEN_FILE=$PWD/web AWS_ROLE_ARN=arn:aws:iam::123456789012:role/web AWS_ENDPOINT_URL_STS=$AWS_ENDPOINT_URL cairn -vv -C project store push >said.web 2>&1 || :
	clean said.* project gw.data
'
if server_can moto && server sts moto; then
	test_expect "a session token: sent, and nowhere else" '
		AWS_ENDPOINT_URL=http://127.0.0.1:$(server_port sts)
		export AWS_SESSION_TOKEN=$TOKEN
		http PUT "$AWS_ENDPOINT_URL/tbucket" >/dev/null
		cairn -vv -C project run -p n=6 >tok1 2>&1
		cairn -vv -C project store push >tok2 2>&1
		cairn -vv -C other store pull >tok3 2>&1
		AWS_ENDPOINT_URL=http://127.0.0.1:$(server_port gw) test_must_fail cairn -vv -C project store push >tok4 2>&1 # it knows no such token
		test_grep "token is refused" tok4
		clean tok* project other
	'
else
	test_skip 'a session token' 'there is no moto: tests/net/servers.sh moto'
fi
test_expect 'a store on Google Cloud: no token, no refresh token' '
	echo "{\"type\":\"authorized_user\",\"client_id\":\"i\",\"client_secret\":\"$SERVER_SECRET\",\"refresh_token\":\"$TOKEN\",\"token_uri\":\"$AWS_ENDPOINT_URL/token\"}" >"$HOME/key.json"
	export GOOGLE_APPLICATION_CREDENTIALS=$HOME/key.json
	rules front <<-E
		{"path": "/token", "status": 200, "body": "{\"access_token\":\"$TOKEN\",\"expires_in\":3600}"}
		{"path": "/*", "status": 403, "body": "{\"error\":{\"code\":403,\"message\":\"not $TOKEN\"}}"}
	E
	printf "store: gs://tbucket/leak\nstore_options: {endpoint: \"%s\"}\n" "$AWS_ENDPOINT_URL" >project/cairn.yaml
	cairn -vv -C project run -p n=5 >gcs1 2>&1 || :
	cairn -vv -C project store push >gcs2 2>&1 || :
	test "$(asked front "q[\"headers\"].get(\"authorization\") == \"Bearer $TOKEN\"")" -ge 1
	clean project gcs1 gcs2
'
test_done
