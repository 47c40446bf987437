# shellcheck shell=bash
# tests/net/net.sh: for *.t files that need the hostile server; source it after lib.sh. README.md has an example.

# hostile NAME [OPTION...]: starts hostile.py with the directory $TRASH/work/NAME; gone with the file. Its ports: port NAME DOOR.
hostile() {
	local name=$1
	shift
	start "$name.server" python3 "$SRC/tests/net/hostile.py" "$TRASH/work/$name" --forever "$@"
	wait_until 60 test -s "$TRASH/work/$name/ready"
}

# port NAME DOOR: http, https, self_signed, wrong_name, expired, silent (never answers), refused (nobody listens).
port() { json "$TRASH/work/$1/ready" "d[\"$2\"]"; }

# rules NAME <<EOF: replaces the server's rules by standard input, one JSON object a line; counts begin again.
rules() {
	cat >"$TRASH/work/$1/rules.new"
	mv "$TRASH/work/$1/rules.new" "$TRASH/work/$1/rules"
}

# asked NAME [EXPR]: how many requests the server has seen for which the Python expression over q (an entry of its log) is true.
asked() {
	python3 -SE -c 'import json, sys
print(sum(1 for line in open(sys.argv[1]) for q in [json.loads(line)] if eval(sys.argv[2])))' "$TRASH/work/$1/log" "${2:-True}"
}

# http METHOD URL [BODY-FILE]: a plain client. Prints the status, then the body; exit 1 and a word on stderr when there is no whole answer.
http() { python3 "$SRC/tests/net/client.py" "$@"; }
