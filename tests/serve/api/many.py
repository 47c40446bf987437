"""many.py URL N: opens N connections, more than the server takes, and asks on each: those over the limit get 503."""

import socket
import sys
from urllib.parse import urlsplit

where = urlsplit(sys.argv[1])
clients = [socket.create_connection((where.hostname, where.port), 60) for _ in range(int(sys.argv[2]))]
statuses = []
for s in clients:
    s.settimeout(60)
    s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    statuses.append(s.recv(4096).split(b" ", 2)[1])
over = statuses.count(b"503")
assert set(statuses) <= {b"200", b"503"}, set(statuses)
print(f"503 for those over: {over}" if over else "all were taken")
