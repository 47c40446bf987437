"""hostile.py URL TOKEN [SEED [REQUESTS]]: throws hostile parameters and bodies at every path of the server's openapi.json.
Captures are real runs and contents, or hostile. Fails when an answer is a 5xx, isn't JSON where it says so, or doesn't come."""

import http.client
import json
import random
import sys
import time
import urllib.parse

HOSTILE = ["", "(a+)+$", "0", "-1", "1", "9" * 30, "9223372036854775807", "-9223372036854775808", "4611686018427387903", "1e9", "NaN", "a" * 5000, "../../../etc/passwd", "/etc/passwd", "..",
           ".", "//", "a\0b", "%00", b"\xff\xfe", "<script>alert(1)</script>", "'; DROP TABLE run; --", "%s%n%x", "${jndi:x}", "\u202e", "\ud83d\ude00", "[", "s[x=1",
           "s]", "*", "last", "last,last", ",".join(["last"] * 80), "true", "null", "{}", "[]", "sha256:", "sha256:" + "0" * 64, "f" * 64, "lr>", "acc>=0.1", "-acc", "2031-01-01T00:00:00Z",
           "0001-01-01", "9999-12-31", "s", "t", "o", "%", "_", "\\", "a\nb"]
# Regular expressions that try for ever, or want all memory, where nothing bounds them.
ENDLESS = ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*)*x", "(?:(?:a*)*)*b", "(a*)*\\1b", "(?R)", "(?=(a+))\\1+b", "a{1,1000}{1,1000}b", "(?:a?){900}a{900}b", "(((((a*)*)*)*)*)*b",
           "(?<=a{60})(a+)+b", "(*NO_START_OPT)(a+)+b", "(*LIMIT_MATCH=4294967295)(a+)+$"]
ENDLESS_MAX_S = 5  # of an answer: half a second, and what a busy machine with sanitizers adds
BODIES = [b"", b"{", b"[]", b"null", b'{"run": "last"}', b'{"run": 1}', b'{"task": "s", "approve": true}', b'{"pipeline": "../x.yaml"}', b'{"params": {"n": "' + b"x" * 4000 + b'"}}',
          b'{"steps": ["a[x"]}', b'{"a": 1, "a": 2}', b'"\xff"', b"[" * 2000, b'{"run": "\\u0000"}', b'{"now": 3}']
# What would start processes by the hundred.
NOT = {"startRun", "startPlan", "reproduce", "resumeRun", "handOver", "triggerSchedule"}


def quoted(value):
    return urllib.parse.quote(value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass"), safe="")


class Server:
    def __init__(self, url, token):
        self.host, self.token = urllib.parse.urlsplit(url).netloc, token
        self.connection = None

    def ask(self, method, path, body=None):
        headers = {"Authorization": "Bearer " + self.token}
        if body is not None:
            headers["Content-Type"] = "application/json"
        for again in (False, True):
            try:
                if not self.connection:
                    self.connection = http.client.HTTPConnection(self.host, timeout=60)
                self.connection.request(method, path, body, headers)
                answer = self.connection.getresponse()
                if (answer.getheader("Content-Type") or "").startswith("text/event-stream"):  # it has no end
                    self.connection.close()
                    self.connection = None
                    return answer.status, "text/event-stream", b""
                return answer.status, answer.getheader("Content-Type") or "", answer.read()
            except (http.client.HTTPException, OSError):
                self.connection = None
                if again:
                    raise
        return None


def real_values(server):
    def get(path):
        return json.loads(server.ask("GET", "/api/v1/" + path)[2])

    runs = [r["id"] for r in get("runs")["runs"]]
    contents = [o["id"] for t in get("runs/last/tasks")["tasks"] for o in t["outputs"].values() if o]
    return {"run": runs + ["last"], "content": contents or ["none"], "schedule": ["yearly"], "launch": ["none"], "plan": ["none"], "hook": ["none"]}, contents


def search_for_ever(server, run):
    """Searches the log of `s`, which has lines of many a's, by each of ENDLESS. Returns what is wrong."""
    wrong = []
    for q in ENDLESS:
        begun = time.monotonic()
        status, _, text = server.ask("GET", f"/api/v1/runs/{run}/log/search?task=s&regex=true&q={quoted(q)}")
        took = time.monotonic() - begun
        if status not in (200, 400):
            wrong.append(f"{status} for the expression {q}: {text[:200]!r}")
        if took > ENDLESS_MAX_S:
            wrong.append(f"the expression {q} took {took:.1f} s")
    return wrong


def main():
    server = Server(sys.argv[1], sys.argv[2])
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    many = int(sys.argv[4]) if len(sys.argv) > 4 else 40
    real, contents = real_values(server)
    spec = json.loads(server.ask("GET", "/api/v1/openapi.json")[2])
    asked, by_status, wrong = 0, {}, search_for_ever(server, real["run"][-2])
    for path, methods in sorted(spec["paths"].items()):
        for method, operation in sorted(methods.items()):
            if operation["operationId"] in NOT:
                continue
            for _ in range(many):
                target, query = path, []
                for p in operation.get("parameters", []):
                    hostile = rng.choice(HOSTILE)
                    if p["in"] == "path":
                        good = real.get(p["name"], ["x"])
                        target = target.replace("{%s}" % p["name"], quoted(rng.choice(good) if rng.random() < 0.7 else hostile or "x"))
                    elif p["name"] not in ("project", "follow") and rng.random() < 0.5:
                        choices = p["schema"].get("enum") or (["s", "t"] if p["name"] == "task" else contents if p["name"] == "content" else ["1"])
                        query.append(p["name"] + "=" + quoted(rng.choice(choices) if rng.random() < 0.5 and choices else hostile))
                target += "?" + "&".join(query) if query else ""
                body = rng.choice(BODIES) if method in ("post", "put", "delete") else None
                status, kind, text = server.ask(method.upper(), target, body)
                asked += 1
                by_status[status] = by_status.get(status, 0) + 1
                if status >= 500:
                    wrong.append(f"{status} {method} {target[:300]}: {text[:200]!r}")
                elif "json" in kind and status != 204:
                    try:
                        json.loads(text)
                    except ValueError as e:
                        wrong.append(f"no JSON: {method} {target[:300]}: {e}")
    print(f"{asked} requests: " + ", ".join(f"{n} × {s}" for s, n in sorted(by_status.items())))
    for line in wrong[:20]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
