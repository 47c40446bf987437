#!/bin/bash
# Who is trusted, and with what: each row of the table in SECURITY.md is attacked here.
. "$(dirname "$0")/../../lib.sh"

gone() { [ ! -e "$1" ] || { echo "$1 is there" >&2; return 1; }; }
forge() { python3 "$SRC/tests/cli/run/attack_store.py" "$@"; }

mkdir -p victim/.cairn other/.config
cd victim
echo data >in.txt
write cairn.yaml </dev/null
write pipeline.yaml <<'Y'
pipeline: honest
inputs: {in: in.txt}
steps:
  a:
    inputs: {x: "${{ inputs.in }}"}
    run: cat ${{ inputs.x }} >${{ outputs.o }}
    outputs: {o: o.txt}
Y
cd ..

# --- the writer of the shared store --------------------------------------------------------------------------------

test_expect 'a run of which a stranger makes others' '
	cd victim
	cairn run -q
	cairn runs --json >../runs.json
	python3 -c "import json; print(json.load(open(\"../runs.json\"))[\"runs\"][0][\"hash\"].removeprefix(\"sha256:\"))" >../hash
	test_is "$(wc -c <../hash)" 65
'
test_expect 'get makes nothing outside of its destination, and removes nothing there' '
	mkdir -p outside there/pwned
	echo mine >there/pwned/file
	hash=$(forge victim/.cairn/store "$(cat hash)" link "$PWD/outside")
	(cd victim; test_must_fail cairn get "$hash" -o ../got 2>err; cat err)
	gone outside/pwned
	gone got
	hash=$(forge victim/.cairn/store "$(cat hash)" link "$PWD/there")
	(cd victim; test_must_fail cairn get "$hash" -o ../got 2>err)
	test_is "$(cat there/pwned/file)" mine
'
for kind in id pipeline step; do
	test_expect "a manifest whose $kind is a way out of the directory is refused by get and reindex" '
		hash=$(forge victim/.cairn/store "$(cat hash)" '$kind' ../../escaped)
		(cd victim; test_must_fail cairn get "$hash" 2>err)
		gone escaped
		(cd victim; cairn store reindex >out 2>&1 || true; cat out)
		test_grep "left out" victim/out
		rm -f "victim/.cairn/store/runs/$(cut -c 1-2 <<<"$hash")/$hash"
	'
done
test_expect 'an exported crate has the inputs beneath it, whatever they are called' '
	hash=$(forge victim/.cairn/store "$(cat hash)" input ../../x/evil.desktop)
	cd victim
	cairn store reindex >out 2>&1
	mkdir -p ../crates
	cairn export "$hash" --format ro-crate --to ../crates/crate
	test_is "$(find .. -name "*evil.desktop")" ../crates/crate/inputs/%2E.%2F..%2Fx%2Fevil.desktop
'

# --- state that isn't the caller's own -------------------------------------------------------------------------------

state() { # NAME: a project whose pipeline leaves a mark
	mkdir -p "$1"
	write "$1/cairn.yaml" </dev/null
	write "$1/pipeline.yaml" <<-'Y'
	pipeline: state
	steps:
	  a: {run: "echo good >${{ outputs.o }}", outputs: {o: o.txt}}
	Y
}
test_expect --needs ROOT 'a project, or state in it, that belongs to another user is refused until the user allows it' '
	state others
	chown 65534 others/cairn.yaml
	mkdir -p others/below
	test_code 3 cairn -C others/below run ../pipeline.yaml 2>err
	test_grep "cairn.yaml belongs to user 65534.*CAIRN_TRUST_PROJECTS" err
	test_code 3 cairn -C others plan 2>err
	(cd others; CAIRN_TRUST_PROJECTS=$PWD cairn run -q)
	mkdir -p "$HOME/.config/cairn"
	echo "project $PWD/others" >"$HOME/.config/cairn/trust"
	test_when_finished "rm -f \"$HOME/.config/cairn/trust\""
	(cd others; cairn run -q)
	chmod 666 "$HOME/.config/cairn/trust"
	test_code 3 cairn -C others run 2>err
	test_grep "others may write to .*trust" err
	chmod 644 "$HOME/.config/cairn/trust"
	echo "project $PWD/elsewhere" >"$HOME/.config/cairn/trust"
	chown 0 others/cairn.yaml
	chown -R 65534 others/.cairn/store
	test_code 3 cairn -C others run 2>err
	test_grep "store belongs to user" err
'
test_expect --needs ROOT 'sudo: what belongs to whoever typed it is his own' '
	state mine
	chown -R 65534 mine
	test_code 3 cairn -C mine plan 2>err
	SUDO_UID=65534 cairn -C mine plan >out
'
test_expect 'state that is a symbolic link is refused, in whole or in part' '
	state linked
	mkdir elsewhere
	ln -s ../elsewhere linked/.cairn
	test_code 3 cairn -C linked run 2>err
	test_grep "symbolic link" err
	test_is "$(ls elsewhere)" ""
	rm linked/.cairn
	mkdir linked/.cairn
	ln -s "$PWD/elsewhere" linked/.cairn/secrets
	test_must_fail cairn -C linked secret set NAME 2>err <<<value
	test_is "$(ls elsewhere)" ""
'
for version in 2 4; do
	test_expect --needs git "state that git tracks is refused (index version $version)" '
		version='$version'
		rm -rf tracked
		state tracked
		cd tracked
		git init -q .
		git config index.version $version
		cairn run -q
		touch .cache .cairo
		git add -f cairn.yaml pipeline.yaml .cache .cairo
		git -c user.name=x -c user.email=x@x commit -qm one
		cairn plan >out
		git add -f .cairn/cairn.db
		git update-index --index-version $version
		test_code 3 cairn run 2>err
		test_grep "git tracks" err
		git rm -rq --cached .cairn
		cairn run -q
	'
done
test_expect 'what was parsed is kept with the user, and a project brings none along' '
	rm -rf "$HOME/.cache"
	state parsed
	cd parsed
	cairn run -q
	gone .cairn/cache
	dir=$HOME/.cache/cairn/models
	test_is "$(find "$dir" -name "*.model" | wc -l)" 1
	test_is "$(stat -c %a "$dir")" 700
	chmod 777 "$dir"
	rm -f "$dir"/*
	cairn plan >out
	test_is "$(find "$dir" -name "*.model" | wc -l)" 0
	rm -rf "$HOME/.cache"
'

# --- what only looks ---------------------------------------------------------------------------------------------------

test_expect 'looking runs no tool; a run does, with no more of the environment than its steps get' '
	mkdir tools
	cd tools
	write tool <<-T
	#!/bin/sh
	env >>$PWD/ran
	echo tool 1
	T
	chmod 755 tool
	write cairn.yaml </dev/null
	write pipeline.yaml <<-Y
	pipeline: tools
	steps:
	  a: {run: "echo x >\${{ outputs.o }}", tools: ["$PWD/tool"], outputs: {o: o.txt}}
	Y
	export AWS_SECRET_ACCESS_KEY=hidden CAIRN_SECRET_X=hidden CAIRN_SERVE_TOKEN=hidden
	touch -d "1 hour ago" tool
	for look in plan "why a" check graph "run --dry-run" doctor; do
		cairn $look >out 2>&1 || true
		gone ran
	done
	cairn plan >out
	test_grep "a .*" out
	cairn run -q
	test_grep PATH= ran
	test_no_grep hidden ran
	rm ran
	cairn plan --json >plan
	gone ran
	# What a run was told is believed while the files that the command names are the same: not only its first word.
	sed -i "s,tools: \[\",&env ," pipeline.yaml
	touch -d "1 hour ago" tool
	wait_until 10 env sh -c "[ \$(date +%s) -gt \$(($(stat -c %Z tool) + 1)) ]"
	cairn run -q
	cairn plan >out
	test_grep "1 hit, 0 to run" out
	echo "echo tool 2" >>tool
	cairn plan >out
	test_grep "0 hits, 1 to run" out
'
test_expect 'a kubeconfig of the project runs no program, and sends no token out of another file' '
	state kube
	cd kube
	write kubeconfig <<-Y
	apiVersion: v1
	kind: Config
	current-context: c
	contexts: [{name: c, context: {cluster: c, user: u}}]
	clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
	users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: ["-c", "touch $PWD/ran"], interactiveMode: Never}}}]
	Y
	write cairn.yaml <<-Y
	kubernetes: {kubeconfig: kubeconfig}
	Y
	test_must_fail cairn doctor --on kubernetes >out 2>&1
	gone ran
	test_grep "exec.*KUBECONFIG" out
	sed -i "s|exec: .*}}}]|tokenFile: /etc/hostname}}]|" kubeconfig
	test_must_fail cairn doctor --on kubernetes >out 2>&1
	test_grep "tokenFile.*KUBECONFIG" out
'

# --- credentials belong to endpoints -----------------------------------------------------------------------------------

# Notes what it is asked, and answers that it has nothing.
listener() { # FILE: the requests it got; FILE.port
	python3 - "$1" <<-'P' &
	import http.server, sys
	class H(http.server.BaseHTTPRequestHandler):
	    def answer(self):
	        open(sys.argv[1], "a").write(f"{self.command} {self.path}\n{self.headers}\n")
	        self.send_response(404)
	        self.send_header("Content-Length", "0")
	        self.end_headers()
	    do_GET = do_HEAD = do_PUT = do_POST = answer
	    def log_message(self, *a):
	        pass
	s = http.server.HTTPServer(("127.0.0.1", 0), H)
	open(sys.argv[1] + ".port~", "w").write(str(s.server_port))
	import os
	os.rename(sys.argv[1] + ".port~", sys.argv[1] + ".port")
	s.serve_forever()
	P
	test_when_finished "kill $!"
	wait_until 10 test -e "$1.port"
}
test_expect 'an endpoint that only the project names is sent no credentials until the user allows it' '
	unset CAIRN_TRUST_ENDPOINTS
	export AWS_ACCESS_KEY_ID=AKID AWS_SECRET_ACCESS_KEY=secret AWS_SESSION_TOKEN=session AWS_MAX_ATTEMPTS=1
	listener asked
	url=http://127.0.0.1:$(cat asked.port)
	state endpoint
	cd endpoint
	write pipeline.yaml <<-Y
	pipeline: endpoint
	inputs: {i: {uri: "s3://bucket/key", endpoint: "$url"}}
	steps:
	  a: {run: "cp \${{ inputs.x }} \${{ outputs.o }}", inputs: {x: "\${{ inputs.i }}"}, outputs: {o: o.txt}}
	Y
	test_code 3 cairn plan 2>err
	test_grep "$url.*CAIRN_TRUST_ENDPOINTS" err
	gone ../asked
	write cairn.yaml <<-Y
	store: s3://bucket/store
	store_options: {endpoint: "$url"}
	Y
	for look in plan run doctor "store stat"; do
		test_must_fail cairn $look >out 2>&1
	done
	gone ../asked
	mkdir -p "$HOME/.config/cairn"
	echo "endpoint $url" >"$HOME/.config/cairn/trust"
	test_when_finished "rm -f \"$HOME/.config/cairn/trust\""
	test_must_fail cairn run >out 2>&1
	test_grep AKID ../asked
	rm ../asked
	rm "$HOME/.config/cairn/trust"
	AWS_ENDPOINT_URL=$url test_must_fail cairn run >out 2>&1
	test_grep AKID ../asked
'
test_expect 'nor is it sent a token of Google Cloud' '
	unset CAIRN_TRUST_ENDPOINTS
	listener googled
	url=http://127.0.0.1:$(cat googled.port)
	state google
	cd google
	# The trusted endpoint is asked only once there is a token, and this refresh token is nowhere to be had.
	echo "{\"type\": \"authorized_user\", \"client_id\": \"i\", \"client_secret\": \"s\", \"refresh_token\": \"r\", \"token_uri\": \"https://127.0.0.1:1/token\"}" >key.json
	export GOOGLE_APPLICATION_CREDENTIALS=$PWD/key.json
	write cairn.yaml <<-Y
	store: gs://bucket/store
	store_options: {endpoint: "$url"}
	Y
	for look in plan run doctor "store stat"; do
		test_must_fail cairn $look >out 2>&1
		test_grep "$url.*CAIRN_TRUST_ENDPOINTS" out
	done
	CAIRN_TRUST_ENDPOINTS=$url test_must_fail cairn store pull >out 2>&1
	test_no_grep "CAIRN_TRUST_ENDPOINTS" out
	test_grep "127.0.0.1:1/token" out
	gone ../googled
'
test_expect 'a session token is never sent openly over a network' '
	export AWS_ACCESS_KEY_ID=AKID AWS_SECRET_ACCESS_KEY=secret AWS_SESSION_TOKEN=session AWS_MAX_ATTEMPTS=1
	state plain
	cd plain
	echo "store: s3://bucket/store" >cairn.yaml
	AWS_ENDPOINT_URL=http://192.0.2.1:9000 test_must_fail timeout 20 cairn run 2>err
	test_grep "must be https" err
'
test_expect 'the token of a server goes to no URL that only the project names, and never openly over a network' '
	unset CAIRN_TRUST_ENDPOINTS CAIRN_SERVER
	export CAIRN_SERVE_TOKEN=0123456789abcdef0123456789abcdef
	listener heard
	url=http://127.0.0.1:$(cat heard.port)
	state served
	cd served
	echo "serve: {url: \"$url\"}" >cairn.yaml
	test_code 3 cairn status --server 2>err
	test_grep "serve.url.*CAIRN_TRUST_ENDPOINTS" err
	gone ../heard
	test_code 3 cairn status --server http://192.0.2.1:8080 2>err
	test_grep "must be https" err
	CAIRN_SERVER=$url test_must_fail cairn status --server 2>err
	test_grep "Bearer 0123" ../heard
'

# --- running what somebody else began ------------------------------------------------------------------------------------

test_expect 'a run of others is shown before it is executed, and gets no secret that is not named' '
	mkdir author
	cd author
	write cairn.yaml </dev/null
	write pipeline.yaml <<-"Y"
	pipeline: author
	steps:
	  a: {run: "echo $TOKEN >${{ outputs.o }}; echo $TOKEN", secrets: [TOKEN], outputs: {o: o.txt}}
	  b: {run: "echo b >${{ outputs.o }}", outputs: {o: o.txt}}
	Y
	CAIRN_SECRET_TOKEN=theirs cairn run -q
	hash=$(cairn runs --json | python3 -c "import json,sys; print(json.load(sys.stdin)[\"runs\"][0][\"hash\"].removeprefix(\"sha256:\"))")
	mkdir ../reader
	cp -R .cairn/store ../reader/store
	cd ../reader
	export CAIRN_SECRET_TOKEN=mine-and-private
	test_code 3 cairn reproduce $hash --store store -o place 2>err
	test_grep "step a: echo .TOKEN" err
	test_grep "secret: TOKEN" err
	test_grep "give --trust" err
	test_is "$(find place -name work | wc -l)" 0
	test_code 3 cairn reproduce $hash --store store -o place --trust 2>err
	test_grep "give --secret TOKEN" err
	cairn reproduce -q $hash --store store -o place --trust --skip a || test $? = 12
	test_code 11 cairn reproduce -q $hash --store store -o place --trust --secret TOKEN
	test_code 0 cairn -C ../author reproduce -q $hash --step b
'

test_done
