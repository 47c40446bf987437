#!/bin/bash
# The registry's client: against the Distribution project's registry (tests/cluster/registry) with and without a password, and one that lies on request (registryd.py).
# shellcheck disable=SC2016 # expansions are the tests'
TEST_NEEDS_CAIRN=0
CAIRN_TEST_REGISTRY=${XDG_CACHE_HOME:-$HOME/.cache}/cairn-tests/cluster/bin/registry
export CAIRN_TEST_REGISTRY
. "$(dirname "$0")/../../lib.sh"

tool=$(test_tool registry_tool) || test_skip_all 'there is no registry_tool: build it'
export tool DOCKER_CONFIG=$TRASH/docker REGISTRY_PATIENCE_MS=20000
mkdir -p "$DOCKER_CONFIG" bad

openssl req -x509 -newkey rsa:2048 -nodes -keyout bad/key.pem -out bad/cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
start bad python3 "$SRC/tests/net/registry/registryd.py" "$PWD/bad"
wait_until 20 test -s bad/port || test_bail 'the lying registry does not start'
read -r port elsewhere secure <bad/port
export bad=127.0.0.1:$port elsewhere secure=localhost:$secure REGISTRY_PLAIN=127.0.0.1:$port
# shellcheck disable=SC2120 # the tests' scripts are strings: it is called with words there
mode() { # WORDS…: what is wrong from now on; the log begins anew
	echo "$*" >bad/mode
	: >bad/log
}
as() { # USER:PASSWORD: as whom Docker'\''s configuration lets us in
	printf '{"auths": {"%s": {"auth": "%s"}}}' "${2:-$bad}" "$(printf %s "$1" | base64)" >"$DOCKER_CONFIG/config.json"
}
nobody() { rm -f "$DOCKER_CONFIG/config.json"; }
export -f mode as nobody

head -c 2000000 /dev/urandom >small
head -c 40000000 /dev/urandom >large
"$tool" layout small.oci small >small.digest
"$tool" layout large.oci large >large.digest
nobody
mode

test_expect 'an image is sent, and its tag stands for it' '
	test_is "$("$tool" push small.oci "$bad/team/small:1")" "$(cat small.digest)"
	test_is "$("$tool" resolve "$bad/team/small:1")" "$(cat small.digest)"
	test_is "$("$tool" resolve "$bad/team/small:1" linux/amd64)" "$(cat small.digest) $(cat small.digest)"
	test_is "$("$tool" resolve "$bad/team/small@$(cat small.digest)")" "$(cat small.digest)"
'
test_expect 'a registry on this machine may speak HTTP without having been named so' '
	test_is "$(REGISTRY_PLAIN= "$tool" resolve "$bad/team/small:1")" "$(cat small.digest)"
'
test_expect 'what is there already is not sent again' '
	mode
	"$tool" push small.oci "$bad/team/small:2" >out
	test_no_grep "POST|PATCH" bad/log
'
test_expect 'a large layer goes up in pieces' '
	mode
	test_is "$("$tool" push large.oci "$bad/team/large:1")" "$(cat large.digest)"
	test_is "$(grep -c PATCH bad/log)" 3
'
test_expect 'a layer without a byte' '
	mode
	cp -r small.oci none.oci
	python3 - none.oci >none.digest <<-"P"
		import hashlib, json, os, sys
		def blob(data):
		    digest = hashlib.sha256(data).hexdigest()
		    open(os.path.join(sys.argv[1], "blobs/sha256", digest), "wb").write(data)
		    return "sha256:" + digest
		index = json.load(open(os.path.join(sys.argv[1], "index.json")))
		m = index["manifests"][0]
		manifest = json.load(open(os.path.join(sys.argv[1], "blobs", m["digest"].replace(":", "/"))))
		manifest["layers"].append({**manifest["layers"][0], "size": 0, "digest": blob(b"")})
		data = json.dumps(manifest).encode()
		m.update(digest=blob(data), size=len(data))
		json.dump(index, open(os.path.join(sys.argv[1], "index.json"), "w"))
		print(m["digest"])
	P
	test_is "$("$tool" push none.oci "$bad/team/none:1")" "$(cat none.digest)"
'
test_expect 'an upload that is torn goes on from what arrived' '
	rm -rf other.oci
	head -c 50000000 /dev/urandom >other
	"$tool" layout other.oci other >other.digest
	mode tear
	test_is "$("$tool" push other.oci "$bad/team/other:1")" "$(cat other.digest)"
	test_grep "registry GET /v2/team/other/blobs/uploads/" bad/log
'
test_expect 'an upload of which more arrived than was sent' '
	head -c 20000000 /dev/urandom >third
	rm -rf third.oci
	"$tool" layout third.oci third >third.digest
	mode lie
	test_code 3 "$tool" push third.oci "$bad/team/third:1" 2>err
	test_grep "bytes arrived" err
'
test_expect 'a registry that takes each piece and keeps none is given up' '
	mode forget
	REGISTRY_PATIENCE_MS=300 test_code 4 timeout 60 "$tool" push third.oci "$bad/team/third:1" 2>err
	test_grep "says each time that 0 bytes have arrived" err
'
test_expect 'an upload that goes on elsewhere is sent there, without our credentials' '
	mode upload-away basic
	as u:p
	"$tool" push third.oci "$bad/team/third:1"
	test_grep "^elsewhere P(ATCH|UT) .* -$" bad/log
	test_no_grep "^elsewhere .* (Basic|Bearer)$" bad/log
	nobody
'
test_expect 'a registry that takes the manifest for another' '
	mode wrong-put
	test_code 3 "$tool" push small.oci "$bad/team/small:3" 2>err
	test_grep "took the manifest for one of digest" err
'
test_expect 'a layout that was changed is not sent' '
	head -c 10000 /dev/urandom >damaged
	"$tool" layout damaged.oci damaged >out
	layer=$(ls -S damaged.oci/blobs/sha256 | sed -n 1p)
	echo x >>"damaged.oci/blobs/sha256/$layer"
	mode
	test_code 4 "$tool" push damaged.oci "$bad/team/damaged:1" 2>err
	test_grep "bytes instead of" err
'

test_expect 'a token: by password, by refresh token, for nobody' '
	mode token
	as u:p
	test_is "$("$tool" resolve "$bad/team/small:1")" "$(cat small.digest)"
	test_grep "GET /token\?x=1&service=test&scope=repository%3Ateam%2Fsmall%3Apull Basic" bad/log
	as u:wrong
	test_code 3 "$tool" resolve "$bad/team/small:1" 2>err
	test_grep "docker login" err
	test_no_grep wrong err
	printf "{\"auths\": {\"%s\": {\"identitytoken\": \"R\"}}}" "$bad" >"$DOCKER_CONFIG/config.json"
	test_is "$("$tool" resolve "$bad/team/small:1")" "$(cat small.digest)"
	test_grep "POST /token" bad/log
	nobody
	test_code 3 "$tool" resolve "$bad/team/small:1" 2>err
'
test_expect 'a token that is good for one request is asked for anew' '
	mode token-once
	as u:p
	"$tool" push small.oci "$bad/team/again:1"
	test_is "$(cat small.digest)" "$("$tool" resolve "$bad/team/again:1")"
	nobody
'
test_expect 'no password is said to a realm in the clear, when it is another machine'\''s' '
	as u:p "$secure"
	for realm in http://realm.example/token http://127.0.0.1.realm.example/token ftp://127.0.0.1/token; do
		mode token realm=$realm
		SSL_CERT_FILE=$PWD/bad/cert.pem test_code 3 "$tool" resolve "$secure/team/small:1" 2>err
		test_grep "isn.t reached over TLS" err
	done
	nobody
'
test_expect 'a password' '
	mode basic
	test_code 3 "$tool" resolve "$bad/team/small:1" 2>err
	test_grep "without credentials.*docker login" err
	as u:p
	test_is "$("$tool" resolve "$bad/team/small:1")" "$(cat small.digest)"
	as u:wrong
	test_code 3 "$tool" resolve "$bad/team/small:1" 2>err
	test_no_grep "wrong|dTp3cm9uZw" err
	nobody
'

test_expect 'busy, down, cut off: waited for' '
	for wrong in busy=3 down=2 cut=2; do
		mode "$wrong"
		test_is "$("$tool" resolve "$bad/team/small:1")" "$(cat small.digest)"
	done
'
test_expect 'not for ever' '
	mode busy=100000
	REGISTRY_PATIENCE_MS=500 test_code 4 "$tool" resolve "$bad/team/small:1" 2>err
	test_grep "answers 429 about" err
'
test_expect 'no such tag, no such registry' '
	mode
	test_code 4 "$tool" resolve "$bad/team/small:nine" 2>err
	test_grep "has no image $bad/team/small:nine" err
	test_code 4 "$tool" resolve "$bad/team/small:nine" linux/amd64 2>err
	test_grep "small:nine: manifest unknown" err
	REGISTRY_PATIENCE_MS=300 test_code 4 "$tool" resolve 127.0.0.1:1/team/small:1 2>err
	test_lines 1 err
'
test_expect 'digests that lie' '
	mode body
	test_code 3 "$tool" resolve "$bad/team/small:1" linux/amd64 2>err
	test_grep "gave a manifest of digest sha256:.* instead of" err
	mode header
	test_code 3 "$tool" resolve "$bad/team/small:1" linux/amd64 2>err
	test_code 3 "$tool" resolve "$bad/team/small@$(cat small.digest)" 2>err
	test_grep "says that its digest is" err
	mode no-header body
	test_code 3 "$tool" resolve "$bad/team/small@$(cat small.digest)" 2>err
'
test_expect 'no digest in the header, no HEAD: the bytes say it' '
	for wrong in no-header no-head "no-head no-header"; do
		mode $wrong
		test_is "$("$tool" resolve "$bad/team/small:1")" "$(cat small.digest)"
	done
'
test_expect 'an index: its own digest for pods, and that of the platform' '
	mode index
	"$tool" resolve "$bad/team/small:1" linux/arm64 >out
	test_grep "^sha256:[0-9a-f]{64} sha256:$(printf arm64 | sha256sum | cut -c 1-64)$" out
	test_code 4 "$tool" resolve "$bad/team/small:1" linux/s390x 2>err
	test_grep "isn.t made for linux/s390x; there is: linux/arm64, linux/amd64" err
'
test_expect 'answers that are too large, or none' '
	mode huge no-head
	test_must_fail "$tool" resolve "$bad/team/small:1" 2>err
	test_lines 1 err
	mode rubbish
	test_code 3 "$tool" resolve "$bad/team/small:1" linux/amd64 2>err
	test_lines 1 err
'
test_expect 'redirects: blobs elsewhere without our credentials, no circles, no other protocols' '
	mode away basic
	as u:p
	"$tool" push small.oci "$bad/team/small:5"
	test_grep "^elsewhere HEAD .* -$" bad/log
	test_no_grep "^elsewhere .* (Basic|Bearer)$" bad/log
	nobody
	mode loop
	test_code 3 "$tool" resolve "$bad/team/small:1" 2>err
	test_grep "round in circles" err
	mode cleartext
	test_code 3 "$tool" resolve "$bad/team/small:1" 2>err
	test_grep "to a URL that is not allowed" err
'

# A step's own Secret, in a cluster that has nothing but Secrets.
if command -v cairn >/dev/null; then
	mkdir -p api project
	start api python3 "$SRC/tests/net/kubernetes/kubeapi.py" "$PWD/api"
	wait_until 20 test -s api/port || test_bail 'the API server does not start'
	secret() { # NAME USER:PASSWORD
		python3 - "$@" <<-'P'
			import base64, json, os, sys, urllib.request
			auth = base64.b64encode(sys.argv[2].encode()).decode()
			config = json.dumps({"auths": {os.environ["bad"]: {"auth": auth}}})
			body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": sys.argv[1]}, "type": "kubernetes.io/dockerconfigjson",
			        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()}}
			url = f"http://127.0.0.1:{open('api/port').read().strip()}/api/v1/namespaces/lab/secrets"
			urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}))
		P
	}
	cat >project/kubeconfig <<-E
		apiVersion: v1
		kind: Config
		current-context: here
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:$(cat api/port)/"}}]
		users: [{name: u, user: {}}]
		contexts: [{name: here, context: {cluster: c, user: u, namespace: lab}}]
	E
	cat >project/cairn.yaml <<-E
		store: $PWD/store
		kubernetes:
		  kubeconfig: kubeconfig
		  image: registry.test/cairn@sha256:$(printf '%064d' 7)
		  store_claim: store
	E
	pipeline() { # SECRET…: of the step
		cat >project/pipeline.yaml <<-E
			pipeline: small
			steps:
			  t: {run: "true", image: "$bad/team/small:1", kubernetes: {image_pull_secrets: [$*]}}
		E
	}
	objects() { (cd project && timeout 60 cairn run --on kubernetes --dry-run=client); }
	export -f secret pipeline objects
	test_expect 'a step.s own Secret lets its image be asked for' '
		nobody
		secret mine u:p
		secret wrong u:wrong
		mode basic
		pipeline
		test_code 3 objects 2>err
		test_grep "step .t.: image .*without credentials" err
		pipeline mine
		objects >out
		test_grep "image: .*$bad/team/small@$(cat small.digest)" out
		test_grep "name: .?mine" out
		pipeline missing, mine
		objects >out
		test_grep "small@$(cat small.digest)" out
		pipeline wrong
		test_code 3 objects 2>err
		test_no_grep "dTp3cm9uZw" err
		mode
	'
	test_expect 'a credential that is refused: the next one is tried, in order; none that is taken: all of them are named' '
		secret other u:other
		cp project/cairn.yaml cairn.was
		test_when_finished "mv cairn.was project/cairn.yaml; nobody; mode"
		for m in basic token "token token-once" "basic forbids"; do
			mode $m
			nobody
			pipeline wrong, other, mine
			objects >out
			test_grep "small@$(cat small.digest)" out
			pipeline wrong
			echo "  image_pull_secrets: [other, mine]" >>project/cairn.yaml
			objects >out
			test_grep "small@$(cat small.digest)" out
			cp cairn.was project/cairn.yaml
			as u:p
			objects >out
			test_grep "small@$(cat small.digest)" out
			as u:wrong
			pipeline other, missing, wrong
			test_code 3 objects 2>err
			test_lines 1 err
			test_grep "refuses the credentials for $bad/team/small:1 from image pull secret .other., image pull secret .wrong., Docker.s configuration .status 40[13]" err
			test_no_grep "dTp3cm9uZw" err
		done
	'
	test_expect 'where several steps name an image, the Secret of one is enough; cairn.yaml.s are for all' '
		mode basic
		pipeline
		echo "  u: {run: \"echo u\", image: \"$bad/team/small:1\", kubernetes: {image_pull_secrets: [mine]}}" >>project/pipeline.yaml
		objects >out
		test_is "$(grep -c "image: .*small@" out)" 2
		pipeline
		cp project/cairn.yaml cairn.was
		test_when_finished "mv cairn.was project/cairn.yaml"
		echo "  image_pull_secrets: [mine]" >>project/cairn.yaml
		objects >out
		test_grep "small@$(cat small.digest)" out
		mode
	'
fi

if [ -x "$CAIRN_TEST_REGISTRY" ]; then
	port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
	open=127.0.0.1:$(port) locked=127.0.0.1:$(port) tls=localhost:$(port)
	export open locked tls
	start open "$SRC/tests/cluster/registry/serve" "$PWD/open.d" "$open"
	start locked "$SRC/tests/cluster/registry/serve" "$PWD/locked.d" "$locked" u:p
	start tls "$SRC/tests/cluster/registry/serve" "$PWD/tls.d" "127.0.0.1:${tls#*:}" - "$PWD/bad/cert.pem" "$PWD/bad/key.pem"
	up() { (exec 3<>"/dev/tcp/127.0.0.1/${1#*:}") 2>/dev/null; }
	wait_until 20 up "$open" && wait_until 20 up "$locked" && wait_until 20 up "$tls" || test_bail 'the registry does not start'

	test_expect 'a real registry: small and large, twice, and their tags' '
		for name in small large; do
			test_is "$("$tool" push $name.oci "$open/team/$name:1")" "$(cat $name.digest)"
			test_is "$("$tool" push $name.oci "$open/team/$name:2")" "$(cat $name.digest)"
			test_is "$("$tool" resolve "$open/team/$name:2" linux/amd64)" "$(cat $name.digest) $(cat $name.digest)"
		done
		test_code 4 "$tool" resolve "$open/team/small:3" 2>err
		test_code 4 "$tool" resolve "$open/nobody/small:1" 2>err
	'
	test_expect 'a real registry with a password' '
		test_code 3 "$tool" push small.oci "$locked/team/small:1" 2>err
		test_grep "docker login $locked" err
		as u:p "$locked"
		test_is "$("$tool" push small.oci "$locked/team/small:1")" "$(cat small.digest)"
		test_is "$("$tool" resolve "$locked/team/small:1")" "$(cat small.digest)"
		as u:wrong "$locked"
		test_code 3 "$tool" resolve "$locked/team/small:1" 2>err
		nobody
	'
	test_expect 'a real registry over TLS' '
		SSL_CERT_FILE=$PWD/bad/cert.pem "$tool" push small.oci "$tls/team/small:1" >out
		test_is "$(cat out)" "$(cat small.digest)"
	'
else
	test_skip 'a real registry' 'not built: tests/cluster/build'
fi
test_done
