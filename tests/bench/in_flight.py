#!/usr/bin/env python3
"""tests/bench/in_flight.py [--cairn CAIRN] [TASKS…]: the engine's peak memory with so many one-pod tasks in flight at once, on an API server that plays a cluster
(tests/net/kubernetes/kubeapi.py): all pods run, and none of them ends. Each row is a run of its own."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
KUBEAPI = os.path.join(os.path.dirname(HERE), "net", "kubernetes", "kubeapi.py")
DEADLINE_S = 600
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%s/"}}]
users: [{name: u, user: {}}]
contexts: [{name: here, context: {cluster: c, user: u, namespace: lab}}]
"""
CAIRN = "store: ../store\nkubernetes: {kubeconfig: ../kubeconfig, image: 'fake@sha256:%s', store_claim: store, jobs: %d, requests: {per_second: 1000, burst: 1000}}\n"
PIPELINE = "pipeline: bench\ndefaults: {image: 'fake@sha256:%s', resources: {cpu: 100m, memory: 32Mi}}\nsteps:\n  t: {run: 'true # ${{ matrix.i }}', pack: 1, matrix: {i: [%s]}}\n"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def until(what):
    end = time.monotonic() + DEADLINE_S
    while not what():
        if time.monotonic() > end:
            raise SystemExit("it takes too long")
        time.sleep(0.2)


def lines(path):
    try:
        with open(path) as f:
            return sum(1 for _ in f)
    except OSError:
        return 0


def memory(pid, name):
    """In bytes: VmRSS, VmHWM."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name + ":"))


def settled(pid):
    """The memory once it doesn't change for two seconds: all pods are known."""
    last = []
    while len(last) < 10 or last[-10] != last[-1]:
        last.append(memory(pid, "VmRSS"))
        time.sleep(0.2)


def measure(work, program, tasks):
    api = os.path.join(work, "api")
    write(f"{api}/idle", "")
    write(f"{work}/p/cairn.yaml", CAIRN % ("0" * 64, tasks))
    write(f"{work}/p/pipeline.yaml", PIPELINE % ("1" * 64, ", ".join(map(str, range(tasks)))))
    os.makedirs(f"{work}/store")
    server = subprocess.Popen([sys.executable, KUBEAPI, api, "--cluster", f"{work}/store"], stdout=subprocess.DEVNULL)
    engine = None
    try:
        until(lambda: os.path.exists(f"{api}/port") and os.path.getsize(f"{api}/port"))
        with open(f"{api}/port") as f:
            write(f"{work}/kubeconfig", KUBECONFIG % f.read().strip())
        engine = subprocess.Popen([program, "-C", f"{work}/p", "run", "-q", "--on", "kubernetes"], env={**os.environ, "CAIRN_TRUST_ENDPOINTS": "*"})
        until(lambda: lines(f"{api}/pods") == tasks or engine.poll() is not None)
        settled(engine.pid)
        return memory(engine.pid, "VmHWM"), lines(f"{api}/made")
    finally:
        for process in filter(None, (engine, server)):
            process.kill()
            process.wait()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--cairn", default=os.environ.get("CAIRN", os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "cairn")))
    a.add_argument("tasks", type=int, nargs="*", default=[1000, 10000])
    args = a.parse_args()
    print("| tasks in flight | Jobs | peak memory |\n| --- | --- | --- |")
    for tasks in args.tasks:
        work = tempfile.mkdtemp(prefix="cairn-bench-")
        try:
            peak, jobs = measure(work, os.path.abspath(args.cairn), tasks)
            print(f"| {tasks:,} | {jobs:,} | {peak / 1e6:.1f} MB |", flush=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
