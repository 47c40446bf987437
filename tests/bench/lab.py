"""tests/bench/lab.py: a test cluster (tests/cluster) for the time of a `with`."""

import json
import os
import re
import signal
import subprocess
import time

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cairn-tests")
BIN = os.path.join(CACHE, "cluster", "bin")

ACCOUNT = """---
apiVersion: v1
kind: Namespace
metadata: {{name: {name}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: {name}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: bench-{name}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}
subjects: [{{kind: ServiceAccount, name: {name}, namespace: {name}}}]
"""


class Cluster:
    """A cluster without other work; with `nodes` of them simulated, if that isn't 0. Its API server's audit log can follow a policy of one's own."""

    def __init__(self, folder, nodes=0, audit=None):
        self.dir, self.nodes = folder, nodes
        os.makedirs(folder)
        if not audit:
            return
        self.audit = os.path.join(folder, "audit.log")
        with open(os.path.join(folder, "audit.yaml"), "w") as f:
            f.write(audit)
        with open(os.path.join(folder, "apiserver-flags"), "w") as f:
            f.write(f"--audit-policy-file={folder}/audit.yaml --audit-log-path={self.audit} --audit-log-mode=batch --audit-log-batch-max-wait=1s --audit-log-maxsize=10000\n")

    def __enter__(self):
        try:
            subprocess.run([os.path.join(CLUSTER, "up"), self.dir], check=True)
            if self.nodes:
                subprocess.run([os.path.join(CLUSTER, "simulate"), self.dir, str(self.nodes)], check=True)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run([os.path.join(CLUSTER, "down"), self.dir, "--keep"], check=False)

    def serve(self, name):
        """Starts a server of tests/cluster/serve on the node; its port on loopback."""
        return subprocess.run([os.path.join(CLUSTER, "serve"), self.dir, name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def inside(self, *argv):
        return [os.path.join(CLUSTER, "inside"), self.dir, *argv]

    def kubectl(self, *argv, text=None):
        done = subprocess.run(self.inside("kubectl", *argv), input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise SystemExit(f"kubectl {' '.join(argv)}: {done.stdout[-2000:]}")
        return done.stdout

    def apply(self, text):
        self.kubectl("create", "-f", "-", text=text)

    def start(self, argv, name, env=None):
        with open(os.path.join(self.dir, f"{name}.out"), "w") as out:
            return subprocess.Popen(self.inside(*argv), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(env or {})})

    def stop(self, process, with_signal=signal.SIGTERM):
        """Of the one that nsenter waits for. Gives what it used."""
        children = subprocess.run(["pgrep", "-P", str(process.pid)], stdout=subprocess.PIPE, text=True).stdout.split()
        for pid in children:
            os.kill(int(pid), with_signal)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        return usage

    def account(self, name):
        """A kubeconfig of an account of that name in a namespace of that name."""
        self.apply(ACCOUNT.format(name=name))
        token = self.kubectl("create", "token", name, "-n", name, "--duration=24h").strip()
        path = os.path.join(self.dir, f"{name}.kubeconfig")
        with open(path, "w") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "t", "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t", "namespace": name}}],
                       "clusters": [{"name": "t", "cluster": {"server": "https://127.0.0.1:6443", "certificate-authority": f"{self.dir}/pki/ca.crt"}}],
                       "users": [{"name": "t", "user": {"token": token}}]}, f)
        return path

    def requests(self, name):
        """By "verb resource", of that account."""
        count = {}
        with open(self.audit) as f:
            for line in f:
                if not line.endswith("\n"):
                    break  # still being written
                e = json.loads(line)
                if e["user"]["username"] == f"system:serviceaccount:{name}:{name}":
                    what = e.get("objectRef", {})
                    key = " ".join(x for x in (e["verb"], what.get("resource", e["requestURI"].split("?")[0]), what.get("subresource", "")) if x)
                    count[key] = count.get(key, 0) + 1
        return count

    def all_requests(self, name):
        """Once no more come: the log is written in batches, and Argo tidies up its pods when the workflow has ended."""
        last, count = None, {}
        while count != last:
            time.sleep(5)
            last, count = count, self.requests(name)
        return count

    def server(self):
        """Resident bytes and cpu seconds of the API server."""
        text = self.kubectl("get", "--raw", "/metrics")
        take = lambda name: float(re.search(rf"^{name} (\S+)$", text, re.M).group(1))  # noqa: E731
        return take("process_resident_memory_bytes"), take("process_cpu_seconds_total")
