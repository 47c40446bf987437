#!/bin/bash
# tests/net/servers.sh: real object stores for tests, built once into a cache outside of the checkout.
#
# Run: `tests/net/servers.sh versitygw minio rclone fake-gcs-server moto` builds those that aren't there.
# Sourced (before lib.sh, which takes HOME away): server NAME PROGRAM starts one on a free port of loopback; it is gone with the file. server_env NAME PROGRAM
# makes it what S3 or GCS is in this file, and SERVER_URI its bucket.
set -u

servers_home=$HOME
servers_xdg=${XDG_CACHE_HOME:-$HOME/.cache}
servers_cache=$servers_xdg/cairn-tests
servers_source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Of rclone only what the tests run is built (rclone/main.go): all of it is the clients of eighty services.
declare -A servers_module=(
	[versitygw]=github.com/versity/versitygw/cmd/versitygw@v1.8.0
	[minio]=github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
	[rclone]=github.com/rclone/rclone@v1.75.1
	[fake-gcs-server]=github.com/fsouza/fake-gcs-server@v1.56.1
)

# The modules' own hashes (golang.org/x/mod/sumdb/dirhash), which cover the go.sum of what they need.
declare -A servers_sum=(
	[versitygw]=h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc=
	[minio]=h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA=
	[rclone]=h1:kIxQcoDLj2Gke/gMSHK7OnxhX1Gu1cJBLP1kJZoaFp0=
	[fake-gcs-server]=h1:K03sAvbLvDz4hAynpCCUqnNRp+ik9JFSvHbkD/wTPOU=
)

# server_build PROGRAM: one at a time; says why when it can't.
server_build() {
	mkdir -p "$servers_cache/bin"
	(
		flock 9
		server_is_there "$1" && exit 0
		if [ "$1" = moto ]; then
			HOME=$servers_home XDG_CACHE_HOME=$servers_xdg
			"$servers_source/../venv" "$servers_cache/moto" --require-hashes -r "$servers_source/moto.requirements.txt"
		elif ! command -v go >/dev/null; then
			echo 'there is no go compiler'
			exit 1
		else
			# As tests/cluster/build does it: packages that both need are then compiled once.
			HOME=$servers_home XDG_CACHE_HOME=$servers_xdg
			export CGO_ENABLED=0 GOBIN=$servers_cache/bin
			if [ -d "$servers_source/$1" ]; then
				cd "$servers_source/$1" && nice -n 10 go build -mod=readonly -trimpath -ldflags '-s -w' -o "$GOBIN/$1" .
			else
				nice -n 10 go install -trimpath -ldflags '-s -w' "${servers_module[$1]}"
			fi
			server_is_right "$1" || { rm -f "$servers_cache/bin/$1"; echo "$1 was built of other source than expected"; exit 1; }
		fi
	) 9>"$servers_cache/lock" >"$servers_cache/$1.log" 2>&1 || { tail -n 1 "$servers_cache/$1.log"; return 1; }
}

# server_is_right PROGRAM: what was built, by whomever, was built of the module that is named above.
server_is_right() {
	go version -m "$servers_cache/bin/$1" 2>/dev/null | awk -v at="${servers_module[$1]}" -v sum="${servers_sum[$1]}" '
		$1 == "mod" || $1 == "dep" { found = found || index(at, $2) == 1 && at ~ "@" $3 "$" && $4 == sum }
		END { exit !found }'
}

# The cache is the caller's own, so that nobody else put anything into it.
server_is_there() {
	[ -O "$servers_cache" ] || return
	case $1 in
	moto) [ -x "$servers_cache/moto/bin/moto_server" ] ;;
	*) [ -x "$servers_cache/bin/$1" ] && { ! command -v go >/dev/null || server_is_right "$1"; } ;;
	esac
}

# server_can PROGRAM: it is there, or gets built when that takes a minute (MinIO takes ten: build it by hand, see above).
server_can() {
	server_is_there "$1" && return
	[ "$1" != minio ] && [ "$1" != rclone ] && server_build "$1" >/dev/null && server_is_there "$1"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0"; exit 2; }
	for program in "$@"; do
		server_build "$program" || exit 1
	done
	exit 0
fi

server_free_port() { python3 -SE -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
server_answers() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Credentials of all of them: what tests look for where it must not be.
SERVER_KEY=testkey SERVER_SECRET=testsecret-not-to-be-shown
export SERVER_KEY SERVER_SECRET

# server_again NAME PROGRAM [OPTION...]: one that was stopped, on its old port, with its old data.
server_again() { SERVER_PORT=$(server_port "$1") server "$@"; }

# Files of the servers: where `start` puts its own.
server_file() { echo "${TEST_START_DIR:-$TRASH/work}/$1"; }

# server NAME PROGRAM [OPTION...]: data in NAME.data, one bucket `tbucket`; its port: server_port NAME.
server() {
	local name=$1 program=$2 port data try
	data=$(server_file "$name.data")
	shift 2
	mkdir -p "$data"
	[ "$program" = fake-gcs-server ] || mkdir -p "$data/tbucket"
	for try in 1 2 3; do # somebody else may take the port
		port=${SERVER_PORT:-$(server_free_port)}
		rm -f "$(server_file "$name")".{pid,rc,sid}
		case $program in
		versitygw) start "$name" env ROOT_ACCESS_KEY="$SERVER_KEY" ROOT_SECRET_KEY="$SERVER_SECRET" "$servers_cache/bin/versitygw" --port "127.0.0.1:$port" "$@" posix "$data" ;;
		minio) start "$name" env MINIO_ROOT_USER="$SERVER_KEY" MINIO_ROOT_PASSWORD="$SERVER_SECRET" MINIO_BROWSER=off MINIO_CI_CD=1 "$@" \
			"$servers_cache/bin/minio" server --address "127.0.0.1:$port" "$data" ;;
		rclone) start "$name" "$servers_cache/bin/rclone" serve s3 --auth-key "$SERVER_KEY,$SERVER_SECRET" --addr "127.0.0.1:$port" "$@" "$data" ;;
		fake-gcs-server) start "$name" "$servers_cache/bin/fake-gcs-server" -scheme http -host 127.0.0.1 -port "$port" -backend memory "$@" ;;
		moto) start "$name" "$servers_cache/moto/bin/moto_server" -H 127.0.0.1 -p "$port" "$@" ;;
		esac || return 1
		echo "$port" >"$(server_file "$name.port")"
		if wait_until 30 server_up "$name"; then
			[ -s "$(server_file "$name.rc")" ] || { server_bucket "$name" "$program"; return; }
		fi
		echo "# $name did not start: try $try" >&3
	done
	return 1
}

server_up() { [ -s "$(server_file "$1.rc")" ] || server_answers "$(server_port "$1")"; }
server_port() { cat "$(server_file "$1.port")"; }

# The others serve the folder `tbucket`.
server_bucket() {
	[ "$2" != fake-gcs-server ] || python3 - "$(server_port "$1")" <<-'E'
		import sys, urllib.request
		r = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/storage/v1/b?project=p", b'{"name": "tbucket"}', {"Content-Type": "application/json"})
		urllib.request.urlopen(r).read()
	E
}

server_env() {
	if [ "$2" = fake-gcs-server ]; then
		STORAGE_EMULATOR_HOST=127.0.0.1:$(server_port "$1") SERVER_URI=gs://tbucket
		export STORAGE_EMULATOR_HOST SERVER_URI
	else
		export AWS_ACCESS_KEY_ID=$SERVER_KEY AWS_SECRET_ACCESS_KEY=$SERVER_SECRET AWS_REGION=us-east-1 SERVER_URI=s3://tbucket
		AWS_ENDPOINT_URL=http://127.0.0.1:$(server_port "$1")
		export AWS_ENDPOINT_URL
	fi
}
