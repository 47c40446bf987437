#!/bin/bash
# shellcheck source=../../lib.sh
. "$(dirname "$0")/../../lib.sh"

touch cairn.yaml
write pipeline.yaml <<'Y'
pipeline: demo
params: {day: none}
inputs: {raw: in/}
steps:
  a:
    run: echo "${{ params.day }}|${{ schedule.name }}|${{ schedule.time }}|${{ schedule.interval_start }}|${{ schedule.interval_end }}" >${{ outputs.o }}
    outputs: {o: o.txt}
  b: {run: "[ ! -e ${{ inputs.raw }}/bad ]", inputs: {raw: "${{ inputs.raw }}"}}
schedules:
  nightly: {cron: "30 2 * * *", timezone: Europe/Berlin, params: {day: "day ${{ schedule.interval_start }}"}}
  special: {cron: "0 0 L-3 * 5L", jitter: 10m}
  often: {cron: "@every 10m"}
  watch: {on_change: [raw]}
Y
mkdir in && echo x >in/x
json() { python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"; }

test_expect 'list: all schedules of the project, as a table and as JSON' '
	cairn schedule list >out 2>err
	test_grep "nightly +30 2 \* \* \* +Europe/Berlin +2" out
	test_grep "watch +on change" out
	test_is "$(cairn schedule list --json 2>/dev/null | json "[(s[\"name\"], s[\"on_change\"], s[\"last\"]) for s in d[\"schedules\"]]")" \
		"[('"'nightly'"', [], None), ('"'special'"', [], None), ('"'often'"', [], None), ('"'watch'"', ['"'raw'"'], None)]"
'
test_expect 'next: the night on which half past two is skipped, and the one on which it comes twice' '
	cairn schedule next nightly -n 3 --after 2026-03-28T00:00Z --json 2>/dev/null | json "[t[\"local\"] for t in d[\"times\"]]" >out
	test_is "$(cat out)" "['"'2026-03-28 02:30:00 +01:00', '2026-03-29 03:00:00 +02:00', '2026-03-30 02:30:00 +02:00'"']"
	cairn schedule next nightly -n 2 --after 2026-10-25T00:00Z --json 2>/dev/null | json "[t[\"time\"] for t in d[\"times\"]]" >out
	test_is "$(cat out)" "['"'2026-10-25T00:30:00.000Z', '2026-10-26T01:30:00.000Z'"']"
'
test_expect 'next merges schedules in the order of time; an unknown one is suggested' '
	cairn schedule next often nightly -n 20 --after 2026-01-01 2>/dev/null >out
	test_is "$(grep -c often out)" 19
	test_is "$(grep -c nightly out)" 1
	test_code 4 cairn schedule next nihgtly 2>err
	test_grep "did you mean .nightly" err
'
test_expect 'run --schedule: times, interval and params of the firing reach the steps' '
	cairn run --schedule nightly@2026-03-29T01:00Z -q 2>err
	cairn get a/o -o got 2>/dev/null
	test_is "$(cat got)" "day 2026-03-28T01:30:00Z|nightly|2026-03-29T01:00:00Z|2026-03-28T01:30:00Z|2026-03-29T01:00:00Z"
'
test_expect 'a firing runs once: the same time again is refused, and without a time there is nothing to do' '
	test_code 4 cairn run --schedule nightly@2026-03-29T01:00Z -q 2>err
	test_grep "has fired already: succeeded" err
	cairn run --schedule nightly -q 2>err
	cairn run --schedule nightly 2>err
	test_grep "has fired for .* already" err
	test_is "$(cairn schedule history --json | json "len(d[\"firings\"])")" 2
'
test_expect 'ten at once make one run' '
	for i in 0 1 2 3 4 5 6 7 8 9; do cairn run --schedule nightly@2026-04-01T00:30Z -q >/dev/null 2>&1 & done
	wait
	test_is "$(cairn schedule history nightly --json | json "[f[\"state\"] for f in d[\"firings\"] if f[\"time\"].startswith(\"2026-04-01\")]")" "['"'succeeded'"']"
	test_is "$(cairn runs --json -n 0 | json "len(d[\"runs\"])")" 3
'
test_expect 'a failed firing can run again when it is asked for by its time' '
	touch in/bad
	test_code 1 cairn run --schedule nightly@2026-04-02T00:30Z -q 2>err
	rm in/bad
	cairn schedule history nightly >out
	test_grep "2026-04-02T00:30:00Z +manual +failed +1" out
	cairn run --schedule nightly@2026-04-02T00:30Z -q 2>err
	cairn schedule history nightly >out
	test_grep "2026-04-02T00:30:00Z +manual +succeeded +2" out
'
test_expect 'without a schedule, schedule.time says how to get one' '
	test_code 3 cairn run 2>err
	test_grep "run --schedule NAME" err
'
test_expect 'trigger without a server runs here' '
	cairn schedule trigger often -q 2>err
	cairn schedule history often >out
	test_grep "manual +succeeded" out
'
test_expect 'backfill: what is missing, oldest first; what has succeeded is left alone' '
	cairn schedule backfill nightly 2026-03-31..2026-04-03 --dry-run 2>/dev/null >out
	test_is "$(cat out | tr -s " ")" "nightly@2026-03-31T00:30:00Z to be run
nightly@2026-04-01T00:30:00Z done already $(sed -n "s/.*04-01.*already  //p" out)
nightly@2026-04-02T00:30:00Z done already $(sed -n "s/.*04-02.*already  //p" out)"
	cairn schedule backfill nightly 2026-03-31..2026-04-03 --json 2>/dev/null | json "[f[\"state\"] for f in d[\"firings\"]]" >out
	test_is "$(cat out)" "['"'succeeded', 'done already', 'done already'"']"
	test_code 2 cairn schedule backfill nightly 2026-04-03..2026-03-31 2>err
	test_code 2 cairn schedule backfill nightly yesterday 2>err
'
test_expect 'backfill --keep-going: a failure that is gone past is still how it ended' '
	mkdir keep
	cd keep
	echo "# project" >cairn.yaml
	write pipeline.yaml <<-"Y"
	pipeline: keep
	params: {day: none}
	steps: {a: {run: "case ${{ params.day }} in *-02T*) exit 1;; esac"}}
	schedules:
	  d: {cron: "0 0 * * *", params: {day: "${{ schedule.time }}"}}
	Y
	test_code 1 cairn schedule backfill d 2026-01-01..2026-01-03 --keep-going --json >out 2>err
	test_is "$(json "*[f[\"state\"] for f in d[\"firings\"]]" <out)" "succeeded failed succeeded"
	test_code 1 cairn schedule backfill d 2026-01-01..2026-01-03 >out 2>err
'
test_expect 'pause and resume are on record' '
	cairn schedule pause nightly often 2>err
	cairn schedule list 2>/dev/null >out
	test_grep "nightly .* paused just now" out
	test_is "$(cairn schedule next --json 2>/dev/null | json "{t[\"schedule\"] for t in d[\"times\"]}")" "{'"'special'"'}"
	cairn schedule pause nightly 2>err
	test_grep "is paused already" err
	cairn schedule resume nightly often 2>err
	cairn schedule next nightly -n 1 2>/dev/null >out
	test_grep nightly out
'
test_expect 'write: a crontab, and what none can say' '
	cairn schedule --to crontab nightly often 2>/dev/null >out
	test_grep "^CRON_TZ=Europe/Berlin$" out
	test_grep "^30 2 \* \* \* cd .* run -q pipeline.yaml --schedule nightly$" out
	test_grep "^\*/10 \* \* \* \* cd " out
	test_code 3 cairn schedule write --to crontab special 2>err
	test_grep "special can.t be expressed in a crontab" err
	test_code 3 cairn schedule write --to crontab watch 2>err
	test_code 2 cairn schedule write 2>err
	test_code 2 cairn schedule --to fcron 2>err
	cairn schedule --to crontab nightly >want 2>/dev/null
	cairn schedule -q --color never --to=crontab nightly >out
	test_cmp want out
	test_code 2 cairn schedule -q 2>err
	test_grep "needs a subcommand" err
'
test_expect 'write: systemd units, one file each' '
	cairn schedule write --to systemd nightly special -o units 2>/dev/null
	test_exists units/cairn-demo-{nightly,special}.{service,timer}
	test_grep "^OnCalendar=\*-\*-\* 2:30:00 Europe/Berlin$" units/cairn-demo-nightly.timer
	test_grep "^OnCalendar=\*-\*~4 0:0:00 UTC$" units/cairn-demo-special.timer
	test_grep "^OnCalendar=Fri \*-\*~07/1 0:0:00 UTC$" units/cairn-demo-special.timer
	test_grep "^RandomizedDelaySec=600s$" units/cairn-demo-special.timer
'
test_expect 'write: the last Friday is no other day' '
	mkdir friday
	cd friday
	echo "# project" >cairn.yaml
	printf "pipeline: p\nsteps:\n  a: {run: \"echo >o\", outputs: {o: o}}\nschedules:\n  f: {cron: \"0 3 * * 5L\"}\n  l: {cron: \"0 3 L * *\"}\n  b: {cron: \"0 3 *,L * mon#2\"}\n" >pipeline.yaml
	for s in f l b; do cairn schedule write --to systemd $s 2>/dev/null | sed -n "s/^OnCalendar=/$s /p"; done >out
	printf "%s\n" "f Fri *-*~07/1 3:0:00 UTC" "l *-*~1 3:0:00 UTC" "b Mon *-*-8..14 3:0:00 UTC" >want
	test_cmp want out
'
test_expect 'write: CronJobs' '
	cairn schedule write --to kubernetes nightly --image registry.example/cairn:1 2>/dev/null >out
	test_grep "timeZone: \"Europe/Berlin\"" out
	test_grep "image: \"registry.example/cairn:1\"" out
	test_grep "name: cairn-demo-nightly$" out
'
test_expect 'two pipelines with a schedule of one name: the file says which' '
	sed "s/pipeline: demo/pipeline: other/" pipeline.yaml >other.yaml
	test_code 3 cairn schedule next nightly 2>err
	test_grep "name the file, too" err
	cairn schedule next other.yaml:nightly -n 1 2>/dev/null >out
	test_grep "other.yaml:nightly" out
'
test_expect 'a broken pipeline file is told, and the others are listed' '
	printf "pipeline: broken\nsteps:\n  a: {run: x}\nschedules:\n  s: {cron: \"0 25 * * *\"}\n" >other.yaml
	test_code 3 cairn schedule list >out 2>err
	test_grep "other.yaml:5:16: .cron.: hour .25." err
	test_grep nightly out
'
test_done
