# shellcheck shell=bash
# tests/net/kubernetes/kube.sh: for *.t files that need an API server of Kubernetes which does as it is told (kubeapi.py); source it after lib.sh.
# A server is a directory of $TRASH/work: `port`, `pid`, `log` (a line a request), `faults` (what it does wrong), and what kubeapi.py says.

# kube_api NAME [OPTION...]: starts kubeapi.py with the directory NAME; gone with the file.
kube_api() {
	local name=$1
	shift
	mkdir -p "$TRASH/work/$name"
	start "$name.server" python3 "$SRC/tests/net/kubernetes/kubeapi.py" "$TRASH/work/$name" "$@"
	wait_until 60 test -s "$TRASH/work/$name/port"
}

# kube_ask NAME METHOD PATH: as somebody else asks; prints the answer.
kube_ask() {
	curl -gsSf --noproxy '*' --max-time 60 -X "$2" "http://127.0.0.1:$(cat "$TRASH/work/$1/port")$3" && echo
}

# kube_config NAME [USER]: a kubeconfig of it, on standard output: context `here`, namespace `lab`. USER is what YAML has in a user's braces.
kube_config() {
	cat <<-EOF
		apiVersion: v1
		kind: Config
		current-context: here
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:$(cat "$TRASH/work/$1/port")/"}}]
		users: [{name: u, user: {${2:-}}}]
		contexts: [{name: here, context: {cluster: c, user: u, namespace: lab}}]
	EOF
}

# faults [NAME] <<lines: what the server (`api`, unless it is named) does wrong from now on; counts begin again.
faults() { cat >"$TRASH/work/${1:-api}/faults.new" && mv "$TRASH/work/${1:-api}"/faults{.new,}; }

# asked NAME PATTERN: how many requests have it in their line of the log.
asked() { grep -c -E -- "$2" "$TRASH/work/$1/log" || :; }

# kube_tool: finds the client as a program; from then on `kube COMMAND...` is it, and $tool its path. Skips the file when it isn't built.
kube_tool() {
	tool=$(test_tool kube_tool) || test_skip_all 'there is no kube_tool: build it'
	export tool
}
kube() { "$tool" "$@"; }
