#!/bin/sh
# mean.sh SEEDED URANDOM : of each, the mean and how often each number came; the means also as metrics.json, with the time at which that was.
set -eu
mean() { awk '{ n += $1 } END { printf "%.4f", n / NR }' "$1"; }
counts() { sort "$1" | uniq -c | awk '{ printf " %d×%s", $1, $2 }'; }

seeded=$(mean "$1") urandom=$(mean "$2")
echo "{\"seeded\": $seeded, \"urandom\": $urandom, \"time\": $(date +%s.%N)}" >metrics.json
echo "seeded $seeded:$(counts "$1")"
echo "urandom $urandom:$(counts "$2")"
