#!/bin/bash
# The N-th call of the system fails while shard works, for N = 1, 2, 3, …: either the bytes are those of an undisturbed execution, or it ends with an
# error and leaves no half-written file.
. "$(dirname "$0")/../lib.sh"

steps=$(dirname "$(realpath "$CAIRN")")/cairn-steps
[ -x "$steps" ] || test_skip_all 'no cairn-steps beside cairn'
[ -z "$(nm "$steps" 2>/dev/null | grep __asan_init)" ] || test_skip_all 'calls are preloaded, which the address sanitizer does not allow'
cc -shared -fPIC -O1 -o "$TRASH/nth.so" "$SRC/tests/fault/nth.c" -ldl 2>cc.log || test_skip_all 'no C compiler for the preloaded calls'

mkdir -p files/a files/b
for i in $(seq 12); do
	head -c $((i * 900)) /dev/zero | tr '\0' x >files/a/$i.txt
	echo "{\"i\": $i}" >files/a/$i.json
	echo "$i" >files/b/$i.txt
done
tar -C files -czf files.tar.gz a b
(cd files && find . -name '*.txt' | sed 's|^\./||; 1i file') >list.csv
export steps

# faults SOURCE CALL ERRNO STEP MAX: every STEP-th call up to MAX
faults() {
	local n rc fired=0 failed=0
	local -a args=(shard -i "data=$1" -i files=files -o a=a/ -o b=b/ -w split.a=0.5 -w split.b=0.5 -w shards=2 --threads 2)
	case $1 in *.csv) args+=(-w file=file) ;; esac
	rm -rf a b
	"$steps" "${args[@]}" 2>err
	rm -rf want
	mkdir want
	mv a b want/
	for ((n = 1; n <= $5; n += $4)); do
		rm -rf a b fired
		rc=0
		timeout 60 env NTH_CALL="$2" NTH_N="$n" NTH_ERRNO="$3" NTH_FIRED="$PWD/fired" LD_PRELOAD="$TRASH/nth.so" "$steps" "${args[@]}" >out 2>err || rc=$?
		[ -e fired ] || break
		fired=$((fired + 1))
		case $rc in
		0) diff -r want/a a && diff -r want/b b || { echo "$2 number $n: exit 0, other bytes"; return 1; } ;;
		1 | 3 | 4)
			failed=$((failed + 1))
			[ "$(grep -c 'error: ' err)" -eq 1 ] || { echo "$2 number $n: no error in words"; cat err; return 1; }
			[ -z "$(find a b -name '.*' 2>/dev/null)" ] || { echo "$2 number $n:"; find a b; return 1; }
			;;
		*)
			echo "$2 number $n: exit $rc"
			cat err
			return 1
			;;
		esac
		"$steps" "${args[@]}" 2>err || { echo "after $2 number $n:"; cat err; return 1; }
		diff -r want/a a
		diff -r want/b b
	done
	echo "$fired faults of $2, $failed of them fatal"
	[ "$failed" -gt 0 ]
}

test_expect 'files: open, read, write, rename, mkdir fail' '
	faults files openat 24 1 80
	faults files read 5 1 100
	faults files write 28 1 30
	faults files rename 28 1 20
	faults files mkdirat 28 1 5
'
test_expect 'an archive through the spool: open, read, write fail' '
	faults files.tar.gz openat 24 1 40
	faults files.tar.gz open 24 1 40
	faults files.tar.gz read 5 1 40
	faults files.tar.gz write 28 1 30
'
test_expect 'a table that names files: open, read, write fail' '
	faults list.csv openat 24 1 60
	faults list.csv read 5 1 60
	faults list.csv write 28 1 30
'
test_done
