#!/bin/bash
# The rules for Prometheus and the dashboard of runners/kubernetes/deploy/monitoring: each name that they use is exported, the rules fire when they should, and a real Prometheus
# takes the server's metrics and the rules.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'
export MONITORING=$SRC/runners/kubernetes/deploy/monitoring

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: one
steps: {s: {run: "echo x >o", outputs: {o: o}}}
YAML
# names FILE…: of series in the expressions of rules and dashboards, one a line.
names() {
	python3 - "$@" <<-'P'
		import json, re, sys, yaml
		functions = {"sum", "by", "rate", "increase", "label_values", "and", "or", "without"}
		def expressions(path):
		    d = json.load(open(path)) if path.endswith(".json") else yaml.safe_load(open(path))
		    for group in d.get("groups", []):
		        yield from (r["expr"] for r in group["rules"])
		    for p in d.get("panels", []):
		        yield from (t["expr"] for t in p["targets"])
		    for v in d.get("templating", {}).get("list", []):
		        if isinstance(v["query"], dict):
		            yield re.sub(r",\s*\w+\)$", ")", v["query"]["query"])
		found = set()
		for path in sys.argv[1:]:
		    for e in expressions(path):
		        e = re.sub(r"\{[^}]*\}|\[[^]]*\]|\bby \([^)]*\)", " ", e)
		        found |= {n for n in re.findall(r"[a-z_][a-z0-9_:]*", e)} - functions
		print("\n".join(sorted(found)))
	P
}

test_expect 'each series that the rules and the dashboard use is one that the server exports' '
	cairn run -q
	serve srv
	get srv /api/v1/projects
	get srv /metrics
	status_is 200
	sed -n "s/^\([a-z_]*\)[{ ].*/\1/p" body | sort -u >exported
	names "$MONITORING/rules.yaml" "$MONITORING/dashboard.json" >used
	test "$(wc -l <used)" -ge 20
	grep -vx -e up used | sort >ours # Prometheus makes it itself
	comm -23 ours exported >strangers
	test_cmp /dev/null strangers
	sed "s/cairn_schedule_missed_total/cairn_schedule_mised_total/" "$MONITORING/rules.yaml" >bad.yaml # the check can fail
	names bad.yaml | sort | comm -23 - exported | grep -vx up >strangers
	test_is "$(cat strangers)" cairn_schedule_mised_total
'

if ! command -v promtool >/dev/null || ! command -v prometheus >/dev/null; then
	test_skip 'Prometheus itself takes the rules and the metrics' 'no promtool (package prometheus)'
	test_done
	exit
fi

test_expect 'the rules are valid, and fire when they should' '
	promtool check rules "$MONITORING/rules.yaml" >out 2>&1 || { cat out; exit 1; }
	cat >rules_test.yaml <<-Y
		rule_files: ["$MONITORING/rules.yaml"]
		evaluation_interval: 1m
		tests:
		- interval: 1m
		  input_series:
		  - {series: "up{job=\"cairn\", instance=\"a\"}", values: "1 0x20"}
		  - {series: "up{job=\"cairn\", instance=\"b\"}", values: "1x20"}
		  - {series: "cairn_schedule_failed_total{instance=\"a\"}", values: "0x5 1x20"}
		  - {series: "cairn_schedule_lateness_seconds{instance=\"a\"}", values: "90x20"}
		  - {series: "cairn_runs{project=\"p\", pipeline=\"q\", state=\"failed\"}", values: "1x20"}
		  - {series: "cairn_runs{project=\"p\", pipeline=\"q\", state=\"succeeded\"}", values: "3x20"}
		  alert_rule_test:
		  - {eval_time: 3m, alertname: CairnDown, exp_alerts: []}
		  - eval_time: 10m
		    alertname: CairnDown
		    exp_alerts: [{exp_labels: {severity: critical, job: cairn, instance: a}, exp_annotations: {summary: "The engine at a doesn'"'"'t answer", todo: "What runs on the cluster goes on. See the pod'"'"'s log and events; a new engine takes over by itself."}}]
		  - {eval_time: 4m, alertname: CairnScheduleFailed, exp_alerts: []}
		  - {eval_time: 4m, alertname: CairnScheduleLate, exp_alerts: []}
		  promql_expr_test:
		  - {expr: "cairn:runs_failed:ratio", eval_time: 5m, exp_samples: [{labels: "cairn:runs_failed:ratio{project=\"p\", pipeline=\"q\"}", value: 0.25}]}
		  - {expr: "count(ALERTS{alertname=\"CairnScheduleFailed\", alertstate=\"firing\"})", eval_time: 10m, exp_samples: [{value: 1}]}
		  - {expr: "count(ALERTS{alertname=\"CairnScheduleLate\", alertstate=\"firing\"})", eval_time: 10m, exp_samples: [{value: 1}]}
	Y
	promtool test rules rules_test.yaml >out 2>&1 || { cat out; exit 1; }
'

test_expect 'Prometheus scrapes the server with a token and evaluates the rules' '
	port=$(python3 -c "import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); print(s.getsockname()[1])")
	printf %s "$SERVE_TOKEN" >token
	address=$(serve_url srv)
	sed -e "s#/etc/prometheus/cairn-token#$PWD/token#; s#cairn.example.org:8410#${address#http://}#" "$MONITORING/prometheus.yaml" >prometheus.yaml
	test_grep "${address#http://}" prometheus.yaml
	printf "rule_files: [\"%s\"]\nglobal: {scrape_interval: 1s, evaluation_interval: 1s}\n" "$MONITORING/rules.yaml" >>prometheus.yaml
	promtool check config prometheus.yaml >out 2>&1 || { cat out; exit 1; }
	start prom prometheus --config.file=prometheus.yaml --storage.tsdb.path=tsdb --web.listen-address="127.0.0.1:$port"
	ask() { curl -s -G --max-time 10 "http://127.0.0.1:$port/api/v1/query" --data-urlencode "query=$1" >answer.json && json answer.json "[r[\"value\"][1] for r in d[\"data\"][\"result\"]]" 2>/dev/null; }
	is() { test "$(ask "$1")" = "$2"; }
	wait_until 60 is "up{job=\"cairn\"}" "[\"1\"]" || { cat prom.out; exit 1; }
	wait_until 30 is "sum(cairn_runs{state=\"succeeded\"})" "[\"1\"]"
	wait_until 30 is "cairn:runs_failed:ratio" "[]" # nothing has failed: no series of it
	curl -s "http://127.0.0.1:$port/api/v1/rules" >rules.json
	test_is "$(json rules.json "sorted({r[\"health\"] for g in d[\"data\"][\"groups\"] for r in g[\"rules\"]})")" "[\"ok\"]"
	test_is "$(json rules.json "sum(len(g[\"rules\"]) for g in d[\"data\"][\"groups\"])")" 11
	stop prom TERM >/dev/null
'
test_done
