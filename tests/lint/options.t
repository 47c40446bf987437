#!/bin/bash
# One option table: help, man pages and completions name the same options, for every command. The samples show that the
# comparison can fail; the rest asks the program itself.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../lib.sh"

# How the program prints what its table makes. These lines are the place to change when it prints them elsewhere.
commands() { "$CAIRN" --help | sed -nE 's/^  ([a-z][a-z-]*)( .*)?$/\1/p' | sort -u; }
subcommands() { "$CAIRN" "$1" --help | sed -nE '/^Subcommands/,/^$/s/^  ([a-z]+) .*/\1/p'; }
help_of() { "$CAIRN" "$@" --help; }
man_pages() { "$CAIRN" help --man; }
completion() { "$CAIRN" completion "$1"; }

options() { python3 "$SRC/tests/lint/options.py" "$@"; }

write help <<'E'
usage: cairn go [-j N] [--json]
  -j, --jobs N    tasks at once
      --json      facts as JSON
      --keep-going
E
write man <<'E'
.TH CAIRN-GO 1
.TP
\fB\-j\fR, \fB\-\-jobs\fR \fIN\fR
tasks at once
.TP
\fB\-\-json\fR
.TP
\fB\-\-keep\-going\fR
E
write bash <<'E'
_cairn() { COMPREPLY=($(compgen -W "-j --jobs --json --keep-going" -- "$cur")); }
E
write fish <<'E'
complete -c cairn -n '__fish_seen_subcommand_from go' -s j -l jobs -x -d 'tasks at once'
complete -c cairn -l json --no-files
complete -c cairn -l keep-going
E
test_expect 'samples that agree' 'options help man bash fish'
for text in man bash fish; do
	test_expect "samples: an option that is missing in $text" "
		sed 's/json/jsn/' $text >changed
		test_code 1 options help changed >said
		test_grep 'changed: --json is in help, but not here' said
		test_grep 'changed: --jsn is here, but not in help' said
	"
done
test_expect 'samples: no option at all is an error' '
	echo nothing >empty
	test_code 1 options empty empty >said
'

if [ -z "$CAIRN" ] || [ ! -x "$CAIRN" ]; then
	test_skip 'the program: help, man pages, completions' 'no cairn binary'
	test_done
fi

test_expect 'the program: every command has help with an example' '
	commands >names
	test "$(wc -l <names)" -ge 10
	: >all
	"$CAIRN" --help >>all
	while read -r name; do
		help_of "$name" >one </dev/null
		grep -qi "example" one || { echo "cairn $name --help has no example"; exit 1; }
		cat one >>all
		for sub in $(subcommands "$name" </dev/null); do
			help_of "$name" "$sub" >>all </dev/null
		done
	done <names
'
test_expect 'the program: man pages name what help names' '
	man_pages >man.all
	options all man.all
'
for shell in bash zsh fish; do
	test_expect "the program: so does completion for $shell" "
		completion $shell >completion.$shell
		options all completion.$shell
		while read -r name; do
			grep -qw -e \"\$name\" completion.$shell || { echo \"no command \$name\"; exit 1; }
		done <names
	"
done
test_expect --needs man 'the program: man reads the pages without a warning' '
	man --warnings -l man.all >/dev/null 2>warnings
	test_lines 0 warnings
'
test_done
