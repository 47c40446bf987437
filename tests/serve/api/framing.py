"""framing.py PORT: requests whose bytes two readers could take for different ones are refused, and the connection ends.

Each row: what it is, the bytes, the statuses that must come, and whether the server then closes the connection."""

import re
import socket
import sys

GET = b"GET /healthz HTTP/1.1\r\n"
NEXT = b"GET /api/v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
HOST = b"Host: localhost\r\n"
ROWS = [
    ("one plain request", GET + HOST + b"\r\n", [200], False),
    ("two in a row", GET + HOST + b"\r\n" + GET + HOST + b"\r\n", [200, 200], False),
    ("two different lengths", GET + HOST + b"Content-Length: 0\r\nContent-Length: 60\r\n\r\n" + NEXT, [400], True),
    ("two equal lengths", GET + HOST + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n" + NEXT, [400], True),
    ("a list of lengths", GET + HOST + b"Content-Length: 0, 0\r\n\r\n" + NEXT, [400], True),
    ("a signed length", GET + HOST + b"Content-Length: +0\r\n\r\n" + NEXT, [400], True),
    ("a length in hex", GET + HOST + b"Content-Length: 0x0\r\n\r\n" + NEXT, [400], True),
    ("an empty length", GET + HOST + b"Content-Length:\r\n\r\n" + NEXT, [400], True),
    ("length and chunked", GET + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + NEXT, [400], True),
    ("chunked twice", GET + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + NEXT, [400], True),
    ("another encoding", GET + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + NEXT, [400], True),
    ("an unknown encoding", GET + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + NEXT, [400], True),
    ("chunked in 1.0", b"GET /healthz HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [400], True),
    ("two hosts", GET + HOST + b"Host: example.org\r\n\r\n" + NEXT, [400], True),
    ("two equal hosts", GET + HOST + HOST + b"\r\n" + NEXT, [400], True),
    ("no host", GET + b"\r\n" + NEXT, [400], True),
    ("a blank before the colon", GET + HOST + b"Content-Length : 60\r\n\r\n" + NEXT, [400], True),
]


def answers(port, data, closes):
    """The statuses that came, and whether the server closed the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        s.sendall(data)
        got, closed = b"", False
        s.settimeout(60 if closes else 2)
        try:
            while True:
                more = s.recv(65536)
                if not more:
                    closed = True
                    break
                got += more
        except TimeoutError:
            pass
        except ConnectionResetError:
            closed = True
    return [int(m) for m in re.findall(rb"HTTP/1\.[01] (\d{3}) ", got)], closed


wrong = 0
for what, data, statuses, closes in ROWS:
    seen, closed = answers(int(sys.argv[1]), data, closes)
    # What libmicrohttpd itself refuses is answered for each line that it still finds: nothing but 400 may come.
    if (sorted(set(seen)) if closes else seen) != statuses or closed != closes:
        print(f"{what}: {seen}, {'closed' if closed else 'open'}; wanted {statuses}, {'closed' if closes else 'open'}")
        wrong += 1
sys.exit(wrong > 0)
