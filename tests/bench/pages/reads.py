"""What pages ask of a server, each many times: median and 99th percentile of the answers' times."""

import http.client
import os
import subprocess
import tempfile
import time

PATHS = [("runs, a page", "runs?limit=50"), ("runs, a page with columns", "runs?limit=50&metrics=accuracy,loss"), ("runs by text", "runs?q=lr%22%3A0.01&limit=50"),
         ("runs by text, none of them", "runs?q=nothing-has-this"), ("runs by param", "runs?param=lr%3D0.1"), ("runs by metric", "runs?metric=accuracy%3E%3D0.99"),
         ("runs, best first", "runs?sort=-accuracy"), ("a run", "runs/last"), ("its graph", "runs/last/graph"), ("its tasks", "runs/last/tasks"),
         ("its timeline", "runs/last/timeline"), ("compare two", "compare?runs=last,last"), ("lineage", "lineage?content={content}"), ("home", "home"),
         ("pipelines", "pipelines")]


def serve(cairn, folder):
    """The server of the project there, and its address."""
    out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
    env = {**os.environ, "CAIRN_SERVE_TOKEN": "0123456789abcdef0123456789abcdef"}
    process = subprocess.Popen([cairn, "serve", "--listen", "127.0.0.1:0"], cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT)
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        out.seek(0)
        text = out.read()
        if " serving " in text:
            return process, text.split("listening address=")[1].split()[0]
        time.sleep(0.02)
    process.kill()
    raise RuntimeError("the server didn't start: " + text)


def measure(cairn, folder, content, times=200):
    """[(what, median, 99th percentile)] in seconds."""
    process, address = serve(cairn, folder)
    rows = []
    try:
        connection = http.client.HTTPConnection(address, timeout=60)
        for what, path in PATHS:
            taken = []
            for i in range(times + 1):
                begun = time.monotonic()
                connection.request("GET", "/api/v1/" + path.format(content=content))
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"{path}: {answer.status}")
                if i:  # the first one opens files
                    taken.append(time.monotonic() - begun)
            taken.sort()
            rows.append((what, taken[len(taken) // 2], taken[int(len(taken) * 0.99)]))
    finally:
        process.terminate()
        process.wait()
    return rows
