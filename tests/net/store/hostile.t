#!/bin/bash
# The hostile server does what its README says: rules, counts, faults, the log, an upstream behind it.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/net.sh"

hostile origin --no-tls || test_bail 'the server does not start'
hostile front --no-tls --upstream "127.0.0.1:$(port origin http)" || test_bail 'the server does not start'
O=http://127.0.0.1:$(port origin http)
F=http://127.0.0.1:$(port front http)
export O F

test_expect 'content without rules' '
	http GET "$O/bytes/20" >out
	test_is "$(head -n 1 out)" 200
	test_is "$(tail -c +5 out | od -An -tx1 | tr -d " \n")" 0000000000000000000000000000000800000000
	echo hello >body
	http PUT "$O/sink" body >out
	test_grep "^\[6, \"$(sha256sum body | cut -c 1-64)\"\]" out
	http GET "$O/none" >out
	test_is "$(head -n 1 out)" 404
'

test_expect 'a rule: by method, path and query, after some, some times' '
	rules origin <<-E
		{"name": "busy", "method": "PUT", "path": "/s*k", "query": "x=1", "skip": 1, "times": 2, "day": "slow-down"}
		# a comment
		{"name": "gone", "path": "/bytes/*", "status": 404, "body": "away"}
	E
	for i in 1 2 3 4; do
		http PUT "$O/sink?x=1" body | sed -n 1p
	done >out
	test_is "$(tr "\n" " " <out)" "200 503 503 200 "
	test_is "$(http PUT "$O/sink" body | sed -n 1p)" 200
	test_is "$(http GET "$O/bytes/3")" "$(printf "404\naway")"
'

test_expect 'the log has each request, its rule and what came' '
	test_is "$(asked origin "q[\"rule\"] == \"busy\"")" 2
	test_is "$(asked origin "q[\"method\"] == \"PUT\" and q[\"body_bytes\"] == 6 and q[\"target\"].endswith(\"?x=1\")")" 4
'

test_expect 'new rules count from the start; no file, no rules' '
	rules origin <<<"{\"path\": \"/bytes/*\", \"times\": 1, \"cut\": \"body\"}"
	test_code 1 http GET "$O/bytes/3" 2>err
	test_is "$(http GET "$O/bytes/3" | sed -n 1p)" 200
	rules origin <<<"{\"path\": \"/bytes/*\", \"times\": 1, \"cut\": \"body\", \"how\": \"close\"}"
	test_code 1 http GET "$O/bytes/3" 2>err
	test_grep IncompleteRead err
	rm origin/rules
	test_is "$(http GET "$O/bytes/3" | sed -n 1p)" 200
'

test_expect 'bad days by name' '
	test_code 1 http GET "$O/day/reset-status" 2>err
	test_grep ConnectionReset err
	test_code 1 http GET "$O/day/close-start" 2>err
	test_grep "RemoteDisconnected|BadStatusLine" err
	test_is "$(http GET "$O/day/error-200" | grep -c InternalError)" 1
	test_is "$(http GET "$O/day/nothing" | sed -n 1p)" 404
'

test_expect 'a rule that is not understood ends the connection, and the server says why' '
	rules origin <<<"{\"path\": \"*\", \"cutt\": \"body\"}"
	test_code 1 http GET "$O/bytes/3" 2>err
	wait_until 20 grep -q "unknown in a rule: .*cutt" origin.server.out
	rm origin/rules
'

test_expect 'an upstream: what no rule matches is asked there' '
	http GET "$F/bytes/100000" >through
	http GET "$O/bytes/100000" >direct
	test_cmp direct through
	head -c 300000 /dev/zero >body
	http PUT "$F/sink" body >through
	http PUT "$O/sink" body >direct
	test_cmp direct through
	test_is "$(http HEAD "$F/bytes/7")" 200
	test_is "$(http GET "$F/day/slow-down" | sed -n 1p)" 503
'

test_expect 'an upstream: faults on what it answers' '
	rules front <<-E
		{"path": "/bytes/1000", "upstream": true, "flip": 10}
		{"path": "/bytes/1001", "upstream": true, "cut": "end", "how": "close"}
		{"path": "/sink", "upstream": true, "cut": "start"}
	E
	http GET "$F/bytes/1000" >through
	http GET "$O/bytes/1000" >direct
	test_is "$(cmp -l direct through | wc -l)" 1
	test_code 1 http GET "$F/bytes/1001" 2>err
	test_grep IncompleteRead err
	before=$(asked origin "q[\"target\"] == \"/sink\"")
	test_code 1 http PUT "$F/sink" body 2>err
	test_is "$(asked origin "q[\"target\"] == \"/sink\"")" $((before + 1))
'
test_done
