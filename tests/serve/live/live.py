"""live.py URL DIRECTORY CAIRN: reads /api/v1/events while things happen, and checks what is told."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

where = urlsplit(sys.argv[1])
cairn = sys.argv[3]
os.chdir(sys.argv[2])


class Reader:
    """One connection; `events` grows while it is open."""

    def __init__(self, query="", last=None):
        self.events, self.ids, self.lines, self.ended = [], [], 0, False
        self.came = threading.Condition()
        self.c = http.client.HTTPConnection(where.hostname, where.port, timeout=240)
        self.c.request("GET", "/api/v1/events" + query, headers={"Last-Event-ID": last} if last else {})
        self.answer = self.c.getresponse()
        assert self.answer.status == 200, self.answer.status
        assert self.answer.getheader("Content-Type") == "text/event-stream"
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        event, data = None, None
        try:
            for line in self.answer:
                line = line.decode().rstrip("\n")
                with self.came:
                    self.lines += 1
                    if line.startswith("id: "):
                        self.ids.append(line[4:])
                    elif line.startswith("event: "):
                        event = line[7:]
                    elif line.startswith("data: "):
                        data = json.loads(line[6:])
                    elif line == "" and event:
                        self.events.append((event, data))
                        event = data = None
                    self.came.notify_all()
        except (OSError, http.client.HTTPException, AttributeError, ValueError):
            pass
        with self.came:
            self.ended = True
            self.came.notify_all()

    def wait(self, what, seconds=240):
        """Until an event comes for which what() holds."""
        until = time.monotonic() + seconds
        with self.came:
            while True:
                for e in self.events:
                    if what(*e):
                        return e[1]
                left = until - time.monotonic()
                assert left > 0 and not self.ended, f"it didn't come; these did: {self.events}"
                self.came.wait(left)

    def close(self):
        self.c.sock and self.c.sock.shutdown(2)


def run(*args):
    subprocess.run([cairn, "run", "-q", *args], check=True)


# A run begins, and ends; a second reader sees the same.
a, b = Reader(), Reader()
a_begins = threading.Thread(target=run, args=("wait.yaml",))
a_begins.start()
began = a.wait(lambda e, d: e == "run" and d["state"] == "running")
assert began["pipeline"] == "wait" and began["project"], began
assert b.wait(lambda e, d: e == "run" and d["id"] == began["id"])

# Its tasks, for who asks for them only.
tasks = Reader("?run=" + began["id"] + ",none")
assert tasks.wait(lambda e, d: e == "task" and d["state"] == "running")["task"] == "w"
open("go", "w").close()
a_begins.join()
done = tasks.wait(lambda e, d: e == "task" and d["state"] == "executed")
assert done["run"] == began["id"] and done["step"] == "w" and done["duration_ns"] > 0, done
ended = a.wait(lambda e, d: e == "run" and d["state"] == "succeeded")
assert ended["id"] == began["id"] and ended["counts"]["executed"] == 1, ended
b.wait(lambda e, d: e == "run" and d["state"] == "succeeded")
assert not any(e == "task" for e, d in a.events + b.events)

# The line breaks: what happened meanwhile comes, and nothing twice.
last = a.ids[-1]
a.close()
run("quick.yaml")
b.wait(lambda e, d: e == "run" and d["pipeline"] == "quick" and d["state"] == "succeeded")
again = Reader(last=last)
again.wait(lambda e, d: e == "run" and d["pipeline"] == "quick" and d["state"] == "succeeded")
assert not any(d.get("pipeline") == "wait" for e, d in again.events), again.events
assert not any(e == "reset" for e, d in again.events)

# An id of another server, or one that is gone.
for wrong in ("00000000-1", "nonsense", last.split("-")[0] + "-999999999", last.split("-")[0] + "--1"):
    Reader(last=wrong).wait(lambda e, d: e == "reset")

# Schedules.
c = http.client.HTTPConnection(where.hostname, where.port, timeout=240)
c.request("POST", "/api/v1/schedules/nightly/pause", headers={"Authorization": "Bearer " + os.environ["SERVE_TOKEN"]})
assert c.getresponse().status == 200
assert b.wait(lambda e, d: e == "schedule" and d["paused"])["schedule"] == "nightly"

# Nothing new: no event is told again.
n = len(b.events)
with b.came:
    lines = b.lines
    while b.lines == lines:  # the comment that keeps the line open
        assert b.came.wait(120), "no ping came"
assert not any(e in b.events[:n] for e in b.events[n:]), b.events[n:]
print("told")
