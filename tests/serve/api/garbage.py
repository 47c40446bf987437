"""garbage.py URL: bytes that are no requests, requests that stop in the middle, and clients that leave. Seeded: the same each time."""

import random
import socket
import sys
from urllib.parse import urlsplit

where = urlsplit(sys.argv[1])
seeded = random.Random(7)
SEEDS = [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
         b"GET /api/v1/runs?limit=1 HTTP/1.0\r\n\r\n", b"GET /%00%ff/../..//api HTTP/1.1\r\nHost: localhost\r\n\r\n",
         b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
         b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
         b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
         b"GET /api/v1/runs/last/log?task=s&follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n"]


def mutated(data):
    data = bytearray(data)
    for _ in range(seeded.randrange(6)):
        at = seeded.randrange(len(data))
        kind = seeded.randrange(3)
        if kind == 0:
            data[at] = seeded.randrange(256)
        elif kind == 1:
            del data[at:at + seeded.randrange(1, 8)]
        else:
            data[at:at] = bytes(seeded.randrange(256) for _ in range(seeded.randrange(1, 8)))
        if not data:
            return b"\r\n"
    return bytes(data)


for i in range(600):
    with socket.create_connection((where.hostname, where.port), 60) as s:
        try:
            s.sendall(mutated(SEEDS[i % len(SEEDS)]))
            if i % 3 == 0:
                s.shutdown(socket.SHUT_WR)
                s.settimeout(0.05)
                answer = s.recv(65536)
                assert b" 500 " not in answer[:64], answer
        except (BrokenPipeError, ConnectionResetError, socket.timeout):
            pass
