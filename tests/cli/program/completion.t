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
	test_is "$(sort out | xargs)" "reproduce resume run runs"
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
	bash complete.sh cairn why "" >out
	test_is "$(sort out | xargs)" "count prepare"
	bash complete.sh cairn run --from p >out
	test_is "$(xargs <out)" "prepare"
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
