#!/bin/bash
# The two containers of a pod as two processes that share a directory: `cairn pod` and `cairn-init`, against a directory as the store and against a real bucket.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=../../net/servers.sh
HOME=$test_home XDG_CACHE_HOME=$test_xdg . "$SRC/tests/net/servers.sh"

BUILD=$(dirname "$(realpath "$(command -v cairn)")")
TOOL=$TRASH/bin/pod-tool
INIT=$BUILD/cairn-init
{ [ -x "$BUILD/tests/pod_tool" ] && [ -x "$INIT" ]; } || test_skip_all 'no pod_tool, or no cairn-init, beside cairn'
# Another machine each time: what it finds is in the shared store.
cat >"$TOOL" <<SH
#!/bin/sh
local=\$(mktemp -d "$TRASH/tool.XXXXXX")
rc=0
env POD_TOOL_LOCAL="\$local" CAIRN_STORE_ENDPOINT="\${AWS_ENDPOINT_URL:-}" "$BUILD/tests/pod_tool" "\$@" || rc=\$?
chmod -R u+w "\$local"
rm -rf "\$local"
exit \$rc
SH
chmod +x "$TOOL"
export TOOL INIT

cat >"$TRASH/spec.py" <<'PY'
"""spec.py DIR [KEY=VALUE…]: a specification with one attempt a --next; values are JSON."""
import hashlib, json, sys
attempts, a = [], None
def new(i):
    return {"id": i, "number": 1, "run": "r1", "task": "t%d" % i, "step": "t", "key": hashlib.sha256(b"key").hexdigest(), "argv": ["sh", "-c", "true"],
            "env": [], "secrets": [], "inputs": [], "outputs": []}
a = new(7)
for arg in sys.argv[1:]:
    if arg == "--next":
        attempts.append(a)
        a = new(a["id"] + 1)
    else:
        k, v = arg.split("=", 1)
        a[k] = json.loads(v)
        if k == "argv":  # bytes that aren't UTF-8 have a form of their own, and so has the backslash
            a[k] = [x.replace("\\", "\\\\") for x in a[k]]
attempts.append(a)
print(json.dumps({"cairn_pod": 1, "attempts": attempts}))
PY

# sh_of SCRIPT: argv that runs it.
sh_of() { python3 -c 'import json, sys; print("argv=" + json.dumps(["sh", "-c", sys.argv[1]]))' "$1"; }

# pod NAME [KEY=VALUE…]: the directories and the specification of one pod.
pod() {
	local name=$1
	shift
	mkdir -p "$name/root" "$name/state"
	: >"$name/message"
	python3 "$TRASH/spec.py" "$@" >"$name/spec.json"
	"$TOOL" spec "$STORE" "$name/spec.json" >"$name/spec"
}

sidecar() { # NAME [ARGUMENT…]
	local name=$1
	shift
	rm -f "$name-side.rc" "$name-side.pid"
	start "$name-side" env CAIRN_POD_SPEC="$(cat "$name/spec")" CAIRN_STORE="$STORE" cairn pod --root "$PWD/$name/root" --state "$PWD/$name/state" \
		--message "$PWD/$name/message" --helper "$INIT" --save-within 3s "$@"
}

main() { # NAME [ARGUMENT…]
	local name=$1
	shift
	cairn pod --ready --root "$PWD/$name/root"
	start "$name-main" "$PWD/$name/root/bin/cairn-init" --root "$PWD/$name/root" "$@"
}

# Ends by itself: nobody tells it.
ended() { # NAME
	wait_until 120 test -s "$1-main.rc"
	wait_until 120 test -s "$1-side.rc"
	test_is "$(cat "$1-side.rc")" 0 || { cat "$1-side.out" >&2; return 1; }
	"$TOOL" result "$STORE" "$1/message" >"$1.json" || { cat "$1/message" >&2; return 1; }
}

run_pod() { # NAME [KEY=VALUE…]
	pod "$@"
	sidecar "$1"
	main "$1"
	ended "$1"
}

result() { json "$1.json" "d['results'][${3:-0}]$2"; }
export -f sh_of pod sidecar main ended run_pod result
lines_of() { grep -c "$1" "$2" || true; }

suite() {
test_expect "$1: the newest numbers of a training are said while it runs, and only its own" '
	export CAIRN_TEST_POD_SERIES=20ms
	pod live "$(sh_of "while read -r x; do echo \"\$x\" >>s.jsonl; done <$PWD/live.in; echo x >o")" "series=\"s.jsonl\"" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	mkfifo live.in
	sidecar live
	main live
	exec 8>live.in
	echo "{\"step\": 1, \"loss\": 0.5, \"lr\": 0.1}" >&8
	wait_until 60 grep -q "cairn pod: {\"cairn_series\":7,\"step\":1.0,\"loss\":0.5,\"lr\":0.1" live-side.out
	echo "{\"step\": 2, \"loss\": 0.25, \"cairn_series\": 9, \"words\": \"no\"}" >&8
	wait_until 60 grep -q "{\"cairn_series\":7,\"step\":2.0,\"loss\":0.25}" live-side.out
	exec 8>&-
	ended live
	test_is "$(lines_of cairn_series live-side.out)" 2
	echo "{\"secret\": 42}" >secret.jsonl
	echo >>secret.jsonl
	pod linked "$(sh_of "ln -s $PWD d; read -r x <$PWD/linked.in; echo x >o")" "series=\"d/secret.jsonl\"" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	mkfifo linked.in
	sidecar linked
	main linked
	exec 8>linked.in
	wait_until 60 test -L linked/root/0/w/d
	timeout 0.2 tail -f /dev/null || true # ten looks
	exec 8>&-
	ended linked
	test_no_grep "42|secret" linked-side.out
'

# Two records of an event file: loss at step 1 and 2.
test_expect "$1: so are those of a directory of event files, each whole record once" '
	export CAIRN_TEST_POD_SERIES=20ms
	pod board "$(sh_of "mkdir -p tb/train; while read -r x; do echo \"\$x\" | base64 -d >>tb/train/events.out.tfevents.1; done <$PWD/board.in; echo x >o")" "series=\"tb\"" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	mkfifo board.in
	sidecar board
	main board
	exec 8>board.in
	echo EQAAAAAAAACdbbUuEAEqDQoLCgRsb3NzFQAAAD9RGCn8 >&8
	wait_until 60 grep -q "cairn pod: {\"cairn_series\":7,\"step\":1.0,\"train/loss\":0.5}" board-side.out
	echo EQAAAAAAAACdbbUuEAIqDQoL >&8
	echo CgRsb3NzFQAAgD6xBDcO >&8
	wait_until 60 grep -q "{\"cairn_series\":7,\"step\":2.0,\"train/loss\":0.25}" board-side.out
	exec 8>&-
	ended board
	test_is "$(lines_of cairn_series board-side.out)" 2
'

test_expect "$1: a program runs, its inputs are there, its outputs and log are kept" '
	mkdir -p in/sub
	echo one >in/a
	echo "zwei ü" >"in/sub/b ä"
	echo x=1 >file
	tree=$("$TOOL" put "$STORE" in)
	blob=$("$TOOL" put "$STORE" file)
	mkdir -p code
	echo "cat data/a \"data/sub/b ä\" conf/x; echo made >out/m; echo {\\\"acc\\\": 0.5} >m.json; echo \$GREETING; echo err >&2" >code/go.sh
	code=$("$TOOL" put "$STORE" code)
	run_pod first "inputs=[{\"name\":\"d\",\"path\":\"data\",\"id\":\"$tree\"},{\"name\":\"c\",\"path\":\"conf/x\",\"id\":\"$blob\"}]" "code=\"$code\"" \
		"argv=[\"sh\",\"go.sh\"]" "env=[\"GREETING=hällo\"]" "outputs=[{\"name\":\"o\",\"path\":\"out\",\"dir\":true}]" "metrics=\"m.json\""
	test_is "$(cat first-main.rc)" 0
	test_is "$(result first "[\"ran\"]")" true
	test_is "$(result first ".get(\"failure\")")" null
	test_is "$(result first "[\"metrics\"]")" "{\"acc\": 0.5}"
	"$TOOL" get "$STORE" "$(result first "[\"outputs\"][0]")" got
	test_is "$(cat got/m)" made
	"$TOOL" get "$STORE" "$(result first "[\"log\"]")" log
	printf "one\nzwei ü\nx=1\nhällo\nerr\n" >want
	test_cmp want log
	test_cmp want first-main.out
	test_missing first/root/0/w/data/x
	test_is "$(stat -c %a first/root/0/w/data first/root/0/w/data/a first/root/0/w/conf/x | tr "\n" " ")" "555 444 444 "
'

if [ "${CAIRN_TEST_FULL:-0}" = 1 ]; then
test_expect "$1: a file of 5 GiB and a byte, nearly all of it a hole, is given and comes back" '
	truncate -s $((5 * 1024 * 1024 * 1024)) huge
	printf x >>huge
	blob=$("$TOOL" put "$STORE" huge)
	run_pod huge-pod "inputs=[{\"name\":\"h\",\"path\":\"in/h\",\"id\":\"$blob\"}]" "$(sh_of "cp --sparse=always in/h o")" \
		"outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	test_is "$(cat huge-pod-main.rc)" 0
	"$TOOL" get "$STORE" "$(result huge-pod "[\"outputs\"][0]")" huge.got
	cmp huge huge.got
	rm -rf huge huge.got huge-pod
'
else
	test_skip "$1: a file of 5 GiB" "set CAIRN_TEST_FULL=1"
fi

test_expect "$1: a program is given, a program and a plain file come back" '
	printf "#!/bin/sh\necho from the program\n" >given
	chmod +x given
	blob=$("$TOOL" put "$STORE" given)
	test_grep "^executable:" <(echo "$blob")
	run_pod program "inputs=[{\"name\":\"p\",\"path\":\"in/p\",\"id\":\"$blob\"}]" "$(sh_of "in/p >plain; cp in/p made")" \
		"outputs=[{\"name\":\"a\",\"path\":\"made\"},{\"name\":\"b\",\"path\":\"plain\"}]"
	test_is "$(cat program-main.rc)" 0
	test_is "$(stat -c %a program/root/0/w/in/p)" 555
	test_is "$(result program "[\"outputs\"][0]")" "$blob"
	"$TOOL" get "$STORE" "$(result program "[\"outputs\"][0]")" made
	"$TOOL" get "$STORE" "$(result program "[\"outputs\"][1]")" plain
	test_is "$(stat -c %a made plain | tr "\n" " ")" "755 644 "
	test_is "$(./made)" "$(cat plain)"
'

test_expect "$1: failing, dying, and being too slow are told apart" '
	run_pod fails "$(sh_of "echo no; exit 3")" &
	run_pod dies "$(sh_of "kill -SEGV \$\$")" &
	run_pod slow "$(sh_of "trap : TERM; while :; do sleep 0.05; done")" timeout_ns=300000000 grace_ns=200000000 &
	wait
	test_is "$(cat fails-main.rc) $(result fails "[\"failure\"]") $(result fails "[\"exit\"]") $(result fails "[\"error\"]")" "3 failed 3 exit status 3"
	test_is "$(result fails "[\"log_tail\"]")" "no"
	test_is "$(cat dies-main.rc) $(result dies "[\"failure\"]") $(result dies "[\"signal\"]") $(result dies "[\"error\"]")" "139 failed 11 killed by SIGSEGV"
	test_is "$(cat slow-main.rc) $(result slow "[\"failure\"]") $(result slow "[\"signal\"]")" "137 timeout 9"
'

test_expect "$1: a missing output and one of the wrong kind" '
	run_pod lacks "outputs=[{\"name\":\"model\",\"path\":\"m\"}]" &
	run_pod kind "$(sh_of "mkdir m")" "outputs=[{\"name\":\"model\",\"path\":\"m\"}]" &
	run_pod nometrics "metrics=\"m.json\"" &
	wait
	test_is "$(result lacks "[\"failure\"]") $(cat lacks-main.rc)" "output 0"
	test_grep "did not make its output .model." lacks.json
	test_is "$(result kind "[\"failure\"]")" output
	test_is "$(result nometrics "[\"failure\"]")" output
'

test_expect "$1: told to end, the program has its grace time, checkpoint and log are kept" '
	pod told "$(sh_of "trap \"echo saved >ckpt/s; echo bye; exit 0\" TERM; echo begun; touch up; while :; do sleep 0.05; done")" "checkpoint=\"ckpt\"" \
		"outputs=[{\"name\":\"o\",\"path\":\"o\"}]" grace_ns=20000000000
	sidecar told
	main told
	wait_until 20 test -e told/root/0/w/up
	kill -TERM "$(cat told-main.pid)"
	ended told
	test_is "$(cat told-main.rc)" 0
	test_is "$(result told "[\"stopped\"]") $(result told "[\"failure\"]") $(result told ".get(\"outputs\")")" "true failed null"
	"$TOOL" get "$STORE" "$(result told "[\"log\"]")" log-told
	test_is "$(grep -c -e begun -e bye log-told)" 2
	run_pod again "$(sh_of "cat ckpt/s; cp ckpt/s o")" "id=8" "checkpoint=\"ckpt\"" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	test_is "$(result again "[\"continues\"]") $(result again ".get(\"failure\")")" "7 null"
	test_is "$(cat again-main.out)" saved
	"$TOOL" forget "$STORE" "$(printf key | sha256sum | cut -c 1-64)"
	run_pod anew "$(sh_of "ls ckpt")" "id=9" "checkpoint=\"ckpt\""
	test_is "$(result anew ".get(\"continues\")") $(wc -c <anew-main.out)" "null 0"
'

test_expect "$1: the checkpoint is saved while the program runs, and goes on after kill -9 of everything" '
	pod ck "$(sh_of "echo 1 >ckpt/n; touch up; while :; do sleep 0.05; done")" "checkpoint=\"ckpt\"" "key=\"$(printf ck | sha256sum | cut -c 1-64)\""
	sidecar ck --checkpoint-every 100ms
	main ck
	wait_until 20 grep -q saved ck/state/cairn-pod.json
	children=$(pgrep -P "$(cat ck-main.pid)") # the kernel kills them with process 1 of a pod
	kill -9 "$(cat ck-side.pid)" "$(cat ck-main.pid)" $children
	wait_until 20 test -s ck-main.rc
	run_pod ck2 "$(sh_of "cat ckpt/n")" "checkpoint=\"ckpt\"" "id=8" "key=\"$(printf ck | sha256sum | cut -c 1-64)\""
	test_is "$(result ck2 "[\"continues\"]") $(cat ck2-main.out)" "7 1"
'

test_expect "$1: several programs run one after the other, each with its own result" '
	run_pod pack "$(sh_of "echo a >o")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]" --next "$(sh_of "exit 4")" --next "$(sh_of "echo c >o")" \
		"outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	test_is "$(json pack.json "[[r[\"attempt\"], r.get(\"failure\"), r.get(\"exit\")] for r in d[\"results\"]]")" "[[7, null, null], [8, \"failed\", 4], [9, null, null]]"
	"$TOOL" get "$STORE" "$(result pack "[\"outputs\"][0]" 2)" third
	test_is "$(cat third)" c
'

test_expect "$1: a result that is too long for a message goes through the store" '
	run_pod long "$(sh_of "printf \"{\\\"a\\\": 1%05000d}\" 0 >m.json")" "metrics=\"m.json\""
	test_is "$(test $(stat -c %s long/message) -le 4096 && echo small)" small
	test_grep "\"result\":\"blob:" long/message
	test_is "$(result long "[\"metrics\"]" | wc -c)" 5009
'
}

export STORE=$TRASH/store-dir
suite directory

test_expect 'links that lead out of the workspace bring nothing in' '
	echo "top secret" >secret
	mkdir secrets
	cp secret secrets/x
	P=$PWD
	out="outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	dir="outputs=[{\"name\":\"o\",\"path\":\"o\",\"dir\":true}]"
	run_pod l1 "$(sh_of "ln -s $P/secret o")" "$out" &
	run_pod l2 "$(sh_of "rmdir o; ln -s $P/secrets o")" "$dir" &
	run_pod l3 "$(sh_of "ln -s ../../../../secret o")" "$out" &
	run_pod l4 "$(sh_of "ln -s $P/secrets d")" "outputs=[{\"name\":\"o\",\"path\":\"d/x\"}]" "argv=[\"sh\",\"-c\",\"rmdir d; ln -s $P/secrets d\"]" &
	run_pod l5 "$(sh_of "ln -s $P/secret m.json")" "metrics=\"m.json\"" &
	run_pod l6 "$(sh_of "ln -sf $P/secret ../../run/0/log; exit 1")" &
	run_pod l7 "$(sh_of "rmdir ckpt; ln -s $P/secrets ckpt; exit 1")" "checkpoint=\"ckpt\"" "key=\"$(printf l7 | sha256sum | cut -c 1-64)\"" &
	run_pod l8 "$(sh_of "mkfifo o")" "$out" &
	wait
	for p in l1 l2 l3 l4 l5 l8; do
		test_is "$p $(result $p "[\"failure\"]")" "$p output"
	done
	test_grep "leads out" l1.json
	test_is "$(result l6 ".get(\"log\")")" null
	test_grep "log isn.t a regular file" l6-side.out
	test_grep "leads out|isn.t a directory|symbolic" l7-side.out
	test_is "$(grep -rl "top secret" store-dir */root/0/w 2>/dev/null | wc -l)" 0
	test_is "$(grep -rl "top secret" "$STORE" | wc -l)" 0
'

# Only the program's container mounts the volume: here its place is empty.
test_expect 'a link to an input that is in a volume is no output' '
	mkdir held
	echo bytes >held/f
	held=$("$TOOL" put "$STORE" held)
	file=$("$TOOL" put "$STORE" held/f)
	in="{\"name\":\"v\",\"path\":\"in/v\",\"volume\":\"claim://data/set\""
	run_pod v1 "inputs=[$in,\"id\":\"$held\"}]" "$(sh_of "rmdir o; ln -s in/v o")" "outputs=[{\"name\":\"o\",\"path\":\"o\",\"dir\":true}]"
	run_pod v2 "inputs=[$in,\"id\":\"$file\"}]" "$(sh_of ": >in/v; ln -s in/v o")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	for p in v1 v2; do
		test_is "$p $(result $p "[\"failure\"]")" "$p output"
	done
'

test_expect 'links that stay inside are followed, links in a directory are kept as text' '
	run_pod in "$(sh_of "mkdir real; echo yes >real/f; ln -s real o; ln -s /etc/passwd real/p; ln -s real/f f")" \
		"outputs=[{\"name\":\"f\",\"path\":\"f\"}]"
	test_is "$(result in ".get(\"failure\")")" null
	run_pod in2 "$(sh_of "rmdir o; mkdir real; echo yes >real/f; ln -s real o; ln -s /etc/passwd real/p")" "outputs=[{\"name\":\"o\",\"path\":\"o\",\"dir\":true}]"
	"$TOOL" get "$STORE" "$(result in2 "[\"outputs\"][0]")" links
	test_is "$(readlink links/p)" /etc/passwd
'

test_expect 'the run directory taken over by the program costs only itself' '
	mkdir -p elsewhere
	P=$PWD
	run_pod over "$(sh_of "rm -rf ../../run/0; ln -s $P/elsewhere ../../run/0; rm ../../run/beat; ln -s $P/elsewhere/b ../../run/beat; echo hi")" &
	wait_until 20 test -L over/root/run/0
	wait_until 20 test -s over-main.rc
	wait || true
	test_is "$(ls elsewhere | grep -v -e exit -e saved | wc -l)" 0
	test_missing elsewhere/saved elsewhere/b
'

test_expect 'an input that is damaged in the store ends the pod with class store' '
	echo "good bytes" >in-bad
	id=$("$TOOL" put "$STORE" in-bad)
	hex=${id##*:}
	f=$STORE/blobs/$(echo $hex | cut -c 1-2)/$hex
	chmod u+w $f
	echo "evil bytes" >$f
	run_pod bad "inputs=[{\"name\":\"data\",\"path\":\"d\",\"id\":\"$id\"}]" "$(sh_of "echo ran")"
	test_is "$(cat bad-main.rc)" 121
	test_is "$(result bad "[\"failure\"]") $(result bad ".get(\"ran\")")" "store null"
	test_grep "input .data." bad.json
	test_grep "input .data." bad-main.out
	test_no_grep "^ran" bad-main.out
'

test_expect 'a specification that is not there, and a store that is not there' '
	pod none
	echo "blob:5:$(printf nothing | sha256sum | cut -c 1-64)" >none/spec
	sidecar none
	main none
	ended none
	test_is "$(cat none-main.rc) $(result none "[\"failure\"]") $(result none ".get(\"attempt\")")" "121 store null"
	pod nostore
	STORE=$TRASH/no-such-store sidecar nostore
	main nostore
	ended nostore
	test_is "$(cat nostore-main.rc) $(result nostore "[\"failure\"]")" "121 store"
'

test_expect 'secrets are taken out of the log, also across two writes' '
	pod red "$(sh_of "printf \"a \$TOKEN b\\n\"; printf hush; sleep 0.1; printf -- \"-hush\\n\"; echo \$TOKEN >o")" "secrets=[\"TOKEN\"]" \
		"outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	sidecar red
	cairn pod --ready --root "$PWD/red/root"
	start red-main env TOKEN=hush-hush "$PWD/red/root/bin/cairn-init" --root "$PWD/red/root"
	ended red
	printf "a *** b\n***\n" >want
	test_cmp want red-main.out
	"$TOOL" get "$STORE" "$(result red "[\"log\"]")" log-red
	test_cmp want log-red
'
test_expect 'the result of an attempt that printed its secret and failed has none of it' '
	pod shy "$(sh_of "echo \"fatal: \$TOKEN\" >&2; printf %s \$TOKEN | base64; exit 3")" "secrets=[\"TOKEN\"]"
	sidecar shy
	cairn pod --ready --root "$PWD/shy/root"
	start shy-main env TOKEN=hush-hush "$PWD/shy/root/bin/cairn-init" --root "$PWD/shy/root"
	ended shy
	test_is "$(result shy "[\"failure\"]")" failed
	test_grep "fatal: [*][*][*]" shy.json
	test_no_grep "hush|aHVzaC1odXNo" shy.json
	test_no_grep "hush|aHVzaC1odXNo" shy/message
	test_no_grep "hush|aHVzaC1odXNo" shy-side.out
'

test_expect 'the sidecar falls silent: the helper ends' '
	pod silent "$(sh_of "echo done >o")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	sidecar silent
	wait_until 20 test -e silent/root/run/ready
	kill -9 "$(cat silent-side.pid)"
	wait_until 20 test -s silent-side.rc
	main silent --stale 0.3
	wait_until 20 test -s silent-main.rc
	test_is "$(cat silent-main.rc)" 122
	test_grep "fallen silent" silent-main.out
'

test_expect 'the sidecar is killed and started again: nothing is lost' '
	pod twice "$(sh_of "touch up; while ! test -e go; do sleep 0.02; done; echo done >o")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]" "checkpoint=\"ckpt\"" \
		"key=\"$(printf twice | sha256sum | cut -c 1-64)\""
	sidecar twice
	main twice
	wait_until 20 test -e twice/root/0/w/up
	kill -9 "$(cat twice-side.pid)"
	wait_until 20 test -s twice-side.rc
	sidecar twice
	touch twice/root/0/w/go
	ended twice
	test_is "$(cat twice-main.rc) $(result twice ".get(\"failure\")")" "0 null"
'

test_expect 'the helper is killed: the sidecar says so and keeps log and checkpoint' '
	key="key=\"$(printf hk | sha256sum | cut -c 1-64)\""
	pod hk "$(sh_of "echo begun; echo 5 >ckpt/n; touch up; while :; do sleep 0.05; done")" "checkpoint=\"ckpt\"" "$key"
	sidecar hk
	main hk
	wait_until 20 test -e hk/root/0/w/up
	wait_until 20 grep -q begun hk/root/run/0/log
	children=$(pgrep -P "$(cat hk-main.pid)")
	kill -9 "$(cat hk-main.pid)" $children
	wait_until 20 test -s hk-side.rc
	test_is "$(cat hk-side.rc)" 0
	"$TOOL" result "$STORE" hk/message >hk.json
	test_is "$(result hk "[\"main_died\"]") $(result hk "[\"ran\"]") $(result hk "[\"log_tail\"]")" "true true begun"
	run_pod hk2 "$(sh_of "cat ckpt/n")" "checkpoint=\"ckpt\"" "$key" id=8
	test_is "$(cat hk2-main.out)" 5
'

test_expect 'SIGTERM before the program began ends both at once' '
	pod early
	sidecar early
	cairn pod --ready --root "$PWD/early/root"
	wait_until 20 test -e early/root/run/ready
	kill -TERM "$(cat early-side.pid)"
	wait_until 20 test -s early-side.rc
	"$TOOL" result "$STORE" early/message >early.json
	test_is "$(result early ".get(\"ran\")") $(result early "[\"main_died\"]")" "null true"
	mkdir -p wait/root/run
	start wait-main "$INIT" --root "$PWD/wait/root"
	kill -TERM "$(cat wait-main.pid)"
	wait_until 20 test -s wait-main.rc
	test_is "$(cat wait-main.rc)" 143
'

test_expect 'what the program leaves running ends with it; a shell that dies of the TERM leaves its child the grace time' '
	run_pod left "$(sh_of "(trap : TERM; sleep 300; echo late) & echo \$! >child; exit 0")"
	test_is "$(cat left-main.rc)" 0
	wait_until 5 test_gone "$(cat left/root/0/w/child)"
	pod tree "argv=[\"sh\",\"-c\",\"sh -c '\''trap \\\"sleep 0.3; echo saved; exit\\\" TERM; touch up; while :; do sleep 0.02; done'\'' ; echo never\"]" grace_ns=20000000000
	sidecar tree
	main tree
	wait_until 20 test -e tree/root/0/w/up
	kill -TERM "$(cat tree-main.pid)"
	ended tree
	test_grep saved tree-main.out
'

test_expect 'a kill for memory is told by the group, of both versions' '
	mkdir -p cg2 cg1/memory
	echo "oom_kill 3" >cg2/memory.events
	printf "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n" >cg1/memory/memory.oom_control
	for v in 1 2; do
		file=$PWD/cg2/memory.events
		[ $v = 2 ] || file=$PWD/cg1/memory/memory.oom_control
		pod oom$v "$(sh_of "echo oom_kill 9 >$file; kill -9 \$\$")"
		sidecar oom$v
		main oom$v --cgroup "$PWD/cg$v"
		ended oom$v
		test_is "$(result oom$v "[\"failure\"]") $(cat oom$v-main.rc)" "oom 137"
	done
'

test_expect --needs ROOT 'a full disk ends nobody, and the log says what is missing' '
	mkdir -p full/root
	mount -t tmpfs -o size=3m tmpfs full/root || test_cannot "no file system can be mounted"
	test_when_finished "umount -l full/root"
	run_pod full "$(sh_of "cat /dev/zero >fill 2>/dev/null; i=0; while [ \$i -lt 3000 ]; do echo line \$i; i=\$((i+1)); done; rm fill; echo end; echo ok >o")" \
		"outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	test_is "$(cat full-main.rc) $(result full ".get(\"failure\")")" "0 null"
	test_lines 3001 full-main.out
	"$TOOL" get "$STORE" "$(result full "[\"log\"]")" log-full
	test_grep "bytes are missing here: the disk was full" log-full
	test_is "$(tail -n 1 log-full)" end
'

test_expect --needs ROOT 'a disk that stays full: the log says so in the place of its end' '
	mkdir -p fuller/root
	mount -t tmpfs -o size=3m tmpfs fuller/root || test_cannot "no file system can be mounted"
	test_when_finished "umount -l fuller/root"
	pod fuller "$(sh_of "cat /dev/zero >fill 2>/dev/null; i=0; while [ \$i -lt 3000 ]; do echo line \$i; i=\$((i+1)); done")"
	sidecar fuller
	main fuller
	wait_until 60 test -e fuller/root/run/0/exit
	cp fuller/root/run/0/log log-fuller
	wait_until 60 test -s fuller-side.rc
	stop fuller-main KILL
	test_grep "^line 0$" log-fuller
	missing=$(sed -nE "s/.cairn: ([0-9]+) bytes are missing here: the disk was full.*/\1/p" log-fuller)
	test_is "$(($(sed "/^.cairn:/,\$d" log-fuller | wc -c) - 1 + missing))" "$(grep "^line " fuller-main.out | wc -c)"
'
test_expect 'a reader of the container'"'"'s output that stands still keeps nothing from the log' '
	pod still "$(sh_of "head -c 1154112 /dev/zero | tr \"\\0\" x; echo end")"
	mkfifo still.out
	exec 8<>still.out
	sidecar still
	cairn pod --ready --root "$PWD/still/root"
	start still-main sh -c "exec \"$PWD/still/root/bin/cairn-init\" --root \"$PWD/still/root\" --flush 0.1 >$PWD/still.out"
	ended still
	test_is "$(cat still-main.rc)" 0
	"$TOOL" get "$STORE" "$(result still "[\"log\"]")" log-still
	test_is "$(wc -c <log-still)" 1154116
	exec 8>&-
'
test_expect 'what a program printed and could not be kept is no success' '
	pod unkept "$(sh_of "rmdir $PWD/unkept/root/run/0/log; echo words; echo ok >o")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
	sidecar unkept
	cairn pod --ready --root "$PWD/unkept/root"
	mkdir unkept/root/run/0/log
	main unkept
	ended unkept
	test_is "$(result unkept "[\"failure\"]")" store
	test_grep "keeping the log" unkept.json
	test_grep "can.t be kept" unkept-main.out
'

test_expect 'a directory swapped for a link while its checkpoint is saved brings nothing in' '
	mkdir -p hidden/a
	echo "deep secret" >hidden/f
	echo "deep secret" >hidden/a/f
	P=$PWD
	pod swap "$(sh_of "mkdir ckpt/a; echo 1 >ckpt/a/f; echo 2 >ckpt/f
		i=0; while [ \$i -lt 60 ]; do echo \$i >ckpt/n; mv ckpt real; ln -s $P/hidden ckpt; rm ckpt; mv real ckpt; mv ckpt/a real; ln -s $P/hidden ckpt/a; mv ckpt/f fx
		ln -s $P/hidden/f ckpt/f; rm ckpt/a ckpt/f; mv real ckpt/a; mv fx ckpt/f; i=\$((i+1)); done; exit 1")" "checkpoint=\"ckpt\"" \
		"key=\"$(printf swap | sha256sum | cut -c 1-64)\""
	sidecar swap --checkpoint-every 3ms
	main swap
	ended swap
	test_is "$(grep -rl "deep secret" "$STORE" | wc -l)" 0
	test_is "$(test "$(json swap/state/cairn-pod.json "d[\"slots\"][0][\"sequence\"]")" -gt 2 && echo saved)" saved
	run_pod swap2 "$(sh_of "cat ckpt/n ckpt/a/f ckpt/f")" "checkpoint=\"ckpt\"" "key=\"$(printf swap | sha256sum | cut -c 1-64)\"" id=8
	test_is "$(tr "\n" " " <swap2-main.out)" "59 1 2 "
'

test_expect --needs 'ROOT unshare chroot' 'as process 1 of a container: another user, an image with nothing in it, a read-only root' '
	chmod o+x "$TRASH" "$TRASH/work"
	mkdir -p jail
	J=$PWD/jail
	echo one >one
	id=$("$TOOL" put "$STORE" one)
	cp "$(dirname "$(realpath "$(command -v cairn)")")/cairn-init" code-init
	mkdir -p jailcode
	cp code-init jailcode/prog
	code=$("$TOOL" put "$STORE" jailcode)
	pod jailed "argv=[\"./prog\",\"--what\"]" "inputs=[{\"name\":\"d\",\"path\":\"in/one\",\"id\":\"$id\"}]" "code=\"$code\""
	mkdir -p "$J$PWD/jailed/root"
	sidecar jailed
	cairn pod --ready --root "$PWD/jailed/root"
	start jailed-main unshare -mpf --kill-child sh -c "mount --bind $J $J && mount -o remount,ro,bind $J && mount --bind $PWD/jailed/root $J$PWD/jailed/root || exit 1
		exec chroot --userspec=65534:65534 $J $PWD/jailed/root/bin/cairn-init --root $PWD/jailed/root"
	ended jailed
	test_is "$(cat jailed-main.rc) $(result jailed "[\"failure\"]") $(result jailed "[\"exit\"]")" "2 failed 2"
	test_grep usage: jailed-main.out
'

test_expect --needs 'ROOT unshare setpriv' 'process 1 passes signals on, reaps, and leaves nothing; what another user made for itself alone is collected' '
	chmod o+x "$TRASH" "$TRASH/work"
	pod pid1 "$(sh_of "umask 077; mkdir o; echo mine >o/f; chmod 0 o/f; (setsid sleep 300 & sleep 0.01); trap \"exit 5\" USR1; touch up; while :; do sleep 0.02; done")" \
		"outputs=[{\"name\":\"o\",\"path\":\"o\",\"dir\":true}]"
	python3 - pid1/spec.json <<-"PY"
		import json, sys
		d = json.load(open(sys.argv[1]))
		d["attempts"][0]["argv"][2] = d["attempts"][0]["argv"][2].replace("mkdir o; ", "").replace("exit 5", "exit 0")
		json.dump(d, open(sys.argv[1], "w"))
	PY
	"$TOOL" spec "$STORE" pid1/spec.json >pid1/spec
	sidecar pid1
	cairn pod --ready --root "$PWD/pid1/root"
	start pid1-main unshare -mpf --kill-child setpriv --reuid 65534 --regid 65534 --clear-groups "$PWD/pid1/root/bin/cairn-init" --root "$PWD/pid1/root"
	wait_until 20 test -e pid1/root/0/w/up
	kill -USR1 "$(pgrep -f "^$PWD/pid1/root/bin/cairn-init" | tail -n 1)"
	ended pid1
	test_is "$(cat pid1-main.rc) $(result pid1 ".get(\"failure\")")" "0 null"
	"$TOOL" get "$STORE" "$(result pid1 "[\"outputs\"][0]")" mine
	test_is "$(cat mine/f)" mine
'

test_expect 'a program that is not there' '
	run_pod nop "argv=[\"/no/such/program\"]"
	test_is "$(cat nop-main.rc) $(result nop "[\"exit\"]")" "127 127"
	test_grep "cannot run /no/such/program" nop-main.out
'

if server_can versitygw; then
	rm -rf "$TRASH"/work/*
	server gw versitygw || test_bail 'versitygw does not start'
	server_env gw versitygw
	export AWS_MAX_ATTEMPTS=2 STORE=$SERVER_URI/pods
	suite s3
	# ---- the node's cache
	. "$SRC/tests/net/net.sh"
	hostile front --upstream "127.0.0.1:$(server_port gw)" || test_bail 'the hostile server does not start'
	front=http://127.0.0.1:$(port front http)
	# cached NAME CONTENT [ARGUMENT…]: the sidecar of a pod that reads the content; by a door that counts
	cached() {
		local name=$1 content=$2
		shift 2
		pod "$name" "inputs=[{\"name\":\"d\",\"path\":\"data\",\"id\":\"$content\"}]" "$(sh_of "cat data/* data >o 2>/dev/null; true")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
		AWS_ENDPOINT_URL=$front CAIRN_STORE_ENDPOINT=$front sidecar "$name" --cache "$PWD/node" "$@"
	}
	fetched() { asked front "q[\"method\"] == \"GET\" and \"${1##*:}\" in q[\"target\"]"; } # so often
	head -c 3000000 /dev/urandom >big
	head -c 3000000 /dev/urandom >other
	blob=$("$TOOL" put "$STORE" big) other=$("$TOOL" put "$STORE" other)
	export front blob other
	export -f cached fetched port asked
	test_expect 's3: pods of a node fetch what they all read once, at the same time or later; only the sidecar sees the cache' '
		cached one "$blob"
		cached two "$blob"
		main one
		main two
		ended one
		ended two
		cached three "$blob"
		main three
		ended three
		for n in one two three; do
			test_is "$(result "$n" ".get(\"failure\")")" null
			test_cmp big "$n/root/0/w/data"
		done
		test_is "$(fetched "$blob")" 1
		test_is "$(stat -c %a node/*)" 700
	'
	test_expect 's3: a damaged copy in the cache reaches no program, and is fetched anew' '
		copy=$(find node -name "${blob##*:}")
		chmod u+w "$copy"
		test_damage "$copy" 1000
		cached hurt "$blob"
		main hurt
		ended hurt
		test_is "$(result hurt ".get(\"failure\")") $(result hurt ".get(\"ran\")")" "store null"
		cached healed "$blob"
		main healed
		ended healed
		test_is "$(result healed ".get(\"failure\")")" null
		test_cmp big healed/root/0/w/data
		test_is "$(fetched "$blob")" 2
	'
	test_expect 's3: the cache keeps to its size: what was used least recently goes' '
		cached bounded "$other" --cache-size 4000000
		main bounded
		ended bounded
		test -z "$(find node -name "${blob##*:}")"
		test -n "$(find node -name "${other##*:}")"
	'
	# mounted NAME CONTENT SCRIPT: the sidecar of a pod whose main would mount the content from node/pods/NAME/1
	mounted() {
		pod "$1" "inputs=[{\"name\":\"d\",\"path\":\"in/data\",\"id\":\"$2\",\"mounted\":1}]" "$(sh_of "$3")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
		AWS_ENDPOINT_URL=$front CAIRN_STORE_ENDPOINT=$front sidecar "$1" --cache "$PWD/node" --mount-as "$1"
	}
	cached_copy() { find node -path "*/blobs/*" -name "${1##*:}"; }
	inode() { stat -c %i "$1"; }
	wait_for_go="touch up; while ! test -e go; do sleep 0.02; done"
	export wait_for_go
	export -f mounted cached_copy inode
	test_expect 's3: a directory to mount is made of links to the cache, read-only, and goes with its pod' '
		mkdir -p set/sub
		cp big set/a
		cp big set/sub/same
		printf "#!/bin/sh\necho from the program\n" >set/sub/run
		chmod +x set/sub/run
		ln -s a set/link
		tree=$("$TOOL" put "$STORE" set)
		for n in m1 m2; do
			view=node/pods/$n/1
			mounted $n "$tree" "cat $PWD/$view/link $PWD/$view/sub/same | sha256sum >o; $PWD/$view/sub/run >>o; $wait_for_go"
			main $n
			wait_until 60 test -e $n/root/0/w/up
			test_is "$(inode $view/a)" "$(inode "$(cached_copy "$blob")")"
			test_is "$(stat -c %a $view $view/sub $view/a $view/sub/same $view/sub/run node/pods node/pods/$n | tr "\n" " ")" "555 555 444 444 555 711 711 "
			test_is "$(find $n/root -size +1000k -path "*/w/in/*")" ""
			touch $n/root/0/w/go
			ended $n
			test_is "$(result $n ".get(\"failure\")")" null
			test_missing node/pods/$n
		done
		(cat big big | sha256sum; echo from the program) >want
		"$TOOL" get "$STORE" "$(result m2 "[\"outputs\"][0]")" got-m2
		test_cmp want got-m2
		test_is "$(fetched "$blob")" 3
	'
	test_expect 's3: a file to mount is copied for the first pod, and a link to the cache for the next' '
		for n in f1 f2; do
			mounted $n "$other" "cp $PWD/node/pods/$n/1 o; $wait_for_go"
			main $n
			wait_until 60 test -e $n/root/0/w/up
			test_is "$(stat -c %a node/pods/$n/1)" 444
			stat -c %h node/pods/$n/1 >$n.links
			touch $n/root/0/w/go
			ended $n
			test_is "$(result $n ".get(\"failure\")")" null
			"$TOOL" get "$STORE" "$(result $n "[\"outputs\"][0]")" got-$n
			test_cmp other got-$n
		done
		test_is "$(cat f1.links)" 1
		case $(stat -f -c %T node) in
		tmpfs | ramfs) ;; # their times do not tell of changes
		*) test_is "$(cat f2.links)" 2 ;;
		esac
		test_is "$(fetched "$other")" 1
		test_is "$(ls node/pods)" ""
	'
	# The first two read the same directory and a file each, the third a small file and the file of the first.
	test_expect 's3: attempts of one pod share a view of the same content, and each sees its own inputs' '
		echo alone >alone
		alone=$("$TOOL" put "$STORE" alone)
		tree=$("$TOOL" put "$STORE" set)
		input() { printf "{\"name\":\"%s\",\"path\":\"in/%s\",\"id\":\"%s\",\"mounted\":%d}" "$1" "$1" "$2" "$3"; }
		v=$PWD/node/pods/packed
		before=$(fetched "$blob")$(fetched "$other")
		pod packed "inputs=[$(input d "$tree" 1),$(input f "$blob" 2)]" "$(sh_of "sha256sum <$v/1/a >o; sha256sum <$v/2 >>o; stat -c %h $v/1/a >>o; $wait_for_go")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]" \
			--next "inputs=[$(input d "$tree" 1),$(input f "$other" 3)]" "$(sh_of "sha256sum <$v/1/a >o; sha256sum <$v/3 >>o")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]" \
			--next "inputs=[$(input f "$alone" 4),$(input g "$blob" 2)]" "$(sh_of "cat $v/4 >o; sha256sum <$v/2 >>o")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
		AWS_ENDPOINT_URL=$front CAIRN_STORE_ENDPOINT=$front sidecar packed --cache "$PWD/node" --mount-as packed
		main packed
		wait_until 60 test -e packed/root/0/w/up
		test_is "$(ls "$v" | tr "\n" " ")" "1 2 3 4 "
		test_is "$(find packed/root -size +1000k -path "*/w/in/*")" ""
		test_is "$(inode "$v/1/a")" "$(inode "$(cached_copy "$blob")")"
		touch packed/root/0/w/go
		ended packed
		test_is "$(json packed.json "[r.get(\"failure\") for r in d[\"results\"]]")" "[null, null, null]"
		for i in 0 1 2; do
			"$TOOL" get "$STORE" "$(result packed "[\"outputs\"][0]" $i)" got-packed-$i
		done
		test_is "$(sed -n 1p got-packed-0) $(sed -n 2p got-packed-0)" "$(sha256sum <big) $(sha256sum <big)"
		test_is "$(cat got-packed-1)" "$(sha256sum <big; sha256sum <other)"
		test_is "$(cat got-packed-2)" "$(cat alone; sha256sum <big)"
		test_is "$(fetched "$blob")$(fetched "$other")" "$before"
		test_missing node/pods/packed
	'
	test_expect 's3: what was changed in the cache is mounted by nobody, and fetched anew' '
		for c in "$other" "$("$TOOL" put "$STORE" set)"; do
			bad=$other
			[ "$c" = "$other" ] || bad=$blob
			copy=$(cached_copy "$bad")
			chmod u+w "$copy"
			test_damage "$copy" 1000
			chmod u-w "$copy"
			n=${c%%:*}
			mounted hurt-$n "$c" "echo ran >o"
			main hurt-$n
			ended hurt-$n
			test_is "$(result hurt-$n ".get(\"failure\")") $(result hurt-$n ".get(\"ran\")") $(cat hurt-$n-main.rc)" "store null 121"
			test_missing node/pods/hurt-$n
			mounted well-$n "$c" "cat $PWD/node/pods/well-$n/1 >o || cat $PWD/node/pods/well-$n/1/a >o"
			main well-$n
			ended well-$n
			test_is "$(result well-$n ".get(\"failure\")")" null
			"$TOOL" get "$STORE" "$(result well-$n "[\"outputs\"][0]")" got-$n
		done
		test_cmp other got-blob
		test_cmp big got-tree
	'
	test_expect 's3: an output that is a link to what was mounted is what was mounted' '
		mounted by-link "$other" "ln -s in/data o"
		main by-link
		ended by-link
		test_is "$(result by-link "[\"outputs\"][0]")" "$other"
	'
	test_expect 's3: what killed pods had mounted goes with the end of a later one, and what lives stays' '
		mkdir -p node/pods/dead/1/sub node/pods/held node/pods/young
		echo x >node/pods/dead/1/sub/x
		chmod 0555 node/pods/dead/1/sub node/pods/dead/1
		touch -d "2 hours ago" node/pods/dead node/pods/held
		start holder flock node/pods/held sh -c "touch locked; exec tail -f /dev/null"
		wait_until 20 test -e locked
		mounted later-pod "$other" "true >o"
		main later-pod
		ended later-pod
		test_is "$(ls node/pods | tr "\n" " ")" "held young "
		stop holder KILL
		rmdir node/pods/held node/pods/young
	'
	test_expect 's3: what cannot be mounted fails with class store, in words, and the program does not begin' '
		mkdir node/pods/once-more
		mounted once-more "$other" "echo ran >o"
		main once-more
		ended once-more
		test_is "$(result once-more ".get(\"failure\")") $(cat once-more-main.rc)" "store 121"
		test_grep "started again before the inputs were complete" once-more.json
		test_missing node/pods/once-more
		rmdir node/pods
		echo no directory >node/pods
		mounted nowhere-to "$other" "echo ran >o"
		main nowhere-to
		ended nowhere-to
		test_is "$(result nowhere-to ".get(\"failure\")") $(cat nowhere-to-main.rc)" "store 121"
		test_grep "input .d.*node/pods" nowhere-to.json
		rm node/pods
		test_code 2 env CAIRN_POD_SPEC=x cairn pod --cache /here --mount-as ../x 2>err
		test_grep "must be a plain name" err
	'
	test_expect 's3: a cache that cannot be used costs nothing but time' '
		echo no directory >node-file
		pod without "inputs=[{\"name\":\"d\",\"path\":\"data\",\"id\":\"$blob\"}]"
		sidecar without --cache "$PWD/node-file"
		main without
		ended without
		test_is "$(result without ".get(\"failure\")")" null
		test_grep "going on without the node.s cache: .*node-file" without-side.out
		test_code 2 cairn pod --cache here --root "$PWD/without/root" 2>err
		test_code 2 env CAIRN_POD_SPEC=x cairn pod --cache here 2>err
		test_grep "absolute path" err
		test_code 2 env CAIRN_POD_SPEC=x cairn pod --cache /here --cache-size 0 2>err
		test_grep "must be more than 0" err
	'
	test_expect 's3: the store is away when the program has ended: class store, and the exit status says it' '
		pod away "$(sh_of "touch up; while ! test -e go; do sleep 0.02; done; echo >o")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
		sidecar away
		main away
		wait_until 20 test -e away/root/0/w/up
		stop gw KILL
		touch away/root/0/w/go
		wait_until 60 test -s away-main.rc
		wait_until 60 test -s away-side.rc
		test_is "$(cat away-main.rc) $(cat away-side.rc)" "123 0"
		cp away/message away.json
		test_is "$(result away "[\"failure\"]") $(result away ".get(\"outputs\")")" "store null"
		test_grep "keeping what the program made" away.json
		test_no_grep "$SERVER_SECRET" away.json
		test_no_grep "$SERVER_SECRET" away-side.out
	'
	server gw versitygw || test_bail 'versitygw does not start again'
	server_env gw versitygw
	test_expect 's3: the store is away for a while when the program has ended: what it made is kept' '
		pod later "$(sh_of "touch up; while ! test -e go; do sleep 0.02; done; echo kept >o")" "outputs=[{\"name\":\"o\",\"path\":\"o\"}]"
		sidecar later --save-within 2m
		main later
		wait_until 20 test -e later/root/0/w/up
		cairn pod --well --state "$PWD/later/state"
		stop gw KILL
		touch later/root/0/w/go
		wait_until 60 test -e later/state/cairn-trouble
		test_code 4 cairn pod --well --state "$PWD/later/state" 2>unwell
		test_grep "the store does not accept the outputs of the program; retried for " unwell
		test_grep "the store does not accept the outputs of the program" later-side.out
		server_again gw versitygw
		ended later
		test_is "$(cat later-main.rc)" 0
		test_is "$(result later ".get(\"failure\")") $(result later "[\"outputs\"][0][:7]")" "null blob:5:"
		test_missing later/state/cairn-trouble
		cairn pod --well --state "$PWD/later/state"
	'
	test_expect 'an endpoint at which nobody answers is told, and the program does not begin' '
		pod nowhere
		started=$(date +%s)
		AWS_ENDPOINT_URL=http://127.0.0.1:1 CAIRN_STORE_ENDPOINT=http://127.0.0.1:1 sidecar nowhere
		main nowhere
		wait_until 60 test -s nowhere-main.rc
		test $(($(date +%s) - started)) -le 40
		test_is "$(cat nowhere-main.rc)" 121
		test_grep "the pod does not reach the store $STORE" nowhere/message
		test_grep "the pod does not reach the store $STORE" nowhere-side.out
	'
	cat >busy.py <<-'PY'
	import http.server
	class Handler(http.server.BaseHTTPRequestHandler):
	    def do_GET(self):
	        self.send_error(503)
	    do_HEAD = do_PUT = do_GET
	    def log_message(self, *args):
	        pass
	server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
	print(server.server_port, flush=True)
	server.serve_forever()
	PY
	test_expect 'a store that is busy is a store that is reached' '
		start busy-server python3 busy.py
		wait_until 20 test -s busy-server.out
		pod busy
		url=http://127.0.0.1:$(cat busy-server.out)
		AWS_MAX_ATTEMPTS=1 AWS_ENDPOINT_URL=$url CAIRN_STORE_ENDPOINT=$url sidecar busy
		main busy
		wait_until 60 test -s busy-main.rc
		stop busy-server KILL
		test_is "$(cat busy-main.rc)" 121
		test_grep "the server fails" busy/message
		test_no_grep "does not reach" busy-side.out
	'
else
	test_skip 'pods with a bucket' 'no versitygw'
fi
test_done
