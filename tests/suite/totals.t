#!/bin/bash
# The counters that tests/run adds up: what they must call passed, failed and skipped.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../lib.sh"

# count FILE...: what tap.pl says of TAP files, all suites together
count() {
	perl "$SRC/tests/tap.pl" counts 1 "$@" >log 2>&1 || true
	awk "{ p += \$2; f += \$3; s += \$4 } END { print p, f, s }" counts
}

printf 'echo "1..2"; echo "ok 1 - a"; echo "ok 2 - b"\n' >good
printf 'echo "1..3"; echo "ok 1 - a"; echo "not ok 2 - b"; echo "ok 3 - c # SKIP no root"; exit 1\n' >mixed
printf 'echo "1..0 # SKIP nothing to do"\n' >skipped
printf 'echo "ok 1 - a"\n' >planless
printf 'echo "1..5"; echo "ok 1 - a"\n' >short
printf 'echo "1..1"; echo "ok 1 - a"; exit 3\n' >status
printf 'echo "ok 1 - a"; echo "Bail out! no"; exit 1\n' >bail
printf 'true\n' >silent

test_expect 'passed tests' 'test_is "$(count good)" "2 0 0"'
test_expect 'a failed and a skipped one are not passed' 'test_is "$(count mixed)" "1 1 1"'
test_expect 'a skipped file is one skipped' 'test_is "$(count skipped)" "0 0 1"'
test_expect 'no plan fails' 'test_is "$(count planless)" "1 1 0"'
test_expect 'fewer tests than planned fail' 'test_is "$(count short | cut -d " " -f 2)" 1'
test_expect 'an exit status fails' 'test_is "$(count status)" "1 1 0"'
test_expect 'a bail-out fails' '
	test_must_fail perl "$SRC/tests/tap.pl" counts2 1 bail >log 2>&1
'
test_expect 'a file that says nothing fails' 'test_is "$(count silent)" "0 1 0"'
test_expect 'several files add up' 'test_is "$(count good mixed skipped status)" "4 2 2"'

test_expect 'a suite of its own name, with variables' '
	mkdir here
	printf "echo 1..1; test \"\$GIVEN\" = so && echo ok 1 - given\n" >here/given
	perl "$SRC/tests/tap.pl" counts 2 good "other: GIVEN=so here/given" here/given >log 2>&1 || true
	test_is "$(sort counts | cut -d " " -f 1-4)" "$(printf ". 2 0 0\nhere 0 1 0\nother 1 0 0")"
	test_grep "^[0-9]+ other here/given" counts.slow
'

cat >report.xml <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<testsuite tests="6">
	<testcase name="good" status="run" time="61.7"><system-out>fine</system-out></testcase>
	<testcase name="bad" status="fail"><failure message=""/></testcase>
	<testcase name="missing" status="notrun"><skipped message="Unable to find executable"/></testcase>
	<testcase name="skip" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
	<testcase name="off" status="disabled"/>
	<testcase name="new" status="something"/>
</testsuite>
XML
test_expect 'ctest: a missing or unknown result is a failure' 'test_is "$(python3 "$SRC/tests/suite/junit.py" report.xml)" "1 3 2"'
test_expect 'ctest: no report is an error' 'test_must_fail python3 "$SRC/tests/suite/junit.py" none.xml'
test_expect 'ctest: which passed' 'test_is "$(python3 "$SRC/tests/suite/junit.py" --passed report.xml)" good'
test_expect 'ctest: seconds' 'test_is "$(python3 "$SRC/tests/suite/junit.py" --slow report.xml | sed -n 1p)" "62 good"'
test_done
