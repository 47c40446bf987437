"""soak.py URL PID SECONDS RUNS TOKEN: keeps a server of `cairn serve` busy for so long: RUNS runs by trigger and by POST beside those of its own
schedules, reads of every kind, clients that leave, reloads. Samples its memory and descriptors and prints them; ends with 1 when descriptors
or memory grow from the middle third of the time to the last one. SOAK_SANITIZED: memory may grow (freed memory stays in quarantine)."""

import json
import os
import signal
import socket
import statistics
import sys
import time
import urllib.error
import urllib.request

url, pid, seconds, runs, token = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
PATHS = ["/api/v1/runs?limit=20", "/api/v1/runs/last", "/api/v1/runs/last/tasks", "/api/v1/runs/last/attempts", "/api/v1/runs/last/metrics", "/metrics", "/readyz",
         "/api/v1/schedules", "/api/v1/schedules/a/history", "/api/v1/schedules/a/next", "/api/v1/openapi.json", "/api/v1/runs/last/log?task=s", "/nope"]


def ask(path, body=None):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"} if body is not None else {}
    request = urllib.request.Request(url + path, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def sample():
    with open(f"/proc/{pid}/statm") as f:
        rss = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return rss, len(os.listdir(f"/proc/{pid}/fd"))


def leave():
    with socket.create_connection((url.split("//")[1].split(":")[0], int(url.rsplit(":", 1)[1])), 10) as s:
        s.sendall(b"GET /api/v1/runs/last/log?task=s&follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n")


begun, started, refused, samples, turn, series = time.monotonic(), 0, 0, [], 0, 0.0
while time.monotonic() - begun < seconds or started < runs:
    now = time.monotonic() - begun
    if now > 3 * seconds + 60:
        sys.exit(f"only {started} of {runs} runs were started")
    turn += 1
    if started < runs and started <= runs * now / seconds:
        status, answer = ask("/api/v1/runs", json.dumps({"params": {"n": started}}).encode()) if turn % 2 else ask("/api/v1/schedules/b/trigger", b"")
        assert status in (202, 429), (status, answer)
        started += status == 202
        refused += status == 429
    status, answer = ask(PATHS[turn % len(PATHS)])
    assert status in (200, 404), (status, answer)
    if turn % 10 == 0:
        leave()
    if turn % 100 == 0:
        os.kill(pid, signal.SIGHUP)
    if now >= series:
        series = now + max(1.0, seconds / 60)
        samples.append(sample())
        print("%6.0f s  %7.1f MiB  %3d descriptors  %4d runs" % (now, samples[-1][0] / 2**20, samples[-1][1], started), flush=True)
    time.sleep(0.005 if started <= runs * now / seconds else 0.05)

third = len(samples) // 3
middle, last = samples[third:2 * third], samples[2 * third:]
rss = [statistics.median(s[0] for s in part) / 2**20 for part in (middle, last)]
fds = [statistics.median(s[1] for s in part) for part in (middle, last)]
print(f"{started} runs, {refused} refused, {turn} requests; memory {rss[0]:.1f} -> {rss[1]:.1f} MiB, descriptors {fds[0]:.0f} -> {fds[1]:.0f}")
if fds[1] > fds[0] + 8:
    sys.exit("descriptors grow")
if rss[1] > rss[0] * 1.1 + 4 and not os.environ.get("SOAK_SANITIZED"):
    sys.exit("memory grows")
