"""slow.py URL: forty clients that send a byte a second, of headers or of a body; all must be closed within their time, and a quick
client be answered meanwhile."""

import selectors
import socket
import sys
import time
import urllib.request
from urllib.parse import urlsplit

where = urlsplit(sys.argv[1])
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
BODY = b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
clients = []
for n in range(40):
    s = socket.create_connection((where.hostname, where.port), 60)
    s.sendall(HEAD if n % 2 else BODY)
    s.setblocking(False)
    clients.append(s)

ready = selectors.DefaultSelector()
for s in clients:
    ready.register(s, selectors.EVENT_READ)
closed, begun = 0, time.monotonic()
while closed < len(clients) and time.monotonic() - begun < 180:
    for key, _ in ready.select(1.0):
        try:
            gone = key.fileobj.recv(4096) == b""
        except OSError:
            gone = True
        if gone:
            ready.unregister(key.fileobj)
            closed += 1
    for s in [k.fileobj for k in ready.get_map().values()]:
        try:
            s.send(b"a")
        except OSError:
            pass
    with urllib.request.urlopen(sys.argv[1] + "/healthz", timeout=60) as answer:
        assert answer.status == 200
print(f"closed {closed} of {len(clients)}")
sys.exit(closed != len(clients))
