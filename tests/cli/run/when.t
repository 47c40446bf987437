#!/bin/bash
# When a step runs: `finally`, states of other steps, tolerated failures; also when the run is stopped, killed, reproduced, or only a part.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
state() { cairn status --json last | json /dev/stdin "{t['task']: t['state'] for t in d['tasks'] + d['not_executed']}['$1']"; }
reason() { cairn status --json last | json /dev/stdin "{t['task']: t['reason'] for t in d['not_executed']}['$1']"; }
acts() { tr "\n" " " <acts; }

write acts.yaml <<Y
pipeline: acts
steps:
  data: {run: "echo data >o", outputs: {o: o}}
  other: {run: "echo other >o", outputs: {o: o}}
finally:
  first: {run: "echo first >>\$ACTS", env: {ACTS: "$PWD/acts"}}
  second: {run: "cat \${{ inputs.o }} >>\$ACTS", env: {ACTS: "$PWD/acts"}, needs: [first], inputs: {o: "\${{ steps.data.outputs.o }}"}}
Y

test_expect 'finally acts in each run, also when all else is on record; plan and graph say so' '
	cairn plan acts.yaml >plan
	test_grep "waiting *first *begins when all of .steps. have ended" plan
	cairn run -q acts.yaml
	cairn run -q acts.yaml
	test_is "$(acts)" "first data first data "
	cairn graph --format dot acts.yaml >dot
	test_grep "other.*->.*first" dot
	cairn plan acts.yaml --json >plan
	test_is "$(json plan "[t[\"task\"] + \" \" + t[\"state\"] for t in d[\"tasks\"]]")" "[\"data hit\", \"other hit\", \"first run\", \"second waiting\"]"
'

test_expect 'a part of a run has no finally, unless it is named; --from has; a reproduction never' '
	: >acts
	cairn run -q acts.yaml data
	cairn run -q acts.yaml --until data
	test_is "$(acts)" ""
	cairn run -q acts.yaml second
	test_is "$(acts)" "first data "
	cairn run -q acts.yaml --from other
	test_is "$(acts)" "first data first data "
	cairn reproduce -q last >out
	cairn reproduce -q --chained last >out
	test_is "$(acts)" "first data first data "
'

test_expect 'a step of finally that fails makes the run fail and is named; the others run' '
	write bad.yaml <<-Y
	pipeline: bad
	steps:
	  a: {run: "true"}
	finally:
	  broken: {run: "exit 7"}
	  behind: {run: "true", needs: [broken]}
	  beside: {run: "echo \${{ run.state }}", cache: false}
	Y
	test_code 1 cairn run -q bad.yaml
	cairn status >out
	test_grep "broken: exit status 7" out
	test_is "$(state behind) $(state beside)" "blocked succeeded"
	cairn logs beside >out
	test_is "$(cat out)" succeeded
'

test_expect 'finally runs after a stop at the first failure, and is blocked without the content that it reads' '
	write lost.yaml <<-Y
	pipeline: lost
	steps:
	  a: {run: "exit 3", outputs: {o: o}}
	  b: {run: "true", needs: [a]}
	finally:
	  reads: {run: "cat \${{ inputs.o }}", inputs: {o: "\${{ steps.a.outputs.o }}"}}
	  tells: {run: "echo \${{ run.state }} \${{ join(failed.tasks, \" \") }} \${{ steps.b.state }}"}
	  only-failed: {if: "\${{ failed() }}", run: "true"}
	Y
	test_code 1 cairn run -q lost.yaml
	test_is "$(state reads) $(state tells) $(state only-failed)" "blocked succeeded succeeded"
	test_grep "a. failed" <(reason reads)
	cairn logs tells >out
	test_is "$(cat out)" "failed a blocked"
'

write slow.yaml <<Y
pipeline: slow
steps:
  ok: {run: "echo ok >o", outputs: {o: o}}
  long: {run: "touch \$MARK; sleep 1000", needs: [ok], env: {MARK: "$PWD/mark"}}
  never: {run: "true", needs: [long]}
finally:
  clean: {run: "echo \${{ run.state }} \${{ steps.long.state }} \${{ steps.never.state }}; cat \${{ inputs.o }}", inputs: {o: "\${{ steps.ok.outputs.o }}"}}
  waits: {run: "touch \$MARK.2; \$WAIT", env: {MARK: "$PWD/mark", WAIT: "\${{ params.wait }}"}}
params: {wait: "true"}
Y

test_expect 'a run that is cancelled runs its finally' '
	start slow cairn run slow.yaml
	wait_until 20 test -e mark
	kill -INT "$(cat slow.pid)"
	wait_until 30 test -s slow.rc
	test_is "$(cat slow.rc)" 130
	cairn logs clean >out
	test_is "$(tr "\n" " " <out)" "cancelled cancelled blocked ok "
	test_is "$(cairn status --json last | json /dev/stdin "d[\"run\"][\"state\"]")" interrupted
'

test_expect 'a second interrupt stops finally, too; resume goes on, and it acts again' '
	rm -f mark mark.2
	start slow2 cairn run slow.yaml -p "wait=sleep 1000"
	wait_until 20 test -e mark
	kill -INT "$(cat slow2.pid)"
	wait_until 30 test -e mark.2
	kill -INT "$(cat slow2.pid)"
	wait_until 30 test -s slow2.rc
	test_is "$(cat slow2.rc)" 130
	cairn status -v last >out
	test_grep "cancelled *waits" out
	test_is "$(cairn status --json last | json /dev/stdin "[t[\"state\"] for t in d[\"tasks\"] if t[\"step\"] == \"waits\"][0]")" cancelled
	rm -f mark mark.2
	start slow3 cairn resume last
	wait_until 20 test -e mark
	kill -INT "$(cat slow3.pid)"
	wait_until 30 test -e mark.2
	kill -INT "$(cat slow3.pid)"
	wait_until 30 test -s slow3.rc
	cairn status --json last | json /dev/stdin "[t[\"state\"] for t in d[\"tasks\"] if t[\"task\"] == \"clean\"]" >out
	test_is "$(cat out)" "[\"succeeded\", \"succeeded\"]"
'

test_expect 'kill -9 in the middle of finally: resume runs each to its end, and none twice that had ended' '
	: >acts
	write killed.yaml <<-Y
	pipeline: killed
	steps:
	  ok: {run: "echo ok >>\$ACTS", env: {ACTS: "$PWD/acts"}}
	finally:
	  one: {run: "echo one >>\$ACTS", env: {ACTS: "$PWD/acts"}}
	  two: {run: "echo two >>\$ACTS; while [ ! -e \$ACTS.go ]; do sleep 0.05; done; echo end >>\$ACTS", needs: [one], env: {ACTS: "$PWD/acts"}}
	Y
	start killed cairn run killed.yaml
	wait_until 20 grep -q two acts
	kill -9 "$(cat killed.pid)"
	wait_until 20 test -s killed.rc
	touch acts.go
	cairn resume -q last
	test_is "$(acts)" "ok one two two end "
'

test_expect 'a tolerated failure: the run succeeds and names it; what reads it is skipped with the reason; never cached' '
	write tolerant.yaml <<-"Y"
	pipeline: tolerant
	steps:
	  flaky: {run: "echo half >o; exit 3", outputs: {o: o}, continue_on_error: true}
	  next: {run: "echo next", needs: [flaky]}
	  reads: {run: "cat ${{ inputs.o }}", inputs: {o: "${{ steps.flaky.outputs.o }}"}}
	  alarm: {if: "${{ failed() }}", needs: [flaky], run: "true"}
	finally:
	  tell: {run: "echo ${{ run.state }} ${{ count(failed.tasks) }}"}
	Y
	cairn run -q tolerant.yaml --json >out
	test_is "$(json out "[d[\"state\"], d[\"counts\"][\"failed\"], d[\"message\"]]")" "[\"succeeded\", 1, \"failed, but \`continue_on_error\`: flaky\"]"
	test_is "$(state next) $(state reads) $(state alarm)" "succeeded skipped skipped"
	test_grep "flaky. failed" <(reason reads)
	cairn logs tell >out
	test_is "$(cat out)" "succeeded 0"
	cairn run -q tolerant.yaml
	test_is "$(state flaky)" failed
	cairn runs --json >out
	test_grep "but .continue_on_error.: flaky" out
	cairn reproduce -q last
'

test_expect 'fail_fast: false holds for a result on record that fails its gate, too' '
	write gate.yaml <<-"Y"
	pipeline: gate
	steps:
	  g: {run: "echo \"{\\\"a\\\": 1}\" >m.json", metrics: m.json, gate: {a: ">= 0"}, fail_fast: false}
	  ok: {run: "sleep 0.1; echo ok"}
	Y
	cairn run -q gate.yaml
	sed -i "s/>= 0/>= 2/" gate.yaml
	echo "  later: {run: echo later, needs: [ok]}" >>gate.yaml
	test_code 1 cairn run -q gate.yaml
	test_is "$(state later)" succeeded
	sed -i "s/, fail_fast: false//; s/echo later/echo latest/" gate.yaml
	test_code 1 cairn run -q gate.yaml
	test_is "$(state later)" blocked
'

test_expect 'a tolerated failure leaves a gap in gathered values, metrics and files' '
	write gaps.yaml <<-"Y"
	pipeline: gaps
	steps:
	  m:
	    run: |
	      test ${{ matrix.x }} != 2
	      echo "{\"k\": $N}" >v.json
	      cp v.json m.json
	    env: {N: "${{ matrix.x }}"}
	    matrix: {x: [1, 2, 3]}
	    values: v.json
	    metrics: m.json
	    outputs: {v: o}
	    continue_on_error: true
	  all:
	    run: "echo ${{ join(steps.m.values.k, \" \") }} of ${{ count(steps.m.metrics.k) }}; ls ${{ inputs.v }}"
	    inputs: {v: "${{ steps.m.outputs.v }}"}
	Y
	sed -i "s/cp v.json m.json/&; cp v.json o/" gaps.yaml
	cairn run -q gaps.yaml
	cairn logs all >out
	test_is "$(tr "\n" " " <out)" "1 3 of 2 x=1 x=3 "
'

test_done
