"""viewers.py URL PID N RUN: N connections to /api/v1/events that watch RUN; reads them all until the run has ended, and prints what the
server (PID) used for them: memory in KiB, cpu in ms, and the fewest and most task events that a viewer got before it was told the end of
the run. A line "ready" comes first.

It does as little as it can: where it shares the machine with the run, its own work would count as the server's."""

import json
import os
import selectors
import socket
import sys
import time
from urllib.parse import urlsplit

where = urlsplit(sys.argv[1])
pid, n, run = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
SAMPLE_S = 0.5


def memory():
    """Of the process alone, in KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def cpu():
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


class Viewer:
    """One stream. HTTP/1.0, so that its bytes come as they are, without chunks between them."""

    def __init__(self):
        self.socket = socket.create_connection((where.hostname, where.port), 30)
        self.socket.sendall(f"GET /api/v1/events?run={run} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        self.rest = b""
        self.tasks = 0
        self.greeted = self.ended = False

    def read(self):
        piece = self.socket.recv(1 << 20)
        assert piece, "a stream ended"
        self.greeted = self.greeted or b"id: " in piece
        self.rest += piece
        cut = self.rest.rfind(b"\n\n") + 2
        if cut < 2:
            return
        frames, self.rest = self.rest[:cut], self.rest[cut:]
        if b"event: run\n" not in frames:
            self.tasks += frames.count(b"event: task\n")
            return
        for frame in frames.split(b"\n\n"):
            if b"event: run\n" in frame and b'"state":"running"' not in frame:
                self.ended = self.ended or json.loads(frame[frame.index(b"data: ") + 6:])["id"] == run
            # A task that is told after the end of its run doesn't count.
            self.tasks += b"event: task\n" in frame and not self.ended


before, cpu_before = memory(), cpu()
selector = selectors.DefaultSelector()
viewers = [Viewer() for _ in range(n)]
for v in viewers:
    selector.register(v.socket, selectors.EVENT_READ, v)
left, ungreeted = n, n
most, sampled = before, time.monotonic()
while left:
    for key, _ in selector.select(120):
        v = key.data
        was_greeted, was_ended = v.greeted, v.ended
        v.read()
        left -= v.ended and not was_ended
        ungreeted -= v.greeted and not was_greeted
        if v.greeted and not was_greeted and not ungreeted:
            print("ready", flush=True)
    if time.monotonic() - sampled >= SAMPLE_S:
        most, sampled = max(most, memory()), time.monotonic()
most = max(most, memory())
tasks = [v.tasks for v in viewers]
print(most - before, cpu() - cpu_before, min(tasks), max(tasks))
