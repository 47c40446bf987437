"""roles.py URL FILE: asks every path that openapi.json names as nobody, viewer, operator and admin, with the tokens in FILE
(JSON: name to token), and compares who gets in with x-role. A path without a known role fails."""

import http.client
import json
import sys
from urllib.parse import urlsplit

ROLES = ["none", "viewer", "operator", "admin"]
where = urlsplit(sys.argv[1])
tokens = json.load(open(sys.argv[2]))


def ask(method, path, token=None, body=None):
    c = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        headers["Content-Type"] = "application/json"
    c.request(method, path, body, headers)
    answer = c.getresponse()
    stream = answer.getheader("Content-Type", "").startswith("text/event-stream")
    return answer.status, b"" if stream else answer.read()


status, text = ask("GET", "/api/v1/openapi.json", tokens["admin"])
assert status == 200, (status, text)
asked = 0
for path, methods in json.loads(text)["paths"].items():
    for method, operation in methods.items():
        need = operation.get("x-role")
        assert need in ROLES, f"{method} {path} has the role {need}"
        assert method == "get" or need != "viewer" or operation["operationId"] in ("view", "plan"), (
            f"{method} {path} changes something, or belongs into the list here: a viewer may ask it"
        )
        real = path
        for part in path.split("/"):
            if part.startswith("{"):
                real = real.replace(part, "none")
        body = b"{}" if "requestBody" in operation else None
        for have in ROLES:
            status, text = ask(method.upper(), real, tokens.get(have), body)
            if ROLES.index(have) >= ROLES.index(need):
                # A delivery proves itself: its 401 is about the signature.
                assert status not in (401, 403) or b"webhook" in text, (have, method, path, status, text)
            else:
                assert status == (401 if have == "none" else 403), (have, method, path, status, text)
            asked += 1
        if need != "none":
            status, text = ask(method.upper(), real, "wrong-" + tokens["admin"], body)
            assert status in (401, 429), (method, path, status)
print(f"asked {asked}")
