#!/usr/bin/env python3
"""Contenders for one Lease, each a process, and what befalls them: never do two hold it at once, and somebody gets it again each time.

    lease_contest.py KUBE-TOOL API-DIR ROUNDS SEED

A round: the holder is killed, stopped for longer than the lease lasts, told to end, or cut off from its API server (through a relay of its own). "At once" is by what they
say, on one machine's clock: from `held` to `lost`, `ending`, or the moment when it was killed or stopped.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

TOOL, API, ROUNDS, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
DURATION, WITHIN, RETRY = 2000, 1200, 150
port = int(open(f"{API}/port").read())
rnd = random.Random(SEED)
spans = []  # (from, to, who)
news = threading.Condition()


class Relay:
    """Between one contender and the server; `cut` drops what is there and lets nothing new through."""

    def __init__(self):
        self.cut, self.open = False, set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            a, _ = self.listener.accept()
            b = socket.create_connection(("127.0.0.1", port))
            self.open |= {a, b}
            for x, y in ((a, b), (b, a)):
                threading.Thread(target=self.pump, args=(x, y), daemon=True).start()

    def pump(self, x, y):
        try:
            while data := x.recv(65536):
                while self.cut:  # a network that is gone says nothing
                    time.sleep(0.02)
                y.sendall(data)
        except OSError:
            pass
        x.close()
        y.close()


class Contender:
    def __init__(self, name):
        self.name, self.held, self.over, self.relay = name, None, False, Relay()
        config = f"{API}/{name}.config"
        with open(config, "w") as out:
            out.write(f'clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{self.relay.port}"}}}}]\n'
                      "contexts: [{name: x, context: {cluster: c, namespace: lab}}]\ncurrent-context: x\n")
        self.process = subprocess.Popen([TOOL, "lease", "contest", name, str(DURATION), str(WITHIN), str(RETRY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, "KUBECONFIG": config})
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            with news:
                if words[1] == "held":
                    self.held = float(words[0])
                elif words[1] in ("lost", "ending"):  # as it says, not when we read it
                    self.end(float(words[0]))
                    self.over = words[1] == "lost"
                news.notify_all()

    def end(self, at):
        if self.held:
            spans.append((self.held, at, self.name))
            self.held = None


def holder(contenders):
    """Waits until somebody has it, and a while more, so that some renewals happen."""
    with news:
        if not news.wait_for(lambda: any(c.held for c in contenders), timeout=60):
            sys.exit("nobody holds it")
        return next(c for c in contenders if c.held)


def strike(c, how):
    if how == "kill":
        with news:
            c.process.kill()
            c.end(time.monotonic() * 1000)
    elif how == "stop":
        with news:
            os.kill(c.process.pid, signal.SIGSTOP)
            c.end(time.monotonic() * 1000)
        time.sleep(DURATION * 1.5 / 1000)  # the world goes on without it
        os.kill(c.process.pid, signal.SIGCONT)
        with news:
            if not news.wait_for(lambda: c.over, timeout=30):
                sys.exit(f"{c.name} was stopped for longer than its lease lasts, and doesn't say that it lost it")
    elif how == "cut":
        c.relay.cut = True
        with news:
            if not news.wait_for(lambda: c.over, timeout=30):
                sys.exit(f"{c.name} is cut off, and doesn't say that it lost it")
    else:
        c.process.stdin.close()
    c.process.kill() if how != "end" else c.process.wait(30)


contenders = [Contender(f"c{i}") for i in range(3)]
seen = set()
for n in range(ROUNDS):
    c = holder(contenders)
    how = ("kill", "stop", "cut", "end")[n % 4] if n < 4 else rnd.choice(("kill", "stop", "cut", "end"))
    time.sleep(rnd.uniform(0, 0.4))
    strike(c, how)
    seen.add(how)
    c.process.wait(30)
    contenders[contenders.index(c)] = Contender(f"c{len(spans) + 3}x{n}")
last = holder(contenders)
with news:
    for c in contenders:
        c.end(time.monotonic() * 1000)
        c.process.kill()
spans.sort()
for a, b in zip(spans, spans[1:]):
    if b[0] < a[1]:
        sys.exit(f"two at once: {a} and {b}")
print(f"{len(spans)} holders, one at a time; {' '.join(sorted(seen))}")
