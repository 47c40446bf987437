#!/bin/bash
# `sandbox: strict` and `network:`: what a step can see and reach, what the message says of the rest, and when its key changes.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
cairn doctor >doctor
grep -q 'steps can be strict, and have no network' doctor || test_skip_all "$(grep sandbox doctor)"

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$PWD" "$@"; }
# why_failed STEP: the last run's message
why_failed() { cairn status --json | json /dev/stdin "[t[\"message\"] for t in d[\"tasks\"] if t[\"task\"] == \"$1\"][-1]"; }

# Each line of out/report: an attempt to get out, and whether it was refused.
write attack.py <<'PY'
import os, socket, subprocess, sys
project, home, outside, abstract, server = sys.argv[1:]
lines = []

def attack(name, fn):
    try:
        fn()
        lines.append("DONE " + name)
    except OSError:
        lines.append("refused " + name)

def program(*argv):
    if subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        raise OSError(1, argv[0])

def connect():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\0" + abstract)

attack("a file of the project", lambda: open(project + "/secret.csv").read())
attack("a file of the project, by way of a parent", lambda: open("../../../../secret.csv").read())
attack("a file of the project, by way of a process", lambda: open(f"/proc/{os.getppid()}/root{project}/secret.csv").read())
attack("a list of the project", lambda: os.listdir(project))
attack("a program of the project", lambda: program(project + "/run.sh"))
attack("the store", lambda: os.listdir(project + "/.cairn/store"))
attack("other workspaces", lambda: os.listdir(project + "/.cairn/work"))
attack("the home directory", lambda: open(home + "/.secret").read())
attack("another place", lambda: open(outside + "/file").read())
attack("/tmp", lambda: os.listdir("/tmp"))
attack("a new file in /tmp", lambda: open("/tmp/made-by-" + str(os.getpid()), "w"))
attack("a new file in the project", lambda: open(project + "/made", "w"))
attack("truncating", lambda: os.truncate(project + "/secret.csv", 0))
attack("removing", lambda: os.unlink(project + "/secret.csv"))
attack("a link into the workspace", lambda: os.link(project + "/secret.csv", "out/linked"))
attack("an abstract socket", connect)
attack("a signal", lambda: os.kill(int(server), 0))
open("out/report", "w").write("\n".join(lines) + "\n")
PY
write serve.py <<'PY'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind("\0" + sys.argv[1])
t = socket.create_server(("127.0.0.1", 0))
s.listen()
open("port", "w").write(str(t.getsockname()[1]))
while True:
    s.accept()[0].close()
PY
mkdir -p home elsewhere
echo secret >secret.csv
echo secret >home/.secret
echo 'true' >run.sh
chmod +x run.sh
outside=$(mktemp -d)
echo x >"$outside/file"
chmod -R a+rX "$outside"
abstract=cairn-test-$$

attack_yaml() {
	write attack.yaml <<-YAML
	pipeline: attack
	steps:
	  a:
	    sandbox: strict
	    run: "python3 attack.py '$PWD' '$PWD/home' '$outside' '$abstract' $(cat "$TRASH/work/serve.pid")"
	    outputs: {out: out/}
	YAML
}
check_attack() {
	attack_yaml
	"$@" run attack.yaml -q
	"$@" get a/out -o report -q --replace
	test_no_grep "^DONE" report/report
	test_is "$(grep -c "^refused" report/report)" 17
	test_is "$(cat secret.csv)" secret
}

start serve python3 serve.py "$abstract"
wait_until 20 test -s port

test_expect 'a strict step sees nothing of the project, the store, the home directory and other places' '
	check_attack env HOME="$PWD/home" cairn
'

test_expect --needs 'ROOT setpriv' 'nor does it as an ordinary user' '
	chmod 755 "$TRASH" "$TRASH/work"
	mkdir -p user/home user/bin
	cp -r secret.csv home run.sh cairn.yaml attack.py user/
	cp "$CAIRN" "$(dirname "$CAIRN")/cairn-steps" user/bin/
	chown -R 65534:65534 user
	cd user
	check_attack as_nobody bin/cairn
	write net.yaml <<-"YAML"
	pipeline: net
	defaults: {sandbox: strict}
	steps:
	  none: {network: none, run: "python3 connect.py PORT || echo unreachable >o; id -u >>o", outputs: {o: o}}
	  loopback: {network: loopback, run: "python3 connect.py"}
	YAML
	sed -i "s/PORT/$(cat ../port)/" net.yaml
	write connect.py <<-"PY"
	import socket, sys
	own = socket.create_server(("127.0.0.1", 0)) if len(sys.argv) == 1 else None
	socket.create_connection(own.getsockname() if own else ("127.0.0.1", int(sys.argv[1])))
	PY
	as_nobody bin/cairn run net.yaml -q
	as_nobody bin/cairn get none/o -o o -q
	test_is "$(cat o)" "unreachable
65534"
'

test_expect 'what programs need works: Python, shared memory, processes, its own files, HOME and TMPDIR' '
	write works.yaml <<-"YAML"
	pipeline: works
	defaults: {sandbox: strict, shell: bash}
	inputs: {secret: secret.csv}
	steps:
	  a:
	    env: {PATH: "/usr/bin:/bin"}
	    run: |
	      cat "${{ inputs.secret }}" >o
	      test "$HOME" = "$TMPDIR"
	      mkdir -p ~/.cache/x
	      echo y >~/.cache/x/y
	      cat <(echo z) - <<<here >/dev/null
	      mkfifo f; (echo 1 >f &); read -r x <f
	      sleep 100 & kill $!
	      python3 -c "
	      import json, ssl, sqlite3, multiprocessing as m, tempfile
	      from multiprocessing import shared_memory as s
	      x = s.SharedMemory(create=True, size=10); x.unlink()
	      m.Pool(2).map(abs, [1, 2]); tempfile.TemporaryFile()
	      open(\"/proc/self/oom_score_adj\").read()
	      "
	      date; ls /usr /etc/passwd /dev/null >/dev/null; mv o p; mv p o
	    inputs: {secret: "${{ inputs.secret }}"}
	    outputs: {o: o}
	YAML
	cairn run works.yaml -q
	cairn get a/o -o got -q
	test_cmp secret.csv got
'

test_expect 'what it misses is told with the line to add' '
	mkdir -p data
	echo 1 >data/a.csv
	write misses.yaml <<-YAML
	pipeline: misses
	defaults: {sandbox: strict}
	steps:
	  file: {run: "cat \"$PWD/data/a.csv\""}
	  dir: {run: "ls \"$PWD/data\""}
	  code: {run: "sh \"$PWD/run.sh\""}
	  away: {run: "cat \"$outside/file\""}
	  made: {run: "echo x >/tmp/$abstract"}
	  store: {run: "ls \"$PWD/.cairn/store\""}
	  fine: {run: "true"}
	YAML
	test_code 1 cairn run -k misses.yaml 2>err
	test_is "$(why_failed file)" "exit status 1; \`sandbox: strict\` refused: data/a.csv isn'"'"'t declared: add \`inputs: {a: data/a.csv}\`"
	test_is "$(why_failed dir)" "exit status 2; \`sandbox: strict\` refused: data/ isn'"'"'t declared: add \`inputs: {data: data/}\`"
	why_failed code | grep -F "add \`code: [run.sh]\`"
	why_failed away | grep -F "$outside/file isn'"'"'t declared: it lies outside of the project"
	why_failed made | grep -F "/tmp/$abstract can'"'"'t be made: a strict step writes to its outputs"
	why_failed store | grep -F ".cairn/store is Cairn'"'"'s own: add what the step reads to \`inputs:\`"
	cairn logs file >log
	test_grep "^cairn: data/a.csv isn.t declared" log
	test_missing "/tmp/$abstract"
'

test_expect 'a tool is seen where it is installed, with what belongs to it' '
	mkdir -p prefix/bin prefix/share
	printf "#!/bin/sh\ncat \"%s/prefix/share/words\"\n" "$outside" >prefix/bin/odd
	echo words >prefix/share/words
	chmod +x prefix/bin/odd
	cp -r prefix "$outside/"
	write tool.yaml <<-YAML
	pipeline: tool
	defaults: {sandbox: strict}
	steps:
	  without: {run: "$outside/prefix/bin/odd >o", outputs: {o: o}}
	  by_path: {run: "$outside/prefix/bin/odd >o", tools: ["$outside/prefix/bin/odd --version"], outputs: {o: o}}
	  by_name: {run: "odd >o", tools: [odd], outputs: {o: o}}
	YAML
	PATH=$outside/prefix/bin:$PATH test_code 1 cairn run -k tool.yaml 2>err
	test_is "$(cairn status --json | json /dev/stdin "\", \".join(sorted(t[\"task\"] + \" \" + t[\"state\"] for t in d[\"tasks\"]))")" "by_name succeeded, by_path succeeded, without failed"
	why_failed without | grep -F "tools: [python3 --version]"
'

test_expect 'network: none reaches nothing, loopback only itself, host the machine; UDP and abstract sockets too' '
	write reach.py <<-PY
	import os, socket, sys
	def says(fn):
	    try:
	        fn()
	        return "yes"
	    except OSError:
	        return "no"
	def own():
	    with socket.create_server(("127.0.0.1", 0)) as s:
	        socket.create_connection(s.getsockname(), 5).close()
	def abstract():
	    with socket.socket(socket.AF_UNIX) as s:
	        s.connect("\0$abstract")
	def udp():
	    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
	        s.connect(("127.0.0.1", 9))
	        s.send(b"x")
	print(says(lambda: socket.create_connection(("127.0.0.1", $(cat port)), 5).close()), says(own), says(udp), says(abstract), len(socket.if_nameindex()) > 1)
	PY
	write reach.yaml <<-"YAML"
	pipeline: reach
	steps:
	  none: {network: none, run: "python3 reach.py >o", outputs: {o: o}}
	  loopback: {network: loopback, run: "python3 reach.py >o", outputs: {o: o}}
	  strict: {network: none, sandbox: strict, run: "python3 reach.py >o", outputs: {o: o}}
	  host: {run: "python3 reach.py >o", outputs: {o: o}}
	YAML
	cairn run reach.yaml -q
	for step in none loopback strict host; do
		cairn get $step/o -o o -q --replace
		echo "$step $(cut -d" " -f1-4 o)" >>reached
	done
	test_cmp - reached <<-E
	none no no no no
	loopback no yes yes no
	strict no no no no
	host yes yes yes yes
	E
'

test_expect 'a step that fails without network says so' '
	write fails.yaml <<-"YAML"
	pipeline: fails
	steps: {a: {network: none, run: "exit 3"}}
	YAML
	test_code 1 cairn run fails.yaml 2>err
	test_is "$(why_failed a)" "exit status 3; it had no network (\`network: none\`)"
'

test_expect 'keys: commands get another one, built-in steps and those without the words keep theirs' '
	write keys.yaml <<-"YAML"
	pipeline: keys
	inputs: {csv: labels.csv}
	steps:
	  command: {run: "echo x >o", outputs: {o: o}}
	  built_in: {uses: shard, inputs: {data: "${{ inputs.csv }}"}, outputs: {shards: shards/}, with: {samples_per_shard: 1}}
	YAML
	printf "a,b\n1,2\n3,4\n" >labels.csv
	cairn run keys.yaml -q
	echo "sandbox: strict" >cairn.yaml
	test_when_finished "echo \"# project\" >cairn.yaml"
	cairn plan keys.yaml --json >plan
	test_is "$(json plan "\", \".join(sorted(t[\"task\"] + \" \" + t[\"state\"] for t in d[\"tasks\"]))")" "built_in hit, command run"
	cairn plan keys.yaml >text
	test_grep "sandbox" text
	cairn why keys.yaml command >why
	test_grep "sandbox" why
	cairn run keys.yaml -q
	sed "s/^steps:/defaults: {sandbox: none, network: host}\nsteps:/" keys.yaml >keys-none.yaml
	cairn plan keys-none.yaml --json >plan
	test_is "$(json plan "\", \".join(sorted(t[\"task\"] + \" \" + t[\"state\"] for t in d[\"tasks\"]))")" "built_in hit, command hit"
'

test_expect 'a reproduction keeps the words that cairn.yaml had' '
	echo "network: none" >cairn.yaml
	test_when_finished "echo \"# project\" >cairn.yaml"
	write past.yaml <<-"YAML"
	pipeline: past
	steps: {a: {run: "python3 -c \"import socket; print(socket.socket().connect_ex((\\\"127.0.0.1\\\", 1)))\" >o", outputs: {o: o}}}
	YAML
	cairn run past.yaml -q
	echo "# project" >cairn.yaml
	cairn reproduce last >out 2>err
'

test_expect --needs LOCAL_STORE 'inputs that are links stay protected' '
	echo "workspace: link" >cairn.yaml
	test_when_finished "echo \"# project\" >cairn.yaml"
	cairn doctor >doctor || true
	grep -q "read-only hard links" doctor || test_cannot "no Landlock here"
	write links.yaml <<-YAML
	pipeline: links
	inputs: {secret: secret.csv}
	steps:
	  a:
	    sandbox: strict
	    inputs: {secret: "\${{ inputs.secret }}"}
	    run: "stat -c %h inputs/secret.csv >out/n; echo x >inputs/secret.csv || echo kept >>out/n; cat \"$PWD/secret.csv\" || echo unseen >>out/n"
	    outputs: {out: out/}
	YAML
	cairn run links.yaml -q
	cairn get a/out -o linked -q
	test_is "$(cat linked/n)" "2
kept
unseen"
	cairn store verify >verified
	test_grep " 0 problems" verified
'

test_expect 'a timeout and a wish to stop end it, with all that it started' '
	write stop.yaml <<-"YAML"
	pipeline: stop
	defaults: {sandbox: strict, network: none}
	steps:
	  slow: {run: "sleep 600 & : >started; wait", timeout: 300ms}
	YAML
	test_code 1 cairn run stop.yaml 2>err
	why_failed slow | grep -F "took longer than its timeout"
	sed -i "s/, timeout: 300ms//; s/pipeline: stop/pipeline: ask/" stop.yaml
	cairn run -q stop.yaml 2>err &
	engine=$!
	wait_until 20 bash -c "ls .cairn/work/*/w/started"
	cairn cancel
	test_code 130 wait $engine
'

test_expect 'the launcher and its ranks over an own loopback' '
	write ranks.yaml <<-"YAML"
	pipeline: ranks
	steps:
	  train:
	    sandbox: strict
	    network: loopback
	    run: python3 rank.py
	    distributed: {framework: torch, nodes: 1, procs_per_node: 2}
	YAML
	write rank.py <<-"PY"
	import os, socket, time
	address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
	if os.environ["RANK"] == "0":
	    with socket.create_server(address) as s:
	        s.accept()[0].sendall(b"hello")
	else:
	    for _ in range(1000):
	        try:
	            print("rank 1 got", socket.create_connection(address).recv(9).decode())
	            break
	        except ConnectionRefusedError:
	            time.sleep(0.01)
	PY
	cairn run ranks.yaml -q
	cairn logs train >log
	test_grep "rank 1 got hello" log
'

test_expect 'built-in steps run strictly, without network' '
	write built-in.yaml <<-"YAML"
	pipeline: built-in
	defaults: {sandbox: strict, network: none}
	inputs: {csv: rows.csv}
	steps:
	  shard: {uses: shard, inputs: {data: "${{ inputs.csv }}"}, outputs: {shards: shards/}, with: {samples_per_shard: 1}}
	  train: {uses: train, run: "echo loss=1 step=1", inputs: {shards: "${{ steps.shard.outputs.shards }}"}, metrics: metrics.json}
	YAML
	printf "a,b\n1,2\n3,4\n" >rows.csv
	cairn run built-in.yaml -q --force
	test_is "$(cairn status --json | json /dev/stdin "\", \".join(sorted(t[\"task\"] + \" \" + t[\"state\"] for t in d[\"tasks\"]))")" "shard succeeded, train succeeded"
'

test_expect 'a checkpoint is its own, and goes on after a failure' '
	write again.yaml <<-"YAML"
	pipeline: again
	steps: {a: {sandbox: strict, checkpoint: ckpt, run: "cat ckpt/saved || { echo 1 >ckpt/saved; exit 1; }", retry: {max: 1, backoff: 1ms}}}
	YAML
	cairn run -q again.yaml
'

test_expect 'on a cluster a network of its own is refused' '
	write pods.yaml <<-"YAML"
	pipeline: pods
	steps: {a: {network: none, image: "registry.test/x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", run: "true"}}
	YAML
	write cairn.yaml <<-E
	store: $PWD/shared
	kubernetes: {image: "registry.test/cairn@sha256:0123456789012345678901234567890123456789012345678901234567890123", store_claim: shared}
	E
	test_when_finished "echo \"# project\" >cairn.yaml"
	CAIRN_STORE="" KUBECONFIG=$PWD/none test_code 3 cairn run pods.yaml --on kubernetes --dry-run=client >out 2>err
	test_grep "says .network: none., which pods can.t have" err
	for sandbox in none strict; do
		write pods.yaml <<-YAML
		pipeline: pods
		steps: {a: {sandbox: $sandbox, pack: 2, each: [1, 2], image: "registry.test/x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", run: "echo \${{ item }}"}}
		YAML
		CAIRN_STORE="" KUBECONFIG=$PWD/none cairn run pods.yaml --on kubernetes --dry-run=client >$sandbox 2>err
	done
	test_grep "cairn.internal/attempts: .1 2.$" none
	test_grep "cairn.internal/attempts: .1,2.$" strict
'

test_expect 'a shell is in the same sandbox' '
	echo "cat \"$PWD/secret.csv\" || echo unseen; echo \$HOME" >typed
	write shell.yaml <<-"YAML"
	pipeline: shell
	steps: {a: {sandbox: strict, run: "true"}}
	YAML
	SHELL=/bin/sh cairn run --shell a shell.yaml <typed >out 2>err || true
	test_grep unseen out
	test_no_grep "^secret" out
'

test_expect '--audit of a strict step tells as before' '
	write audit.yaml <<-YAML
	pipeline: audit
	steps: {a: {sandbox: strict, run: "cat \"$PWD/secret.csv\" || true"}}
	YAML
	cairn run --audit audit.yaml 2>err
	test_grep "a: secret.csv isn.t declared: add .inputs: {secret: secret.csv}" err
'

# no_call NUMBER COMMAND...: on a kernel that doesn't know the call.
no_call() { python3 "$SRC/tests/cli/run/no_call.py" "$1" 38 "${@:2}"; }
test_expect 'where the kernel can not, the step is refused in words and never runs' '
	write can.yaml <<-YAML
	pipeline: can
	steps: {a: {sandbox: strict, run: "echo ran >\"$PWD/ran\""}}
	YAML
	test_code 1 no_call 444 cairn run can.yaml 2>err
	why_failed a | grep -F "\`sandbox: strict\` isn'"'"'t possible here: the kernel has no Landlock"
	sed -i "s/sandbox: strict/network: none/; s/pipeline: can/pipeline: cannot/" can.yaml
	case $(uname -m) in x86_64) unshare=272 ;; *) unshare=97 ;; esac
	test_code 1 no_call $unshare cairn run can.yaml 2>err
	why_failed a | grep -F "network of its own"
	test_missing ran
	echo "sandbox: strict" >cairn.yaml
	test_when_finished "echo \"# project\" >cairn.yaml"
	test_code 1 no_call 444 cairn doctor >doctor
	test_grep "problem +sandbox +.sandbox: strict. isn.t possible: the kernel has no Landlock" doctor
'

rm -rf "$outside"
if [ -w /dev/shm ]; then
	test_expect 'a project in a directory that steps may use is refused' '
		shared=$(mktemp -d /dev/shm/cairn-sandbox.XXXXXX)
		write "$shared/pipeline.yaml" <<-\YAML
			pipeline: shown
			defaults: {sandbox: strict}
			steps:
			  a: {run: "cat /dev/shm/*/pipeline.yaml > out", outputs: {out: out}}
		YAML
		touch "$shared/cairn.yaml"
		cd "$shared"
		test_code 1 cairn run pipeline.yaml >"$TRASH/work/told" 2>&1 || rc=$?
		rm -rf "$shared"
		test_grep "can.t hide the project $shared, since steps may use /dev/shm: move the project" "$TRASH/work/told"
		test "${rc:-0}" = 0
	'
else
	test_skip 'a project in a directory that steps may use is refused' 'no /dev/shm that can be written to'
fi
test_done
