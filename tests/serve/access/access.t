#!/bin/bash
# Who may use a server, and by which way: tokens, roles, sessions, proxies, users of this machine, pages of other sites.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write one.yaml <<'YAML'
pipeline: one
steps:
  s: {run: "echo hello >o", outputs: {o: o}}
YAML

# as NAME PATH [CURL OPTION...]: with the token of NAME, as get.
as() {
	local name=$1 path=$2
	shift 2
	get srv "$path" -H "Authorization: Bearer $(cat "$name.token")" "$@"
}
json_post() { get srv "$@" -X POST -H 'Content-Type: application/json'; }
# sign_in NAME: a session in the cookie jar NAME.jar.
sign_in() {
	rm -f "$1.jar"
	json_post /api/v1/session -c "$1.jar" --data "{\"token\": \"$(cat "$1.token")\"}"
}
here() { serve_url srv; }
# with NAME PATH [CURL OPTION...]: with the session of NAME, as our own page asks.
with() {
	local name=$1 path=$2
	shift 2
	get srv "$path" -b "$name.jar" -H "Origin: $(here)" "$@"
}

test_expect 'tokens: shown once, kept as digests, for the owner alone' '
	for role in viewer operator admin; do
		cairn serve token add "$role" --role "$role" >"$role.token" 2>err
		test_grep "shown once" err
	done
	cairn serve token list --json >list
	test_is "$(json list "[(t[\"name\"], t[\"role\"], t[\"expires\"]) for t in d[\"tokens\"]]")" "[[\"viewer\", \"viewer\", null], [\"operator\", \"operator\", null], [\"admin\", \"admin\", null]]"
	test_is "$(stat -c %a .cairn/access .cairn/access/tokens.json | tr "\n" " ")" "700 600 "
	test_must_fail grep -rqF "$(cut -c7- admin.token)" .cairn
'
test_expect 'tokens: wrong usage' '
	test_code 2 cairn serve token add 2>err
	test_code 2 cairn serve token add "a b" 2>err
	test_grep "letters, digits" err
	test_code 2 cairn serve token give x 2>err
	test_grep "neither add, list nor revoke" err
	test_code 2 cairn serve token list x 2>err
	test_code 2 cairn serve token revoke x --role admin 2>err
	test_code 4 cairn serve token revoke nobody 2>err
	test_grep "no token .nobody" err
	test_code 4 cairn serve token add viewer 2>err
	test_grep "already" err
	test_code 2 cairn serve --tls-cert x 2>err
	test_grep "go together" err
	test_code 2 cairn serve --trust-proxy nonsense --identity-header X-User 2>err
	test_grep "is no address" err
	test_code 2 cairn serve --trust-proxy 192.0.2.0/33 --identity-header X-User 2>err
	test_code 2 cairn serve --trust-proxy ::1 2>err
	test_code 2 cairn serve --trust-proxy ::1 --identity-header X-User --identity-role king 2>err
	test_grep "neither viewer" err
'
test_expect 'every path of the API has a role, and lets in exactly those who have it' '
	start open cairn serve --listen 0.0.0.0:0
	wait_until 60 grep -q " serving " open.out
	python3 -c "import json; json.dump({r: open(r + \".token\").read().strip() for r in (\"viewer\", \"operator\", \"admin\")}, open(\"tokens\", \"w\"))"
	port=$(sed -n "s/.*address=0.0.0.0:\([0-9]*\).*/\1/p" open.out)
	python3 "$SRC/tests/serve/access/roles.py" "http://127.0.0.1:$port" tokens >said
	test "$(sed "s/asked //" said)" -gt 100
	test_is "$(stop open TERM)" 0
'

test_expect 'signing in: a session in a cookie that scripts and other sites never see' '
	serve srv
	get srv /api/v1/session
	test_is "$(json body "[d[\"role\"], d[\"way\"], d[\"signed_in\"], d[\"sign_in\"]]")" "[\"viewer\", \"local\", false, true]"
	sign_in operator
	status_is 200
	test_grep "^Set-Cookie: cairn_session_[0-9a-f]*=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Strict; Max-Age=[0-9]+.?$" headers
	test_is "$(json body "[d[\"user\"], d[\"role\"], d[\"way\"], d[\"signed_in\"]]")" "[\"operator\", \"operator\", \"cookie\", true]"
	with operator /api/v1/session
	test_is "$(json body "d[\"user\"]")" operator
	with operator /api/v1/runs -X POST -H "Content-Type: application/json" --data "{\"pipeline\": \"one.yaml\"}"
	status_is 202
	with operator /api/v1/audit
	status_is 403
	test_grep "needs the role admin: operator has the role operator" body
	sign_in viewer
	with viewer /api/v1/runs
	status_is 200
	with viewer /api/v1/runs/last/cancel -X POST
	status_is 403
'
test_expect 'a wrong token gives no session' '
	json_post /api/v1/session -c no.jar --data "{\"token\": \"cairn_wrong\"}"
	status_is 401
	test_no_grep "^Set-Cookie" headers
	test_no_grep cairn_wrong body
	json_post /api/v1/session --data "{\"token\": 1}"
	status_is 400
	get srv /api/v1/session -b "$(sed -n "s/.*\(cairn_session_[0-9a-f]*\).*/\1/p" operator.jar)=guessed"
	test_is "$(json body "d[\"way\"]")" local
'
test_expect 'a session that was planted before is not the one after signing in' '
	name=$(sed -n "s/.*\(cairn_session_[0-9a-f]*\).*/\1/p" operator.jar)
	json_post /api/v1/session -b "$name=planted" -c fixed.jar --data "{\"token\": \"$(cat operator.token)\"}"
	status_is 200
	test_no_grep planted fixed.jar
	get srv /api/v1/session -b "$name=planted"
	test_is "$(json body "d[\"way\"]")" local
	cp operator.jar before.jar
	json_post /api/v1/session -b operator.jar -c operator.jar -H "Origin: $(here)" --data "{\"token\": \"$(cat operator.token)\"}"
	status_is 200
	with before /api/v1/session
	test_is "$(json body "d[\"way\"]")" local
'
test_expect 'signing out ends it, and so does revoking its token, at once and without a restart' '
	with operator /api/v1/session -X DELETE
	status_is 204
	test_grep "^Set-Cookie: .*Max-Age=0" headers
	with operator /api/v1/session
	test_is "$(json body "d[\"way\"]")" local
	cairn serve token add short --role operator --expires 2s >short.token 2>/dev/null
	cairn serve token add gone --role operator >gone.token 2>/dev/null
	sign_in gone
	as gone /api/v1/session
	test_is "$(json body "d[\"role\"]")" operator
	cairn serve token revoke gone
	as gone /api/v1/runs
	status_is 401
	with gone /api/v1/session
	test_is "$(json body "d[\"way\"]")" local
	expired() { as short /api/v1/runs && test "$(cat status)" = 401; }
	wait_until 30 expired
'
test_expect 'a damaged or open file of tokens lets nobody in, and says so' '
	chmod 644 .cairn/access/tokens.json
	as viewer /api/v1/runs
	status_is 401
	test_grep "tokens-broken.*others may read" srv.out
	test_code 3 cairn serve token list 2>err
	chmod 600 .cairn/access/tokens.json
	as viewer /api/v1/runs
	status_is 200
	cp .cairn/access/tokens.json kept
	echo "{" >.cairn/access/tokens.json
	as viewer /api/v1/runs
	status_is 401
	cp kept .cairn/access/tokens.json
	as viewer /api/v1/runs
	status_is 200
'
test_expect 'a change that a page of another site asks for is refused, whatever it carries' '
	sign_in operator
	for origin in https://evil.example null "$(here).evil.example" http://127.0.0.1:1 "$(here)0"; do
		get srv /api/v1/runs -X POST -b operator.jar -H "Origin: $origin" -H "Content-Type: application/json" --data "{\"pipeline\": \"one.yaml\"}"
		status_is 403
		test_grep "another site" body
	done
	get srv /api/v1/runs -X POST -b operator.jar -H "Content-Type: application/json" --data "{\"pipeline\": \"one.yaml\"}"
	status_is 403
	as operator /api/v1/runs -X POST -H "Origin: https://evil.example" -H "Content-Type: application/json" --data "{\"pipeline\": \"one.yaml\"}"
	status_is 403
	with operator /api/v1/runs -X POST -H "Content-Type: text/plain" --data "{\"pipeline\": \"one.yaml\"}"
	status_is 415
	with operator /api/v1/runs -X POST -H "Content-Type:" --data "{\"pipeline\": \"one.yaml\"}"
	status_is 415
	json_post /api/v1/session -H "Origin: https://evil.example" --data "{\"token\": \"$(cat viewer.token)\"}"
	status_is 403
	get srv /api/v1/runs -H "Sec-Fetch-Site: cross-site" -H "Sec-Fetch-Mode: no-cors"
	status_is 403
	get srv /api/v1/runs -H "Origin: https://evil.example"
	test_no_grep "^Access-Control" headers
	test_grep "^Cross-Origin-Resource-Policy: same-origin" headers
'
test_expect 'a page that reaches us by a name of its own is refused (DNS rebinding)' '
	for host in evil.example 127.0.0.1.evil.example localhost.evil.example; do
		get srv /api/v1/runs -H "Host: $host"
		status_is 421
		get srv / -H "Host: $host"
		status_is 421
	done
'

if [ "$(id -u)" -ne 0 ] || ! setpriv --reuid=1 --clear-groups true 2>/dev/null; then
	test_skip 'another user of this machine' 'only root can act as one'
else
	test_expect 'another user of this machine gets nothing without a token, at a loopback address' '
		url=$(here)
		they() { setpriv --reuid=1 --clear-groups curl -s -o /dev/null -w "%{http_code}" "$@"; }
		for path in /api/v1/runs /metrics /api/v1/events /api/v1/openapi.json; do
			test_is "$(they "$url$path")" 401
		done
		test_is "$(they "$url/healthz")" 200
		test_is "$(they "$url/")" 200
		test_is "$(they -H "Authorization: Bearer $(cat viewer.token)" "$url/api/v1/runs")" 200
		test_is "$(they -g -H "Host: localhost" "http://[::ffff:127.0.0.1]:${url##*:}/api/v1/runs")" 401
		get srv /api/v1/runs
		status_is 200
	'
fi
test_expect 'a Unix socket knows its user: he may do everything' '
	start unix cairn serve --listen "unix:$TRASH/work/s.sock"
	wait_until 60 grep -q " serving " unix.out
	test_is "$(curl -s --unix-socket s.sock http://x/api/v1/session | tr -d "\n" | python3 -c "import json,sys; d = json.load(sys.stdin); print(d[\"role\"], d[\"way\"])")" "admin local"
	test_is "$(curl -s -o /dev/null -w "%{http_code}" --unix-socket s.sock -X POST -H "Content-Type: application/json" --data "{\"pipeline\": \"one.yaml\"}" http://x/api/v1/runs)" 202
	test_is "$(stop unix TERM)" 0
'

test_expect 'the audit log: who, as what, by which way, from where' '
	as admin "/api/v1/audit?limit=500"
	status_is 200
	cp body all
	test_is "$(json body "sorted({(e[\"who\"], e[\"role\"], e[\"way\"], e[\"status\"]) for e in d[\"entries\"] if e[\"path\"] == \"/api/v1/runs\" and e[\"method\"] == \"POST\" and e[\"way\"] == \"cookie\"}, key=str)")" "[[\"operator\", \"operator\", \"cookie\", 202], [\"operator\", \"operator\", \"cookie\", 403], [\"operator\", \"operator\", \"cookie\", 415]]"
	test_is "$(json body "any(e[\"path\"] == \"/api/v1/session\" and e[\"status\"] == 401 for e in d[\"entries\"])")" true
	test_is "$(json body "{e[\"address\"] for e in d[\"entries\"]} <= {\"127.0.0.1\", \"unix\"}")" true
	as admin "/api/v1/audit?limit=2"
	cp body first
	as admin "/api/v1/audit?limit=2&cursor=$(json first "d[\"next\"]")"
	test_is "$(json body "d[\"entries\"]")" "$(json all "d[\"entries\"][2:4]")"
	for t in viewer operator admin; do
		test_must_fail grep -qF "$(cat $t.token)" .cairn/access/audit.jsonl srv.out
	done
	test_is "$(stat -c %a .cairn/access/audit.jsonl)" 600
	test_is "$(stop srv TERM)" 0
'
test_expect 'the audit log goes on after a restart, and behind a line that was cut off' '
	printf "{\"n\": 99" >>.cairn/access/audit.jsonl
	serve_forget srv
	serve srv
	as operator /api/v1/runs/last/cancel -X POST
	as admin "/api/v1/audit?limit=3"
	test_is "$(json body "[(e[\"method\"], e[\"path\"], e[\"who\"]) for e in d[\"entries\"]][0]")" "[\"POST\", \"/api/v1/runs/last/cancel\", \"operator\"]"
	test_is "$(json body "len(d[\"entries\"])")" 3
	with operator /api/v1/session
	test_is "$(json body "d[\"way\"]")" local
	test_is "$(stop srv TERM)" 0
'

test_expect 'a proxy: its header counts from its address only, and makes whom it names a viewer' '
	serve_forget srv
	serve srv --trust-proxy 127.0.0.1 --identity-header X-Forwarded-User --identity-role root@example.org=admin
	get srv /api/v1/session -H "Host: cairn.example.org" -H "X-Forwarded-User: ada@example.org"
	test_is "$(json body "[d[\"user\"], d[\"role\"], d[\"way\"], d[\"signed_in\"]]")" "[\"ada@example.org\", \"viewer\", \"proxy\", true]"
	get srv /api/v1/session -H "Host: cairn.example.org" -H "X-Forwarded-User: root@example.org"
	test_is "$(json body "d[\"role\"]")" admin
	get srv /api/v1/runs -H "Host: cairn.example.org"
	status_is 401
	json_post /api/v1/session -H "X-Forwarded-Proto: https" --data "{\"token\": \"$(cat viewer.token)\"}"
	test_grep "^Set-Cookie: .*; Secure" headers
	json_post /api/v1/runs -H "X-Forwarded-User: ada@example.org" -H "Origin: $(here)" --data "{}"
	status_is 403
	json_post /api/v1/runs/none/cancel -H "X-Forwarded-User: root@example.org" --data "{}"
	status_is 403
	json_post /api/v1/runs/none/cancel -H "X-Forwarded-User: root@example.org" -H "Host: inner" -H "X-Forwarded-Host: cairn.example.org" -H "Origin: https://cairn.example.org" --data "{}"
	status_is 404
	get srv /api/v1/audit -H "X-Forwarded-User: root@example.org" -H "X-Forwarded-For: 203.0.113.1, 198.51.100.7"
	status_is 200
	json_post /api/v1/runs/none/cancel -H "X-Forwarded-User: ada@example.org" -H "X-Forwarded-For: 203.0.113.1, 198.51.100.7" -H "Origin: $(here)" --data "{}"
	get srv /api/v1/audit -H "X-Forwarded-User: root@example.org"
	test_is "$(json body "[d[\"entries\"][0][k] for k in (\"address\", \"way\", \"who\", \"status\")]")" "[\"198.51.100.7\", \"proxy\", \"ada@example.org\", 403]"
	test_is "$(stop srv TERM)" 0
	serve_forget srv
	serve srv --trust-proxy 192.0.2.0/24 --identity-header X-Forwarded-User
	get srv /api/v1/session -H "X-Forwarded-User: root@example.org"
	test_is "$(json body "[d[\"user\"], d[\"way\"]]")" "[\"local\", \"local\"]"
	test_is "$(stop srv TERM)" 0
'

test_expect 'cairn ui: an address that signs in once' '
	start ui cairn ui --no-browser
	wait_until 60 grep -q "^http://127.0.0.1:[0-9]*/sign-in#once_" ui.out
	url=$(sed -n "s,^\(http://[^/]*\)/.*,\1,p" ui.out)
	once=$(sed -n "s/^http.*#//p" ui.out)
	sign() { curl -s -o body -D headers -w "%{http_code}" -X POST -H "Content-Type: application/json" --data "{\"token\": \"$once\"}" "$url/api/v1/session"; }
	test_is "$(sign)" 200
	test_is "$(json body "[d[\"user\"], d[\"role\"]]")" "[\"local\", \"admin\"]"
	test_is "$(sign)" 401
	test_is "$(stop ui INT)" 0
	test_code 2 cairn ui --listen 0.0.0.0:0 2>err
	test_grep "for this machine only" err
'

certificate() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -addext "subjectAltName=IP:127.0.0.1" -keyout key.pem -out cert.pem 2>/dev/null; }
if test_have openssl; then
	test_expect 'TLS: a cookie is Secure; a renewed certificate is served without a restart' '
		certificate first
		serve_forget srv
		serve srv --tls-cert cert.pem --tls-key key.pem
		url=$(here | sed s/^http/https/)
		curl -s --max-time 20 --cacert cert.pem -D headers -o body -H "Content-Type: application/json" --data "{\"token\": \"$(cat viewer.token)\"}" "$url/api/v1/session"
		test_grep "^Set-Cookie: .*; Secure" headers
		test "$(curl -s -o /dev/null -w "%{http_code}" --max-time 20 "$(here)/healthz")" != 200
		subject() { openssl s_client -connect "${url#https://}" </dev/null 2>/dev/null | sed -n "s/^subject=CN = //p"; }
		test_is "$(subject)" first
		test_must_fail openssl s_client -tls1_1 -connect "${url#https://}" </dev/null >/dev/null 2>&1
		cp cert.pem first.pem
		certificate second
		cp cert.pem second.pem
		kill -HUP "$(cat srv.pid)"
		renewed() { test "$(subject)" = second; }
		wait_until 30 renewed
		cp first.pem cert.pem
		kill -HUP "$(cat srv.pid)"
		wait_until 30 grep -q certificate-unusable srv.out
		test_is "$(subject)" second
		test_is "$(stop srv TERM)" 0
		test_code 3 cairn serve --listen 127.0.0.1:0 --tls-cert cert.pem --tls-key key.pem 2>err
		test_grep "is not the key of" err
	'
else
	test_skip 'TLS' 'no openssl'
fi
test_done
