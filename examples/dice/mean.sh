#!/bin/sh
# mean.sh SEEDED URANDOM : the mean of each; also as metrics.json, with the time at which that was.
set -eu
mean() { awk '{ n += $1 } END { printf "%.4f", n / NR }' "$1"; }

seeded=$(mean "$1") urandom=$(mean "$2")
echo "{\"seeded\": $seeded, \"urandom\": $urandom, \"time\": $(date +%s.%N)}" >metrics.json
echo "seeded $seeded"
echo "urandom $urandom"
