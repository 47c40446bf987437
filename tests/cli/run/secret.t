#!/bin/bash
# cairn secret: kept from others, never shown.
. "$(dirname "$0")/../../lib.sh"

touch cairn.yaml

test_expect 'set from standard input; list shows names only' '
	printf "s3cret value\n" | cairn secret set TOKEN 2>err
	test_grep "secrets: \[TOKEN\]" err
	cairn secret list >out
	test_is "$(cat out)" TOKEN
	test_is "$(cat .cairn/secrets/TOKEN)" "s3cret value"
	test_is "$(stat -c %a .cairn/secrets) $(stat -c %a .cairn/secrets/TOKEN)" "700 600"
	test_is "$(stat -c %s .cairn/secrets/TOKEN)" 12
'
test_expect 'the environment is listed too, and wins' '
	CAIRN_SECRET_TOKEN=x CAIRN_SECRET_OTHER=y cairn secret list --json >out
	test_is "$(json out "[(s[\"name\"], s[\"source\"]) for s in d[\"secrets\"]]")" "[[\"OTHER\", \"environment\"], [\"TOKEN\", \"environment\"]]"
	test_no_grep "\"y\"" out
'
test_expect 'wrong names, empty and impossible values are refused' '
	test_code 2 cairn secret set A-B 2>err </dev/null
	test_code 2 cairn secret set ../x 2>err </dev/null
	test_code 2 cairn secret set EMPTY 2>err </dev/null
	printf "a\0b" >nul
	test_code 3 cairn secret set NUL 2>err <nul
	test_grep "NUL byte" err
	test_code 3 cairn secret set SHORT 2>err <<<abc
	test_grep "too short" err
	head -c 70000 /dev/zero | tr "\0" x >big
	test_code 3 cairn secret set BIG 2>err <big
	cairn secret list >out
	test_lines 1 out
'
test_expect 'asked for on a terminal without echo' '
	python3 - <<-E2
	import os, pty, subprocess, time
	master, slave = pty.openpty()
	p = subprocess.Popen(["cairn", "secret", "set", "TYPED"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
	os.close(slave)
	seen = b""
	while b"not shown" not in seen:
	    seen += os.read(master, 1000)
	import termios
	while termios.tcgetattr(master)[3] & termios.ECHO:
	    pass
	os.write(master, b"hidden\n")
	try:
	    while True:
	        chunk = os.read(master, 1000)
	        if not chunk:
	            break
	        seen += chunk
	except OSError:
	    pass
	assert p.wait() == 0, seen
	assert b"hidden" not in seen, seen
	E2
	test_is "$(cat .cairn/secrets/TYPED)" hidden
'
write spy.yaml <<'YAML'
pipeline: spy
steps:
  spy:
    run: |
      echo "engine: $(tr '\0' '\n' <"/proc/$PPID/environ")"
      for p in $(grep -l ^cairn /proc/[0-9]*/comm 2>/dev/null); do
        tr '\0' '\n' <"${p%/comm}/environ" || :
      done
    cache: false
YAML
test_expect 'a step cannot read out of the environment of cairn and its helpers what it was not given' '
	export CAIRN_SECRET_OTHER=not-for-this-step-1 AWS_SECRET_ACCESS_KEY=not-for-this-step-2
	cairn run spy.yaml
	cairn logs spy >log
	test_grep "^engine:" log
	test_no_grep not-for-this-step log
	# Still what they are to cairn itself.
	cairn secret list >out
	test_grep "^OTHER .*environment" out
'
write everywhere.yaml <<'YAML'
pipeline: everywhere
steps:
  log: {run: 'echo "$TOKEN"; echo "$TOKEN" >&2', secrets: [TOKEN]}
  metrics: {run: 'printf %s "$TOKEN" >m.json', metrics: m.json, secrets: [TOKEN]}
  series: {run: 'echo "$TOKEN" >s.jsonl; echo "loss=$TOKEN step=1"', secrets: [TOKEN]}
  fails: {run: 'echo "failed with $TOKEN"; exit 3', secrets: [TOKEN]}
  killed: {run: 'printf "%s" "$TOKEN"; kill -9 $$', secrets: [TOKEN]}
  train:
    run: 'echo "loss=$TOKEN step=1"; echo "error: $TOKEN" >&2; exit 4'
    distributed: {framework: torch, procs_per_node: 2}
    secrets: [TOKEN]
  output: {run: 'ln -s "/$TOKEN" o', outputs: {o: o}, secrets: [TOKEN]}
YAML
test_expect 'nothing that is told or kept of a step has its secret: logs, errors, status, manifest' '
	mkdir -p everywhere
	mv everywhere.yaml everywhere
	cd everywhere
	touch cairn.yaml
	export CAIRN_SECRET_TOKEN=Sup3rS3cretValue
	test_code 1 cairn run --keep-going everywhere.yaml >said.run 2>&1
	for what in status "status --json" "runs --json" "metrics --json" "why log" "logs log" \
		"logs fails" "logs train"; do
		cairn -vv $what >"said.${what// /-}" 2>&1 || :
	done
	cairn export --format openlineage last >said.export 2>&1 || :
	test_must_fail grep -rl "Sup3rS\|U3VwM3JTM2NyZXRWYWx1" . >found
	test_is "$(cat found)" ""
	test_grep "[*][*][*]" said.logs-log
	cd ..
'
test_expect 'rm forgets; what is not there is exit 4' '
	cairn secret rm TOKEN TYPED
	test_missing .cairn/secrets/TOKEN
	test_code 4 cairn secret rm TOKEN 2>err
	test_grep "cairn secret list" err
	cairn secret list >out 2>err
	test_lines 0 out
	test_code 2 cairn secret rm 2>err
	test_code 2 cairn secret 2>err
'
test_done
