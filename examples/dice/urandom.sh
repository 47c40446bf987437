#!/bin/sh
# urandom.sh N : N throws of the kernel's generator.
set -eu
head -c "$1" /dev/urandom | od -An -v -tu1 -w1 | awk '{ print 1 + $1 % 6 }'
