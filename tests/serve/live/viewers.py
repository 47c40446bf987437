"""viewers.py URL PID N RUN: N connections to /api/v1/events that watch RUN; reads them all until the run has ended, and prints what the
server (PID) used for them: memory in KiB, cpu in ms, and the fewest and most task events that a viewer got. A line "ready" comes first."""

import json
import os
import selectors
import socket
import sys
from urllib.parse import urlsplit

where = urlsplit(sys.argv[1])
pid, n, run = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def memory():
    """Of the process alone, in KiB."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def cpu():
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


before, cpu_before = memory(), cpu()
selector = selectors.DefaultSelector()
viewers = {}
for _ in range(n):
    s = socket.create_connection((where.hostname, where.port), 30)
    s.sendall(f"GET /api/v1/events?run={run} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    selector.register(s, selectors.EVENT_READ)
    viewers[s] = {"tasks": 0, "rest": b"", "ended": False, "greeted": False}
greeted = left = n
most = before
while left:
    for key, _ in selector.select(120):
        v = viewers[key.fileobj]
        piece = key.fileobj.recv(1 << 20)
        assert piece, "a stream ended"
        if greeted and not v["greeted"] and b"id: " in piece:
            v["greeted"] = True
            greeted -= 1
            if not greeted:
                print("ready", flush=True)
        text = v["rest"] + piece
        v["tasks"] += text.count(b"event: task\n")
        # A frame may be cut anywhere; its beginning counts again only if it wasn't whole.
        cut = text.rfind(b"\n") + 1
        v["rest"] = text[cut:] if not text[cut:].startswith(b"event: task\n") else b""
        for line in text[:cut].split(b"\n"):
            if line.startswith(b'data: {"caused_by"') and b'"state":"running"' not in line:
                if json.loads(line[6:])["id"] == run and not v["ended"]:
                    v["ended"] = True
                    left -= 1
    most = max(most, memory())
tasks = [v["tasks"] for v in viewers.values()]
print(most - before, cpu() - cpu_before, min(tasks), max(tasks))
