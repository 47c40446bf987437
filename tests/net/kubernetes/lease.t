#!/bin/bash
# A Lease of coordination.k8s.io/v1 as runners/kubernetes/api/lease.c holds it, against an API server that keeps its objects in memory and misbehaves on request (kubeapi.py).
# shellcheck disable=SC2016 # expansions are the tests'
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"
kube_tool
leases=/apis/coordination.k8s.io/v1/namespaces/lab/leases
spec() { kube call GET "$leases/$1" | tail -n 1 >lease.json && json lease.json "d['spec'].get('$2')"; }

# contend WHO LEASE DURATION WITHIN RETRY: in the background; what it is told, without times, by `told WHO`; until `leave WHO`.
contend() {
	mkfifo "$1.in"
	(
		for contend_fd in $(cat ./*.fd 2>/dev/null); do
			exec {contend_fd}>&- # else it keeps the others' standard input open
		done
		exec "$tool" lease "$2" "$1" "$3" "$4" "$5" <"$1.in" >"$1.out" 2>"$1.err" 3>&-
	) &
	echo $! >"$1.pid"
	exec {contend_fd}>"$1.in"
	echo "$contend_fd" >"$1.fd"
}
leave() {
	contend_fd=$(cat "$1.fd")
	exec {contend_fd}>&-
	rm "$1.fd"
	wait "$(cat "$1.pid")"
}
told() { cut -d" " -f2- "$1.out"; }
hears() { wait_until 60 heard "$@"; }
heard() { [ -n "$(told "$1" | grep -E -- "$2")" ]; }
at() { awk -v s="$2" '$2 == s { print $1; exit }' "$1.out"; }

kube_api api || test_bail 'the API server does not start'
kube_config api >kubeconfig
export KUBECONFIG=$PWD/kubeconfig

test_expect 'the first one makes it, writes what the API says, and renews it by one request a time' '
	contend a one 15000 10000 100
	hears a "^held a$"
	test_is "$(spec one holderIdentity) $(spec one leaseDurationSeconds) $(spec one leaseTransitions)" "a 15 0"
	test_is "$(spec one renewTime | grep -c -E "^20[0-9]{2}-[0-9-]{5}T[0-9:]{8}\.[0-9]{6}Z$")" 1
	first=$(spec one renewTime)
	before=$(asked api "\"PUT\".*leases/one")
	asked_more() { [ "$(asked api "\"PUT\".*leases/one")" -ge $((before + 3)) ]; } # they may have come before `first`
	wait_until 60 asked_more
	[ "$(spec one renewTime)" ">" "$first" ]
	test_is "$(spec one acquireTime | cut -c1-2)" 20
	leave a
	test_is "$(told a | tr "\n" " ")" "held a ending held "
	test_is "$(spec one holderIdentity) $(spec one leaseDurationSeconds)" "null 1"
	gets=$(asked api "\"GET\".*leases/one")
	[ "$gets" -eq 10 ] || [ "$gets" -eq 11 ] # one to look, nine by this test; one more if a renewal was under way when it was given back
'

test_expect 'it is given back, although the server has taken a renewal that was not answered yet' '
	contend giver given 15000 10000 100
	hears giver "^held giver$"
	faults <<<"{\"match\": \"PUT *leases/given\", \"do\": \"late\", \"for\": 5, \"times\": 1000000}"
	before=$(asked api "\"PUT\".*leases/given")
	renews() { [ "$(asked api "\"PUT\".*leases/given")" -gt "$before" ]; }
	wait_until 60 renews
	faults </dev/null
	leave giver
	test_is "$(spec given holderIdentity) $(spec given leaseDurationSeconds)" "null 1"
'

test_expect 'a second one stands by, is told who has it, and takes over when it is given back' '
	contend b two 15000 10000 100
	hears b "^held b$"
	contend c two 15000 10000 100
	hears c "^waiting b$"
	leave b
	hears c "^held c$"
	test_is "$(spec two leaseTransitions)" 1
	leave c
'

test_expect 'one that was killed is followed after the time that it asked for, counted on our own clock' '
	for skew in 1999-01-01 2099-01-01; do
		kube call POST "$leases" "{\"metadata\": {\"name\": \"skew-$skew\"}, \"spec\": {\"holderIdentity\": \"dead\", \"leaseDurationSeconds\": 2, \"leaseTransitions\": 4,
			\"acquireTime\": \"${skew}T00:00:00.000000Z\", \"renewTime\": \"${skew}T00:00:00.000000Z\"}}" >/dev/null
		contend "d$skew" "skew-$skew" 15000 10000 50
		hears "d$skew" "^held d$skew$"
		test_is "$(told "d$skew" | sed -n 1p)" "waiting dead"
		[ $(($(at "d$skew" held) - $(at "d$skew" waiting))) -ge 1900 ]
		test_is "$(spec "skew-$skew" leaseTransitions)" 5
		leave "d$skew"
	done
'

test_expect 'what others wrote there stays, but for the record' '
	kube call POST "$leases" "{\"metadata\": {\"name\": \"noted\", \"labels\": {\"team\": \"x\"}}, \"spec\": {}}" >/dev/null
	contend e noted 15000 10000 100
	hears e "^held e$"
	kube call GET "$leases/noted" >out
	test_grep "\"team\":\"x\"" out
	leave e
'

test_expect 'a renewal whose answer got lost is no loss' '
	contend f lost 15000 10000 100
	hears f "^held f$"
	faults <<<"{\"match\": \"PUT *leases/lost\", \"do\": \"lost\", \"times\": 2}"
	n=$(asked api "\"PUT\".*leases/lost")
	more() { [ "$(asked api "\"PUT\".*leases/lost")" -ge $((n + 5)) ]; }
	wait_until 60 more
	test_is "$(told f | tr "\n" " ")" "held f "
	leave f
	faults </dev/null
'

test_expect 'an API server that is away: the holder lets go in time, before others may take it; who waits says why, and takes it when the server is back' '
	contend g away 3000 1500 100
	hears g "^held g$"
	contend h away 3000 1500 100
	hears h "^waiting g$"
	faults <<<"{\"match\": \"* *leases/away\", \"do\": \"status\", \"code\": 503, \"times\": 1000000}"
	hears g "^lost g: it couldn.t be renewed in time: .*503"
	hears h "^waiting g: .*503"
	faults </dev/null
	hears h "^held h$"
	[ "$(at h held)" -gt "$(at g lost)" ]
	test_is "$(spec away holderIdentity)" h # who lost it writes no more
	leave g
	leave h
'

test_expect 'a server that answers too late is away, too; 429 and Retry-After are no reason to wait longer' '
	contend i slow 2000 1000 100
	hears i "^held i$"
	faults <<<"{\"match\": \"PUT *leases/slow\", \"do\": \"late\", \"for\": 4, \"times\": 1000000}"
	hears i "^lost i: "
	leave i
	contend j slow 2000 1000 100
	faults </dev/null
	hears j "^held j$"
	faults <<<"{\"match\": \"* *leases/slow\", \"do\": \"status\", \"code\": 429, \"after\": 60, \"times\": 1000000}"
	hears j "^lost j: .*429"
	leave j
	faults </dev/null
'

test_expect 'taken away by hand: lost at once' '
	contend k taken 15000 10000 100
	hears k "^held k$"
	kube call PATCH "$leases/taken" "{\"spec\": {\"holderIdentity\": \"intruder\"}}" application/merge-patch+json >/dev/null
	hears k "^lost intruder: another one has taken it$"
	leave k
	test_is "$(spec taken holderIdentity)" intruder
'

test_expect 'a Lease that is nonsense, a server that refuses: said in words, and no end' '
	kube call POST "$leases" "{\"metadata\": {\"name\": \"odd\"}, \"spec\": {\"holderIdentity\": [1], \"leaseDurationSeconds\": \"x\", \"leaseTransitions\": -7}}" >/dev/null
	contend l odd 15000 10000 100
	hears l "^held l$"
	test_is "$(spec odd leaseTransitions)" 1
	leave l
	kube call POST "$leases" "{\"metadata\": {\"name\": \"none\"}, \"spec\": 5}" >/dev/null
	contend m none 15000 10000 100
	hears m "^waiting -: .*the server.s answer is no Lease"
	leave m
	faults <<<"{\"match\": \"* *leases/no\", \"do\": \"status\", \"code\": 403, \"message\": \"leases no is forbidden\", \"times\": 1000000}"
	contend n no 15000 10000 100
	hears n "^waiting -: .*403: leases no is forbidden"
	leave n
	faults </dev/null
'

test_expect 'several contenders, killed, stopped, cut off and ended in turn: never two at once, and always one again' '
	python3 "$SRC/tests/net/kubernetes/lease_contest.py" "$tool" "$PWD/api" 8 7 >out
	test_grep "^9 holders, one at a time; cut end kill stop$" out
'

test_done
