#!/bin/bash
# Completion scripts: accepted by their shells, and what they complete.
. "$(dirname "$0")/../../lib.sh"

test_expect 'an unknown shell is exit 2' '
	test_code 2 cairn completion tcsh 2>err
	test_grep "bash, zsh or fish" err
	test_code 2 cairn completion 2>err
'
for shell in bash zsh fish; do
	test_expect --needs "$shell" "$shell reads its script" "
		cairn completion $shell >script.$shell
		$shell -n script.$shell
	"
done

# bash_completes WORDS...: what bash would offer for the last word.
write complete.sh <<'E2'
. ./script.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
compopt() { :; }
_cairn
printf '%s\n' "${COMPREPLY[@]}"
E2
test_expect --needs bash 'bash: commands, subcommands, options, values' '
	bash complete.sh cairn st >out
	test_is "$(sort out | xargs)" "status step store"
	bash complete.sh cairn store "" >out
	test_is "$(sort out | xargs)" "gc probe pull push reindex stat verify"
	bash complete.sh cairn store gc --keep >out
	test_is "$(sort out | xargs)" "--keep --keep-runs"
	bash complete.sh cairn -C run r >out
	test_is "$(sort out | xargs)" "report reproduce resume run runs"
	bash complete.sh cairn run --kee >out
	test_is "$(sort out | xargs)" "--keep-going --keep-workspace"
	bash complete.sh cairn --color "" >out
	test_is "$(xargs <out)" "auto always never"
	bash complete.sh cairn graph --format = d >out
	test_is "$(xargs <out)" "dot"
	bash complete.sh cairn completion f >out
	test_is "$(xargs <out)" "fish"
'
test_expect --needs bash 'bash: steps are those of pipeline.yaml' '
	cairn init >/dev/null 2>&1
	bash complete.sh cairn logs "" >out
	test_is "$(sort out | xargs)" "count prepare"
	bash complete.sh cairn why pr >out
	test_is "$(xargs <out)" "prepare"
	bash complete.sh cairn run --from p >out
	test_is "$(xargs <out)" "prepare"
'
write other.yaml <<'E2'
pipeline: other
params:
  lr: 0.1
  depth: 3
steps:
  fit:
    run: |
      echo '{"loss":1}' >metrics.json
      echo "${{ params.lr }} ${{ params.depth }}" >model
    outputs: {model: model}
    metrics: metrics.json
  ask:
    needs: [fit]
    approve: {message: fine?}
sweeps:
  tune:
    params:
      lr: {min: 0.01, max: 1, scale: log}
    search: random
    minimize: fit.loss
    trials: 2
E2
# offers WANT WORDS...: bash completes the last word to these names, in any order.
offers() {
	local want=$1
	shift
	bash complete.sh "$@" >out 2>said
	test_is "$(sort out | xargs)" "$want"
	test_lines 0 said
}
test_expect --needs bash 'bash: names of another file: steps, params, sweeps' '
	offers fit cairn run other.yaml --from f
	offers ask cairn run other.yaml as
	offers "depth= lr=" cairn run other.yaml -p ""
	offers lr= cairn sweep other.yaml --param l
	offers tune cairn sweep other.yaml t
	mkdir -p sub
	cp other.yaml sub/pipeline.yaml
	offers tune cairn -C sub runs --sweep ""
	offers fit/model cairn -C sub get fit/
'
test_expect --needs bash 'bash: outputs, built-in steps, enumerations, file names with blanks' '
	offers "augment evaluate ray shard spark-submit train" cairn step ""
	offers "kubernetes local" cairn run --on ""
	offers "off read-only read-write" cairn run --cache ""
	touch "two words.yaml"
	bash complete.sh cairn check two >out
	test_is "$(cat out)" "two words.yaml"
'
test_expect --needs bash 'bash: runs and tags, and what waits in a run' '
	cairn run >/dev/null 2>&1
	cairn tag last best/one >/dev/null 2>&1
	offers best/one cairn status be
	offers best/one cairn tag --delete ""
	cairn run other.yaml >/dev/null 2>&1 &
	wait_until 20 sh -c "cairn names approvals approve last | grep -qx ask"
	offers ask cairn approve last ""
	cairn approve last ask >/dev/null
	wait
	offers "" cairn approve last ""
'
test_expect 'names: hostile ones are left out, errors are silent, nothing is written' '
	mkdir "$TRASH/hostile"
	cd "$TRASH/hostile"
	: >cairn.yaml
	printf "%s\n" "pipeline: h" "steps:" "  ok: {run: \"true\", outputs: {\"a b\": x, \"\$(touch bad)\": y}}" >h.yaml
	cairn names outputs get >out 2>&1
	cairn names steps run h.yaml >>out 2>&1
	cairn names steps run absent.yaml >>out 2>&1
	cairn names nonsense >>out 2>&1
	cairn names steps -C /absent run >>out 2>&1
	mkfifo fifo.yaml
	timeout 20 cairn names steps run fifo.yaml >>out 2>&1
	test_missing bad
	test_missing .cairn
	test_is "$(sort -u out | xargs)" "last"
	printf "%s\n" "pipeline: h" "steps:" "  ok: {run: \"true\"}" >h.yaml
	test_is "$(cairn names steps run h.yaml 2>&1)" "ok"
'
# zsh's own function _arguments calls an action; here its names go to a compadd that prints them.
test_expect --needs zsh 'zsh: names of another file' '
	zsh -f -c "
		compdef() { :; }
		. ./script.zsh
		compadd() { print -l -- \$names; }
		typed=(run other.yaml --from)
		_cairn_names steps
		_cairn_names params -S \"\"
		typed=()
		_cairn_names nonsense
	" >out 2>&1
	test_is "$(grep . out | sort | xargs)" "ask depth= fit lr="
'
test_expect --needs fish 'fish: names of another file' '
	HOME=$PWD fish -c "source script.fish; complete -C \"cairn run other.yaml --from f\"" >out
	test_is "$(cut -f 1 out | xargs)" "fit"
	HOME=$PWD fish -c "source script.fish; complete -C \"cairn run other.yaml -p l\"" >out
	test_is "$(cut -f 1 out | xargs)" "lr="
'
test_expect --needs fish 'fish: commands, subcommands, options, values' '
	HOME=$PWD fish -c "source script.fish; complete -C \"cairn st\"" >out
	test_is "$(cut -f 1 out | sort | xargs)" "status step store"
	HOME=$PWD fish -c "source script.fish; complete -C \"cairn store g\"" >out
	test_is "$(cut -f 1 out)" "gc"
	HOME=$PWD fish -c "source script.fish; complete -C \"cairn run --kee\"" >out
	test_is "$(cut -f 1 out | sort | xargs)" "--keep-going --keep-workspace"
	HOME=$PWD fish -c "source script.fish; complete -C \"cairn graph --format d\"" >out
	test_is "$(cut -f 1 out)" "dot"
'
test_done
