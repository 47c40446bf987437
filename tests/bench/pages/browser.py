"""The web interface in a real browser, on a project of many runs, a run of many tasks, a large log; and what many viewers cost a run."""

import glob
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request

import graphs
from pages import lineage_db, reads
from measure import once

HERE = os.path.dirname(os.path.abspath(__file__))
LINE = "epoch 17, batch 2048: loss 0.4312, accuracy 0.8715, 1204 images/s\n"
VIEWERS = 200
# What a task of the watched run computes: 50 ms, so that the run is long enough to tell 5 % of it.
WORK = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; "


def modules():
    """Where the packages of web/ are, as the tests find them."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cairn-web", "*", "node_modules")
    places = [os.path.join(HERE, "..", "..", "..", "web", "node_modules"), *glob.glob(cache)]
    return next((p for p in places if os.path.exists(os.path.join(p, "playwright-core", "package.json"))), None)


def look(url, jobs):
    """[{seconds, longest_ms}] of the jobs (browser.mjs)."""
    env = {**os.environ, "WEB_MODULES": modules(), "CHROMIUM": shutil.which("chromium")}
    got = subprocess.run(["node", os.path.join(HERE, "browser.mjs"), url, json.dumps(jobs)], env=env, capture_output=True, text=True, check=False)
    if got.returncode != 0:
        raise RuntimeError("the browser: " + got.stderr.strip()[-500:])
    return [json.loads(line) for line in got.stdout.splitlines()]


def ask(url, path):
    with urllib.request.urlopen(f"{url}/api/v1/{path}", timeout=60) as answer:
        return json.load(answer)


def newest(url, pipeline, seconds=60):
    """The id of the newest run of that pipeline, once it has begun."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        runs = ask(url, f"runs?pipeline={pipeline}&state=running&limit=1")["runs"]
        if runs:
            return runs[0]["id"]
        time.sleep(0.02)
    raise RuntimeError(f"no run of {pipeline} began")


def write(folder, name, text):
    with open(os.path.join(folder, name), "w") as f:
        f.write(text)


def go(folder):
    return os.path.join(folder, "go")


def begin(bench, url, folder, n, work="", before=()):
    """Starts a run of n tasks, 100 at most along an axis, that wait for go() and do `work`. Returns its process and its id."""
    if os.path.exists(go(folder)):
        os.unlink(go(folder))
    write(folder, "many.yaml", f"pipeline: many\nparams: {{salt: {{type: string, default: '{time.time()}'}}}}\nsteps:\n"
          f"  begin: {{run: \"while [ ! -e '{go(folder)}' ]; do sleep 0.01; done\", cache: false}}\n"
          f"  t:\n    needs: [begin]\n    matrix: {{a: {json.dumps(list(range(100)))}, b: {json.dumps(list(range(n // 100)))}}}\n"
          f"    run: \"{work}true ${{{{ params.salt }}}} ${{{{ matrix.a }}}} ${{{{ matrix.b }}}}\"\n"
          "  end: {needs: [t], run: \"true\"}\n")
    process = subprocess.Popen([*before, bench.cairn, "run", "-q", "many.yaml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process, newest(url, "many")


def pages(bench, url, folder, n):
    count = f"{lineage_db.RUNS * bench.args.artifacts // 1000000:,}"
    first, runs = look(url, [{"path": "/", "css": ".card", "rounds": 5}, {"path": "/runs", "css": ".vrow a.name", "rounds": 5}])
    for what, got in (("home", first), ("runs", runs)):
        bench.row(f"web: first page, {what}, with {count} runs", f"{got['seconds'] * 1000:.0f} ms", "", "", "1 s", got["seconds"] <= 1)
    # Who looks does so from a machine of their own; here the run takes all cores, and a task of the page
    # that computes for 15 ms would seem to last as long as it had to wait for one.
    run, name = begin(bench, url, folder, n, before=("nice", "-n", "15"))
    write(folder, "go", "")
    try:
        live, = look(url, [{"path": f"/runs/{name}", "css": "[role=treeitem]", "rounds": 1, "until": {"css": ".pill", "text": "Succeeded"}}])
    finally:
        run.wait()
    ended, = look(url, [{"path": f"/runs/{name}", "css": "[role=treeitem]", "rounds": 5}])
    bench.row(f"web: page of a run of {n} tasks", f"{ended['seconds'] * 1000:.0f} ms", "", "", "1.5 s", ended["seconds"] <= 1.5)
    bench.row("web: the same, while it is live", f"{live['seconds'] * 1000:.0f} ms", "", "", "1.5 s", live["seconds"] <= 1.5)
    bench.row("web: longest task of the browser's thread meanwhile", f"{live['longest_ms']} ms", "", "", "100 ms", live["longest_ms"] <= 100)


def log(bench, url, folder, mib):
    write(folder, "log.yaml", f"pipeline: log\nsteps:\n  talk: {{run: \"yes '{LINE.strip()}' | head -c {mib}M; echo; echo the end of it\"}}\n")
    once([bench.cairn, "run", "-q", "log.yaml"], folder, bench.log)
    run = ask(url, "runs?pipeline=log&limit=1")["runs"][0]["id"]
    got, = look(url, [{"path": f"/runs/{run}/tasks/talk?tab=log", "css": ".logline", "text": "the end of it", "rounds": 5}])
    bench.row(f"web: a log of {mib} MiB, at its end", f"{got['seconds'] * 1000:.0f} ms", "", "", "500 ms", got["seconds"] <= 0.5)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def viewed(bench, url, pid, folder, n, viewers):
    """Seconds of a run of n tasks, the server's cpu seconds meanwhile, and its memory in KiB for those who watch."""
    run, name = begin(bench, url, folder, n, WORK)
    watch = None
    if viewers:
        script = os.path.join(HERE, "..", "..", "serve", "live", "viewers.py")
        watch = subprocess.Popen([sys.executable, "-B", script, url, str(pid), str(viewers), name], stdout=subprocess.PIPE, text=True)
        watch.stdout.readline()  # "ready"
    begun, computed = time.monotonic(), cpu_seconds(pid)
    write(folder, "go", "")
    run.wait()
    seconds, computed = time.monotonic() - begun, cpu_seconds(pid) - computed
    return seconds, computed, int(watch.communicate()[0].split()[0]) if watch else 0


def crowd(bench, url, pid, folder, n):
    """Medians of three runs each. The ratio is of what the server computes for its viewers, as if the run waited for all of it: the time of
    a run varies by more than 5 % by itself, and those who watch compute here, too."""
    alone, watched = [], []
    for _ in range(3):
        alone.append(viewed(bench, url, pid, folder, n, 0))
        watched.append(viewed(bench, url, pid, folder, n, VIEWERS))
    seconds, quiet, asked = (sorted(v)[1] for v in ([a[0] for a in alone], [a[1] for a in alone], [w[1] for w in watched]))
    ratio, memory = 1 + (asked - quiet) / seconds, max(w[2] for w in watched)
    bench.row(f"web: a run of {n} tasks of 50 ms with {VIEWERS} live viewers", f"{asked:.2f} s of the server's cpu",
              f"nobody looks {quiet:.2f} s; the run {seconds:.2f} s", f"{ratio:.2f}", "≤ 1.05", ratio <= 1.05)
    bench.row(f"web: memory of the server for {VIEWERS} viewers", f"{memory / 1024:.0f} MiB", "", "", "50 MB", memory * 1024 <= 50e6)


def measure(bench):
    if not (bench.cairn and modules() and shutil.which("node") and shutil.which("chromium")):
        bench.row("web: first page, with 100k runs", "not measured", "needs cairn, node, chromium and the packages of web/", "", "1 s", None)
        return
    folder = bench.folder()
    graphs.cairn_steps(folder, 2)
    once(bench.cairn_run(), folder, bench.log)
    lineage_db.fill(os.path.join(folder, ".cairn", "cairn.db"), bench.args.artifacts)
    process, address = reads.serve(bench.cairn, folder)
    url = f"http://{address}"
    try:
        pages(bench, url, folder, bench.args.run_tasks)
        log(bench, url, folder, 1024 if bench.args.full or bench.args.artifacts >= 1000000 else 16)
        crowd(bench, url, process.pid, folder, max(100, bench.args.run_tasks // 2000 * 100))
    finally:
        process.terminate()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
