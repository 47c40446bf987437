#!/bin/bash
# The Kubernetes client against an API server that keeps its objects in memory and misbehaves on request (kubeapi.py): kubeconfig, credentials, retries, lists, watches.
# shellcheck disable=SC2016 # expansions are the tests'
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"
kube_tool

pods=/api/v1/namespaces/lab/pods
pod() { printf '{"metadata":{"name":"%s","labels":{"app":"%s"}}}' "$1" "${2:-x}"; }
add() { local p; for p; do kube call POST "$pods" "$(pod "$p")" >/dev/null || return 1; done; }

kube_api one || test_bail 'the API server does not start'
kube_config one >kubeconfig
export KUBECONFIG=$PWD/kubeconfig

# ---- kubeconfig ----------------------------------------------------------------------------------------------------

test_expect 'a kubeconfig says where and as whom' '
	kube access >out
	test_is "$(json out "\" \".join(map(str, (d[\"namespace\"], d[\"context\"], d[\"server\"].startswith(\"http://127.0.0.1\"))))")" "lab here True"
'

test_expect 'several files: the first that names a thing wins; paths are seen from the file' '
	mkdir -p "a dir" b.d
	printf "PEM of a\n" >"a dir/ca.pem"
	cat >"a dir/one.yaml" <<-E
		current-context: mine
		clusters: [{name: c, cluster: {server: https://one.example:6443, certificate-authority: ca.pem, tls-server-name: kubernetes}}]
	E
	cat >b.d/two.yaml <<-E
		current-context: theirs
		clusters: [{name: c, cluster: {server: https://two.example}}]
		users: [{name: u, user: {token: abc, as: somebody}}]
		contexts: [{name: mine, context: {cluster: c, user: u}}, {name: theirs, context: {cluster: c}}]
	E
	KUBECONFIG="a dir/one.yaml:not-there:b.d/two.yaml" kube access >out
	test_is "$(json out "\" \".join(str(d[k]) for k in (\"server\", \"ca\", \"token\", \"context\", \"as\", \"namespace\", \"tls_server_name\"))")" \
		"https://one.example:6443 9 3 mine somebody default kubernetes"
	test_code 4 kube --context nobody access 2>err
	test_grep "no context .nobody.; there are: here" err
	KUBECONFIG="a dir/one.yaml:b.d/two.yaml" test_code 4 kube --context nobody access 2>err
	test_grep "there are: mine, theirs" err
'

test_expect 'what is wrong with a kubeconfig is said with its place' '
	printf "clusters: [{name: c, cluster: {server: [1]}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n" >bad
	KUBECONFIG=bad test_code 4 kube access 2>err
	test_grep "bad:1:40: must be text" err
	printf "clusters: [{name: c, cluster: {server: https://x, certificate-authority-data: \"&&\"}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n" >bad
	KUBECONFIG=bad test_code 4 kube access 2>err
	test_grep "bad:1:[0-9]+: is not base64" err
	printf "a: b: c\n" >bad
	KUBECONFIG=bad test_code 4 kube access 2>err
	test_grep "bad:1:" err
	KUBECONFIG=/nowhere/config test_code 4 kube access 2>err
	test_grep "no kubeconfig was found" err
	printf "clusters: [{name: c, cluster: {server: https://x}}]\nusers: [{name: u, user: {client-key-data: YQ==}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n" >bad
	KUBECONFIG=bad test_code 4 kube access 2>err
	test_grep "belong together" err
'

test_expect 'in a pod: its service account' '
	KUBECONFIG= HOME=/nowhere KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=443 test_code 4 kube access 2>err
	test_grep "the pod.s service account" err
'

# ---- requests ------------------------------------------------------------------------------------------------------

test_expect 'create, read, patch, delete' '
	kube call POST "$pods" "$(pod first)" >out
	test_grep "^201 1$" out
	kube call GET "$pods/first" >out
	test_grep "\"name\":\"first\"" out
	kube call PATCH "$pods/first" "{\"metadata\":{\"labels\":{\"b\":\"c\"}}}" application/merge-patch+json >out
	test_grep "\"b\":\"c\"" out
	test_code 4 kube call POST "$pods" "$(pod first)" >out 2>err
	test_grep "code: 4" err # ERR_EXISTS
	test_code 4 kube call DELETE "$pods/first" "{\"preconditions\":{\"uid\":\"other\"}}" >out 2>err
	test_grep "409: the UID in the precondition does not match" err
	kube call DELETE "$pods/first" >out
	test_code 4 kube call GET "$pods/first" >out 2>err
	test_grep "404: pods .first. not found" err
'

test_expect 'answers that ask for patience are waited for; what may not be repeated is not' '
	faults one <<-E
		{"match": "POST *", "do": "status", "code": 429, "after": 0, "times": 3}
		{"match": "GET */again", "do": "status", "code": 500, "times": 2}
		{"match": "DELETE *", "do": "status", "code": 500, "times": 1}
		{"match": "GET */cut", "do": "reset", "times": 2}
	E
	kube call POST "$pods" "$(pod again)" >out
	test_grep "^201 4$" out
	kube call GET "$pods/again" >out
	test_grep "^200 3$" out
	test_code 4 kube call DELETE "$pods/again" >out 2>err
	test_grep "^500 1$" out
	kube call POST "$pods" "$(pod cut)" >/dev/null
	kube call GET "$pods/cut" >out
	test_grep "^200 3$" out
	kube call DELETE "$pods/cut"
	kube call DELETE "$pods/again"
'

test_expect 'a create that may be repeated, and whose answer got lost, finds its own object' '
	faults one <<-E
		{"match": "POST *", "do": "reset", "times": 1}
	E
	kube call POST "$pods" "$(pod mine)" repeatable >out
	test_grep "^201 2$" out
	kube call DELETE "$pods/mine"
'

test_expect 'a refusal in the server'"'"'s words' '
	faults one <<-E
		{"match": "POST *", "do": "status", "code": 403, "reason": "Forbidden", "message": "pods is forbidden: User u cannot create resource pods"}
		{"match": "POST *", "do": "status", "code": 422, "reason": "Invalid", "message": "Pod x is invalid: spec.containers: Required value"}
		{"match": "POST *", "do": "status", "code": 403, "reason": "Forbidden", "message": "pods \"y\" is forbidden: exceeded quota: compute, requested: requests.cpu=1, used: requests.cpu=2, limited: requests.cpu=2"}
		{"match": "POST *", "do": "status", "code": 403, "reason": "Forbidden", "message": "admission webhook \"v.example\" denied the request: pods \"y\" is forbidden: exceeded quota: of its owner"}
	E
	for want in "cannot create resource pods" "Required value" "exceeded quota: compute" "denied"; do
		test_code 4 kube call POST "$pods" "$(pod x)" >out 2>err
		test_grep "$want" err
		[ "$want" != "exceeded quota: compute" ] || test_grep "code: 7" err # ERR_NO_SPACE
	done
	test_no_grep "code: 7" err
'

test_expect 'who asks as somebody else does so with all of his groups' '
	groups=$(seq -s ", " -f "\"g%g\"" 60)
	kube_config one "as: somebody, as-groups: [$groups]" >groups.yaml
	KUBECONFIG=groups.yaml kube call GET "$pods" >out
	tail -n 1 one/log >line
	test_is "$(json line "[d[\"as\"], d[\"groups\"]]")" "[\"somebody\", 60]"
'

test_expect 'nobody listens: one clear error' '
	sed "s/127.0.0.1:[0-9]*/127.0.0.1:1/" kubeconfig >dead
	KUBECONFIG=dead test_code 4 kube call POST "$pods" "$(pod x)" >out 2>err
	test_grep "Kubernetes at http://127.0.0.1:1: POST 127.0.0.1:1$pods: .*(refused|connect)" err
'

# ---- who we are ------------------------------------------------------------------------------------------------------

echo secret-1 >token
kube_api guarded --token "$PWD/token" || test_bail 'the API server does not start'

test_expect 'a token file is read again when it is refused' '
	kube_config guarded "tokenFile: token" >guarded.yaml
	export KUBECONFIG=$PWD/guarded.yaml
	kube call GET /version >out
	test_grep fake out
	echo wrong >held; sed "s/tokenFile: token/tokenFile: held/" guarded.yaml >held.yaml
	KUBECONFIG=held.yaml test_code 4 kube call GET /version >out 2>err
	test_grep "401: Unauthorized" err
	test_no_grep wrong err
'

test_expect 'a program gives the token; it is asked again when that is refused' '
	cat >plugin <<-"E"
		#!/bin/sh
		echo "$KUBERNETES_EXEC_INFO" >>asked
		echo asked >>count
		[ "$(wc -l <count)" -gt 1 ] && t=$(cat token) || t=old
		echo "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"$t\"}}"
	E
	chmod +x plugin
	kube_config guarded "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never, provideClusterInfo: true, args: [\"a b\"], env: [{name: X, value: y}]}" >exec.yaml
	KUBECONFIG=exec.yaml kube call GET /version >out
	test_grep "^200 2$" out
	test_is "$(json <(tail -n 1 asked) "\" \".join(map(str, (d[\"kind\"], d[\"spec\"][\"cluster\"][\"server\"].startswith(\"http://127\"), d[\"spec\"][\"interactive\"])))")" "ExecCredential True False"
	sed "s/.\/plugin/no-such-plugin/; s/interactiveMode/installHint: \"get it from the vendor\", interactiveMode/" exec.yaml >nope.yaml
	KUBECONFIG=nope.yaml test_code 4 kube call GET /version >out 2>err
	test_grep "no-such-plugin.*get it from the vendor" err
	printf "#!/bin/sh\nexit 3\n" >plugin
	KUBECONFIG=exec.yaml test_code 4 kube call GET /version >out 2>err
	test_grep "failed with exit code 3" err
	printf "#!/bin/sh\necho secret-stuff\n" >plugin
	KUBECONFIG=exec.yaml test_code 4 kube call GET /version >out 2>err
	test_grep "is no ExecCredential" err
	test_no_grep secret-stuff err
'

test_expect 'a client certificate, inline, over TLS with a private authority and a server name' '
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.crt 2>/dev/null
	for who in server client; do
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$who" -keyout $who.key -out $who.csr 2>/dev/null
		openssl x509 -req -in $who.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile <(echo "subjectAltName=DNS:kubernetes.lab") -out $who.crt 2>/dev/null
	done
	kube_api tls --tls server.crt server.key ca.crt
	cat >tls.yaml <<-E
		current-context: x
		clusters: [{name: c, cluster: {server: "https://127.0.0.1:$(cat tls/port)", tls-server-name: kubernetes.lab, certificate-authority-data: $(base64 -w0 ca.crt)}}]
		users: [{name: u, user: {client-certificate-data: $(base64 -w0 client.crt), client-key: client.key}}]
		contexts: [{name: x, context: {cluster: c, user: u}}]
	E
	KUBECONFIG=tls.yaml kube call GET /version >out
	test_grep fake out
	sed "s/, tls-server-name: kubernetes.lab//" tls.yaml >name.yaml
	KUBECONFIG=name.yaml test_code 4 kube call GET /version >out 2>err
	test_grep "code: 2" err # ERR_INVALID: not a certificate of 127.0.0.1
	sed "s/certificate-authority-data: [^}]*/insecure-skip-tls-verify: true/" name.yaml >insecure.yaml
	KUBECONFIG=insecure.yaml kube call GET /version >out
'

by_plugin() { kube_config guarded "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}" >plugin.yaml; }
test_expect 'a program that gives another certificate each time is asked twice a request, not under the lock' '
	cat >plugin <<-"E"
		#!/bin/sh
		echo asked >>asked.certs
		cat <<-J
			{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"$(cat token)","expirationTimestamp":"2020-01-01T00:00:00Z",
			"clientCertificateData":"certificate $(wc -l <asked.certs)","clientKeyData":"key"}}
		J
	E
	chmod +x plugin
	by_plugin
	: >asked.certs
	KUBECONFIG=plugin.yaml kube call GET /version >out
	test_lines 3 asked.certs # one for the first connection
'

# ---- lists -------------------------------------------------------------------------------------------------------------

kube_api many || test_bail 'the API server does not start'
kube_config many >many.yaml
cat >jobs.py <<'P'
import http.client, json, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for i in range(1001):
    meta = {"name": f"j{i}", "labels": {"app.kubernetes.io/managed-by": "cairn", "cairn.internal/project": "p", "cairn.internal/run": sys.argv[2]}}
    meta["finalizers"] = ["example.com/held"] if i % 2 else []
    meta["name"] += sys.argv[2]
    c.request("POST", "/apis/batch/v1/namespaces/lab/jobs", json.dumps({"metadata": meta}))
    c.getresponse().read()
P
test_expect 'the Jobs of a run are deleted once each, however many there are and whatever holds them' '
	python3 jobs.py "$(cat many/port)" r
	KUBECONFIG=many.yaml timeout 60 "$tool" delete-run p r >out
	test_is "$(cat out)" 1001
	test_is "$(asked many "DELETE")" 1001
	test_is "$(asked many "\"GET\"")" 12 # three pages of Jobs, and a look for each of nine kinds of objects of operators
	KUBECONFIG=many.yaml timeout 60 "$tool" delete-run p r >out # what is on its way out is left alone
	test_is "$(cat out)" 0
'

test_expect 'a list whose rest the server has forgotten is read again, and not for ever' '
	faults many <<<"{\"match\": \"GET *continue*\", \"do\": \"status\", \"code\": 410, \"reason\": \"Expired\", \"times\": 2}"
	python3 jobs.py "$(cat many/port)" s
	KUBECONFIG=many.yaml timeout 60 "$tool" delete-run p s >out
	test_is "$(cat out)" 1001
	faults many <<<"{\"match\": \"GET *continue*\", \"do\": \"status\", \"code\": 410, \"reason\": \"Expired\", \"times\": 100}"
	python3 jobs.py "$(cat many/port)" s
	KUBECONFIG=many.yaml test_code 4 timeout 60 "$tool" delete-run p s >out 2>err
	test_grep 410 err
	faults many <<<"{\"match\": \"LIST *\", \"do\": \"same-page\", \"times\": 100}"
	KUBECONFIG=many.yaml test_code 4 timeout 60 "$tool" delete-run p s >out 2>err
	test_grep "goes on at the same place" err
'

# ---- watches ----------------------------------------------------------------------------------------------------------

# watching NAME OPTIONS -- ARGS: a watch in the background, its events in NAME.out, until `unwatch NAME`.
watching() {
	local name=$1
	shift
	rm -f "$name.in" "$name.out" "$name.err" # what an earlier watch said isn't this one's
	mkfifo "$name.in"
	"$tool" "$@" <"$name.in" >"$name.out" 2>"$name.err" &
	eval "watch_$name=$!"
	exec {watch_fd}>"$name.in"
}
unwatch() {
	local pid
	exec {watch_fd}>&-
	eval "pid=\$watch_$1"
	wait "$pid"
}
saw() { grep -qxF -- "$2" "$1.out"; }
sees() { wait_until 60 saw "$1" "$2"; }
export KUBECONFIG=$PWD/kubeconfig

test_expect 'a watch tells what is there and what changes, as a stream' '
	add p1 p2
	watching w watch "" v1 pods
	sees w end
	add p3
	kube call DELETE "$pods/p1" >/dev/null
	sees w "deleted p1"
	test_is "$(tr "\n" " " <w.out)" "begin added p1 added p2 end added p3 deleted p1 "
	unwatch w
	asked one "sendInitialEvents" >n
	test_is "$(cat n)" 1
'

test_expect 'by pages, where the server has no such streams; labels select' '
	faults one <<<"{\"match\": \"GET *\", \"do\": \"no-watchlist\", \"times\": 1}"
	for i in 1 2 3 4 5; do kube call POST "$pods" "$(pod "q$i" q)" >/dev/null; done
	watching w --page 2 watch "" v1 pods app=q
	sees w end
	test_is "$(tr "\n" " " <w.out)" "begin begin added q1 added q2 added q3 added q4 added q5 end "
	add p4
	kube call POST "$pods" "$(pod q6 q)" >/dev/null
	sees w "added q6"
	unwatch w
	test_is "$(asked one "\"continue\"")" 2
	test_no_grep p4 w.out
'

test_expect 'a page has a hundred objects: more take too much memory as a tree' '
	for i in $(seq 101); do kube call POST "$pods" "$(pod "r$i" r)" >/dev/null; done
	watching w --no-stream watch "" v1 pods app=r
	sees w end
	test_is "$(grep -c added w.out)" 101
	unwatch w
	test_is "$(grep "\"app=r\"" one/log | grep -c "\"limit\": \"100\"")" 2
'

test_expect 'a list that goes on at the same place for ever is trouble, and asked for again' '
	faults one <<-E
		{"match": "GET *", "do": "no-watchlist", "times": 1}
		{"match": "LIST *", "do": "same-page", "times": 2}
	E
	watching w --page 2 watch "" v1 pods app=q
	sees w end
	unwatch w
	test_grep "trouble: .*goes on at the same place" w.err
'

test_expect '410 as an answer, and as an event in mid-stream: listed anew' '
	faults one <<<"{\"match\": \"WATCH *\", \"do\": \"event-410\", \"times\": 1}"
	watching w watch "" v1 pods
	sees w end
	add p5
	wait_until 60 eval "[ \$(grep -c ^end w.out) -ge 2 ]"
	tail -n +"$(grep -n ^begin w.out | tail -n 1 | cut -d: -f1)" w.out >last
	test_grep "^added p5" last
	unwatch w
	watching w --no-stream watch "" v1 pods
	sees w end
	faults one <<<"{\"match\": \"GET *watch=1*\", \"do\": \"status\", \"code\": 410, \"reason\": \"Expired\", \"times\": 1}"
	kube_ask one POST /_end
	wait_until 60 eval "[ \$(grep -c ^end w.out) -ge 2 ]"
	unwatch w
'

test_expect 'half a frame, nonsense, the same event twice, a stream that ends: nothing is lost' '
	for bad in half garbage twice; do
		faults one </dev/null
		watching w watch "" v1 pods
		sees w end
		faults one <<<"{\"match\": \"WATCH *\", \"do\": \"$bad\", \"times\": 1}"
		add "x-$bad" "y-$bad"
		sees w "added x-$bad"
		sees w "added y-$bad"
		kube_ask one POST /_end
		add "z-$bad"
		sees w "added z-$bad"
		unwatch w
	done
'

test_expect 'an event without an end is cut off, in bounded memory' '
	watching w watch "" v1 pods
	sees w end
	faults one <<<"{\"match\": \"WATCH *\", \"do\": \"huge\", \"times\": 1}"
	add huge
	sees w "added huge"
	test "$(sed -n "s/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$watch_w/status")" -lt 300000
	unwatch w
'

test_expect 'a silent connection is found dead' '
	watching w --quiet-ms 1500 watch "" v1 pods
	sees w end
	faults one <<<"{\"match\": \"WATCH *\", \"do\": \"silent\", \"times\": 1}"
	add unheard
	sees w "added unheard"
	unwatch w
'

test_expect 'an event that the server forgot shows in the list that each watch makes again after a while' '
	kube_ask one POST /_end # a watch that nobody reads any more would forget it
	watching w --resync-ms 100 watch "" v1 pods
	sees w end
	faults one <<<"{\"match\": \"WATCH *\", \"do\": \"forgets\", \"times\": 1}"
	add forgotten
	add remembered
	sees w "added remembered"
	test_no_grep forgotten w.out
	kube_ask one POST /_end
	sees w "added forgotten"
	unwatch w
	watching w watch "" v1 pods # and not each time that a watch ends
	sees w end
	kube_ask one POST /_end
	add once-more
	sees w "added once-more"
	test_is "$(grep -c ^begin w.out)" 1
	unwatch w
'

test_expect 'a date that is none is no date: the program is asked again' '
	cat >plugin <<-"E"
		#!/bin/sh
		echo asked >>asked.dates
		until=$(date -u -d "+5 seconds" +%FT%TZ)
		if rm bad.date 2>/dev/null; then until=soon; fi
		echo "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"$(cat token)\",\"expirationTimestamp\":\"$until\"}}"
	E
	chmod +x plugin
	by_plugin
	KUBECONFIG=plugin.yaml watching w watch "" v1 pods
	sees w end
	: >asked.dates >bad.date
	kube_ask guarded POST /_end
	asked_again() { [ "$(wc -l <asked.dates)" -ge 3 ]; }
	wait_until 30 asked_again
	unwatch w
	test_grep "expirationTimestamp. is no time" w.err
'

test_expect 'a server that is away: told once, and when it is back, before anything else' '
	faults one <<<"{\"match\": \"GET *pods*\", \"do\": \"status\", \"code\": 500, \"times\": 3}"
	watching w --no-stream watch "" v1 pods
	sees w end
	unwatch w
	test_grep "^trouble: .*500" w.err
	test_is "$(tail -n 1 w.err)" "trouble: over"
	test_is "$(grep -c over w.err)" 1
'
over() { grep -q "^trouble: over" w.err; }
test_expect 'a server that is back is told while its stream goes on, with events or without' '
	faults one <<<"{\"match\": \"GET *pods*\", \"do\": \"status\", \"code\": 500, \"times\": 1}"
	watching w watch "" v1 pods
	wait_until 60 over
	sees w end
	test_is "$(grep -c . w.err)" 2
	unwatch w
	watching w watch "" v1 pods
	sees w end
	faults one <<<"{\"match\": \"GET *pods*\", \"do\": \"status\", \"code\": 500, \"times\": 1}"
	kube_ask one POST /_end
	wait_until 60 over
	unwatch w
'
test_expect 'a cluster in which nothing happens is no trouble' '
	asked one "watch.*\"resourceVersion\": \"[0-9]" >before
	watching w --quiet-ms 100 watch "" v1 pods
	sees w end
	quiet() { [ "$(asked one "watch.*\"resourceVersion\": \"[0-9]")" -ge $(($(cat before) + 3)) ]; }
	wait_until 60 quiet
	unwatch w
	test_lines 0 w.err
'
test_done
