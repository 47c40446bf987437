#!/bin/bash
# Signed records: who names the writers of a store believes what they signed for it, and nothing else.
. "$(dirname "$0")/../../lib.sh"

test_have openssl || test_skip_all 'needs openssl'
store=$PWD/shared
trust=$XDG_CONFIG_HOME/cairn
mkdir -p "$trust"

# as USER COMMAND...: with that user's configuration directory.
as() { local user=$1; shift; XDG_CONFIG_HOME=$TRASH/users/$user cairn "$@"; }
make_key() { # USER ALGORITHM [OPTION...]
	local key=$TRASH/users/$1/cairn/key algorithm=$2
	shift 2
	(umask 077; openssl genpkey -algorithm "$algorithm" "$@" -out "$key" 2>/dev/null)
}
user() { # NAME [key]: a user, with a key of his own
	mkdir -p "$TRASH/users/$1/cairn"
	[ -z "${2:-}" ] || make_key "$1" ed25519
}
key_of() { as "$1" -C empty doctor --json | python3 -c '
import json, sys
print([c["detail"].split()[-1] for c in json.load(sys.stdin)["checks"] if c["name"] == "signing"][0])'; }
believes() { # USER WRITER [STORE]
	echo "writer ${3:-$store} $(key_of "$2")" >>"$TRASH/users/$1/cairn/trust"
}
project() { # NAME: another checkout of the same pipeline
	write "$1/cairn.yaml" <<<"store: $store"
	write "$1/pipeline.yaml" <<-'Y'
	pipeline: signed
	params: {n: one}
	steps:
	  a: {run: "echo $$ >${{ outputs.o }}; echo ${{ params.n }}", outputs: {o: o.txt}}
	Y
}
newest() { python3 -c 'import json, sys; print(json.load(sys.stdin)["runs"][0][sys.argv[1]])' "$1"; }
hash_of() { cairn -C "$1" runs --json | newest hash; }
executed() { # USER PROJECT N [OPTION...]: a run there executes N tasks
	local user=$1 project=$2 n=$3
	shift 3
	as "$user" -C "$project" run -q "$@" 2>err
	as "$user" -C "$project" status --json >said
	test_is "$(json said 'd["run"]["counts"]["executed"]')" "$n"
}
forge() { python3 "$SRC/tests/cli/run/attack_store.py" "$@"; }

mkdir empty
touch empty/cairn.yaml
user alice key
user mallory key
user plain
user reader key
believes reader alice

test_expect 'a key is told by doctor; one that others may read, or that is none, is refused' '
	test_grep "^writer .* ed25519:[A-Za-z0-9+/]{43}=$" "$TRASH/users/reader/cairn/trust"
	project one
	user open key
	chmod 644 "$TRASH/users/open/cairn/key"
	test_code 3 as open -C one run 2>err
	test_grep "nobody else may read: chmod 600" err
	user rsa
	make_key rsa rsa -pkeyopt rsa_keygen_bits:1024
	test_code 3 as rsa -C one run 2>err
	test_grep "openssl genpkey -algorithm ed25519" err
'
test_expect 'what a trusted writer made is a hit, and can be got and reproduced' '
	executed alice one 1
	project two
	executed reader two 0
	hash=$(hash_of one)
	project place
	as reader -C place get "$hash" --store "$store" -o ../got
	as reader -C place reproduce "$hash" --store "$store" -o ../again --trust -q || test $? = 11
'
test_expect 'another key, or none, counts as absent, and how many is told; who demands nothing takes all' '
	project three
	for user in mallory plain; do
		executed $user three 1 -p n="$user"
		hash=$(hash_of three)
		executed reader two 1 -p n="$user"
		test_grep "1 record of .* counts as absent: no writer signed it" err
		test_code 4 as reader -C place get "$hash" --store "$store" -o ../other 2>err
		test_grep "the run isn.t signed by any writer" err
		test_code 12 as reader -C place reproduce "$hash" --store "$store" -o ../other2 --trust 2>err
		test_grep "the run isn.t signed" err
		test_missing other other2/.cairn/work
		project for-$user
		executed plain for-$user 0 -p n="$user"
	done
'
test_expect 'what the reader made in its place is signed by him: a hit for himself' '
	executed reader two 0 -p n=plain
'
test_expect 'a record that was altered, one from another task, one whose signature was taken off' '
	executed alice one 1 -p n=7
	for how in alter strip swap; do
		rm -rf copy
		cp -R shared copy
		python3 - "$how" copy <<-"P"
		import hashlib, os, sys
		how, store = sys.argv[1:]
		records = {}
		for d, _, names in os.walk(store + "/actions"):
		    for n in names:
		        with open(os.path.join(d, n), "rb") as f:
		            data = f.read()
		        if data.startswith(b"cairn-action/3\n"):
		            records[os.path.join(d, n)] = data[:-32]
		assert len(records) >= 2
		other = list(records.values())
		for i, (path, data) in enumerate(records.items()):
		    body, signature = data[:-96], data[-96:]
		    if how == "alter":  # another output: the last id, without the key of its content
		        body = body[:-32] + bytes(32)
		    elif how == "swap":
		        signature = other[i - 1][-96:]
		    elif how == "strip":
		        body, signature = b"cairn-action/2\n" + body[15:], b""
		    data = body + signature
		    os.chmod(path, 0o644)
		    with open(path, "wb") as f:
		        f.write(data + hashlib.sha256(data).digest())
		P
		rm -rf moved
		mv shared moved
		mv copy shared
		project fresh-$how
		executed reader fresh-$how 1 -p n=7
		test_grep "as absent" err
		rm -rf shared
		mv moved shared
	done
	project fresh
	executed reader fresh 0 -p n=7
'
test_expect 'a manifest that was altered, and one whose signature was taken off' '
	hash=$(hash_of one)
	altered=$(forge shared "$hash" id another-run)
	stripped=$(python3 - "$hash" <<-"P"
	import hashlib, json, os, sys
	h = sys.argv[1]
	m = json.load(open(f"shared/runs/{h[:2]}/{h}"))
	del m["signature"]
	data = json.dumps(m, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
	h = hashlib.sha256(data).hexdigest()
	os.makedirs(f"shared/runs/{h[:2]}", exist_ok=True)
	open(f"shared/runs/{h[:2]}/{h}", "wb").write(data)
	print(h)
	P
	)
	as reader -C place get "$hash" --store "$store" -o ../whole
	for h in "$altered" "$stripped"; do
		test_code 4 as reader -C place get "$h" --store "$store" -o ../none 2>err
		test_grep "isn.t signed" err
		project "place-$h"
		as plain -C "place-$h" get "$h" -o ../got-$h
	done
'
test_expect 'a signature for another store doesn'"'"'t hold in this one' '
	mkdir elsewhere
	cp -R shared elsewhere/shared
	believes reader alice "$PWD/elsewhere/shared"
	hash=$(hash_of one)
	test_code 4 as reader -C place get "$hash" --store "$PWD/elsewhere/shared" -o ../none 2>err
	test_grep "isn.t signed" err
	as reader -C place get "$hash" --store "$store" -o ../here
'
test_expect 'names: a change that a stranger made is none' '
	run=$(as alice -C one runs --json | newest id)
	as alice -C one tag "$run" best
	project taker
	test_code 1 as reader -C taker store reindex >out 2>&1
	as reader -C taker tag --json >tags
	test_is "$(json tags "[t[\"run\"] for t in d[\"tags\"]]")" "[\"$run\"]"
	other=$(as mallory -C three runs --json | newest id)
	as mallory -C three tag "$other" best
	as reader -C taker tag --json >tags
	test_is "$(json tags "[t[\"run\"] for t in d[\"tags\"]]")" "[\"$run\"]"
	as plain -C three tag --json >tags
	test_is "$(json tags "[t[\"run\"] for t in d[\"tags\"]]")" "[\"$other\"]"
'
test_expect 'reindex leaves out what nobody vouches for; gc keeps what a name of others means' '
	project index
	test_code 1 as reader -C index store reindex >out 2>&1
	test_grep "left out: the run isn.t signed" out
	as reader -C index runs --json >runs.json
	hash=$(hash_of three)
	test_is "$(json runs.json "len([r for r in d[\"runs\"] if r[\"hash\"].endswith(\"$hash\")])")" 0
	as mallory -C three tag -q "$hash" theirs
	export CAIRN_TEST_MARK_GAP=0
	before=$(find shared/runs -type f | wc -l)
	as reader -C index store gc --grace 0s -q
	as reader -C index store gc --grace 0s -q
	test "$(find shared/runs -type f | wc -l)" -lt "$before" # it does remove runs
	test_exists "shared/runs/${hash:0:2}/$hash"
'
test_expect 'a demand that can'"'"'t be read is an error, never none' '
	user odd
	project odd
	file=$TRASH/users/odd/cairn/trust
	refused() { # WHAT...: nothing runs, and the error says so
		test_code 3 as odd -C odd run 2>err
		test_grep "$file" err
		test_grep "$*" err
		test_missing odd/.cairn/work
	}
	for line in "writer" "writer $store" "writer $store ed25519:abc" "writer * rsa:AAAA" \
		"writer ~/store ed25519:abc" "writers $store ed25519:abc" "Writer $store ed25519:abc" \
		"project"; do
		printf "%s\n" "# mine" "$line" >"$file"
		refused ":2: "
	done
	echo "writer $store $(key_of alice)" >"$file"
	cp "$file" good.trust
	for mode in 666 620; do
		chmod $mode "$file"
		refused "others may write to.*chmod go-w"
	done
	rm "$file"
	mkdir "$file"
	refused "is not a regular file"
	rmdir "$file"
	mkfifo "$file"
	refused "is not a regular file"
	rm "$file"
	ln -s nowhere "$file"
	refused "cannot read|No such file"
	rm "$file"
	(cat good.trust; head -c 1100000 /dev/zero | tr "\\0" "#") >"$file"
	refused "File too large"
	printf "project /a\0\nwriter %s %s\n" "$store" "$(key_of alice)" >"$file"
	refused "isn.t a text file"
	cp good.trust "$file"
	executed odd odd 0
'
test_expect --needs ROOT 'a trust file of another user is refused' '
	chown 65534 "$TRASH/users/odd/cairn/trust"
	test_code 3 as odd -C odd run 2>err
	test_grep "belongs to user 65534" err
	chown 0 "$TRASH/users/odd/cairn/trust"
'
test_expect 'records of before, without a signature, stay readable where nobody demands one' '
	project old
	XDG_CONFIG_HOME=$TRASH/users/none cairn -C old run -q -p n=old
	executed alice old 0 -p n=old
'
test_done
