"""tests/net/hostile.py: an HTTP(S) server on loopback that has bad days. README.md says how to use it.

    python3 tests/net/hostile.py DIR [--upstream HOST:PORT]

It prints one line of JSON when it is ready (also DIR/ready), reads its rules from DIR/rules whenever that file has
changed, writes one line of JSON for each request to DIR/log, and ends when its standard input does.
Standard library only; certificates are made with the openssl program.
"""
import argparse
import asyncio
import collections
import fnmatch
import hashlib
import json
import os
import socket
import ssl
import struct
import subprocess
import sys

HEAD_MAX = 1 << 20
UPSTREAM_MAX = 64 << 20
REASONS = {100: "Continue", 200: "OK", 204: "No Content", 206: "Partial Content", 301: "Moved Permanently", 307: "Temporary Redirect",
           403: "Forbidden", 404: "Not Found", 412: "Precondition Failed", 500: "Internal Server Error", 503: "Slow Down"}
SLOW_DOWN = '<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'
INTERNAL = '<?xml version="1.0"?><Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>'
TEXT = "x" * 1000

# What a rule can say of an answer; anything else is an error in the rule.
KNOBS = {"status", "headers", "body", "length", "chunked", "cut", "how", "drip", "endless", "close", "hold", "read", "continue", "raw",
         "flip", "upstream"}
MATCHES = {"name", "method", "path", "query", "skip", "times"}

# /day/NAME: the bad days that need no rule.
DAYS = {
    "reset-accept": {"cut": "accept"},                  # after the request's headers, nothing more is read
    "reset-start": {"cut": "start"},                    # the request is read whole; no byte of an answer
    "reset-status": {"cut": "status"},                  # in the status line
    "reset-headers": {"cut": "headers"},
    "reset-body": {"cut": "body"},                      # half of it
    "reset-end": {"cut": "end"},                        # all but the last byte
    "close-start": {"cut": "start", "how": "close"},    # the same with an orderly end of the connection
    "close-status": {"cut": "status", "how": "close"},
    "close-headers": {"cut": "headers", "how": "close"},
    "close-body": {"cut": "body", "how": "close"},
    "close-end": {"cut": "end", "how": "close"},
    "length-over": {"length": 2000},                    # announces more than comes, and waits
    "length-over-close": {"length": 2000, "close": True},
    "length-under": {"length": 500},                    # announces less than comes
    "length-negative": {"length": -5},
    "length-words": {"length": "many"},
    "length-huge": {"length": 10**18},
    "length-twice": {"headers": {"Content-Length": "7"}},
    "length-none": {"length": None, "close": True},     # the body ends with the connection
    "length-none-reset": {"length": None, "cut": "end"},
    "chunked": {"chunked": "good"},
    "chunked-garbage": {"chunked": "garbage"},          # a size that is no number
    "chunked-huge": {"chunked": "huge"},                # a size over 64 bits
    "chunked-no-end": {"chunked": "no-end", "close": True},
    "chunked-trailer": {"chunked": "trailer"},
    "chunked-trailers": {"chunked": "trailers"},        # endless ones
    "endless-headers": {"endless": "headers"},
    "endless-header": {"endless": "header"},            # one line
    "endless-body": {"endless": "body"},
    "endless-error": {"endless": "body", "status": 500},
    "endless-continue": {"endless": "continue"},        # 100 Continue for ever
    "loris-headers": {"drip": [1, 20]},                 # a byte each 20 ms, from the status line on
    "loris-body": {"drip": [1, 20], "hold": "drip-body"},
    "hold-start": {"hold": "start"},                    # no byte, connection open
    "hold-headers": {"hold": "headers"},
    "hold-body": {"hold": "body"},
    "hold-read": {"hold": "read"},                      # doesn't read the request's body either
    "early-403": {"status": 403, "read": "head", "close": True},  # answers before the body, then closes
    "no-continue": {"continue": "never"},
    "refuse-continue": {"continue": "refuse", "status": 417, "close": True},
    "closes": {"close": "quiet"},                       # a good answer that promises to keep the connection; closes it
    "resets-after": {"close": "reset"},
    "redirect": {"status": 301, "headers": {"Location": "/day/redirect"}},
    "slow-down": {"status": 503, "body": SLOW_DOWN, "headers": {"Retry-After": "0"}},
    "error-200": {"status": 200, "body": INTERNAL},
    "not-http": {"raw": "SSH-2.0-OpenSSH_9.2\r\nsorry, wrong door\r\n"},
    "http09": {"raw": "just text, as in 1991\n"},
    "nul-header": {"raw": "HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n"},
    "bad-status": {"raw": "HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n"},
    "no-colon": {"raw": "HTTP/1.1 200 OK\r\nthis is no header\r\nContent-Length: 2\r\n\r\nok"},
    "folded": {"raw": "HTTP/1.1 200 OK\r\nX-A: one\r\n two: three\r\nContent-Length: 2\r\n\r\nok"},
    "bare-lf": {"raw": "HTTP/1.1 200 OK\nX-A: one\nContent-Length: 2\n\nok"},
    "switching": {"raw": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"},
    "gzip": {"headers": {"Content-Encoding": "gzip"}, "body": "not really gzip"},
    "flip": {"flip": 500},
}


class Left(Exception):
    """The client has gone, or this connection is to end."""


class Request:
    def __init__(self, head):
        lines = head.decode("latin-1").split("\r\n")
        self.raw = head
        self.method, self.target, self.version = (lines[0].split(" ") + ["", "", ""])[:3]
        target = self.target
        if "://" in target:  # absolute form: we are asked as a proxy
            target = "/" + target.split("://", 1)[1].partition("/")[2]
        self.path, _, self.query = target.partition("?")
        self.headers = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if colon:
                self.headers[name.strip().lower()] = value.strip()
        self.length = int(self.headers.get("content-length", "0") or 0)
        self.body = None  # (bytes, sha256) when it has been read
        self.kept = b""   # the bytes, where somebody wants them


class Rules:
    """DIR/rules: a JSON object a line; the first that matches counts."""

    def __init__(self, path):
        self.path, self.stamp, self.rules, self.counts = path, None, [], {}

    def refresh(self):
        try:
            st = os.stat(self.path)
        except FileNotFoundError:
            self.stamp, self.rules = None, []
            return
        stamp = (st.st_mtime_ns, st.st_size, st.st_ino)
        if stamp == self.stamp:
            return
        rules = []
        with open(self.path, encoding="utf-8") as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    rules.append(check_rule(json.loads(line)))
        self.stamp, self.rules, self.counts = stamp, rules, collections.Counter()

    def find(self, request):
        self.refresh()
        for i, rule in enumerate(self.rules):
            if not matches(rule, request):
                continue
            self.counts[i] += 1
            n = self.counts[i] - rule.get("skip", 0)
            if n >= 1 and n <= rule.get("times", n):
                return rule
        if request.path.startswith("/day/"):
            day = DAYS.get(request.path[5:].split("/")[0])
            return {"name": request.path[5:], **day} if day is not None else {"status": 404, "body": "no such day"}
        return None


def check_rule(rule):
    day = rule.pop("day", None)
    if day is not None:
        rule = {**DAYS[day], **rule}
    unknown = set(rule) - KNOBS - MATCHES
    if unknown:
        raise ValueError(f"unknown in a rule: {sorted(unknown)}")
    return rule


def matches(rule, request):
    return (rule.get("method", request.method) == request.method
            and fnmatch.fnmatchcase(request.path, rule.get("path", "*"))
            and rule.get("query", "") in request.query)


class Connection:
    """One client's connection: requests one after another."""

    def __init__(self, server, reader, writer, door):
        self.server, self.reader, self.writer, self.door = server, reader, writer, door
        self.id = server.next_id("connection")
        self.upstream = None

    async def serve(self):
        try:
            while True:
                head = await self.reader.readuntil(b"\r\n\r\n")
                await self.one(Request(head))
        except (Left, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            pass
        finally:
            if self.upstream:
                self.upstream[1].close()
            self.writer.close()

    async def one(self, q):
        if q.method == "CONNECT":
            self.server.log(self, q, None)
            return await self.tunnel(q)
        rule = self.server.rules.find(q)
        day = rule or {}
        if day.get("cut") != "accept" and day.get("read") != "head" and day.get("hold") != "read" and day.get("continue") != "refuse":
            await self.read_body(q, day)
        self.server.log(self, q, rule)
        if day.get("cut") == "accept":
            self.abort("reset")
        if day.get("hold") == "read":
            await self.hold(read=False)
        await self.answer(q, day, await self.content(q, rule))

    async def read_body(self, q, day):
        if q.headers.get("expect", "").lower() == "100-continue" and day.get("continue") != "never":
            await self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        left, digest, kept = q.length, hashlib.sha256(), []
        while left:
            piece = await self.reader.read(min(left, 1 << 20))
            if not piece:
                raise Left
            digest.update(piece)
            left -= len(piece)
            if self.server.upstream:
                kept.append(piece)
        q.body, q.kept = (q.length, digest.hexdigest()), b"".join(kept)

    async def content(self, q, rule):
        """Status, headers and body before the rule's knobs are turned."""
        if self.server.upstream and (rule is None or rule.get("upstream")):
            return await self.ask_upstream(q)
        status, headers, body = 200, {}, TEXT.encode()
        if rule is not None:
            pass
        elif q.path.startswith("/bytes/"):
            body = pattern(int(q.path[7:]))
        elif q.path == "/echo":
            body = q.raw
        elif q.path == "/sink":
            body = json.dumps(q.body).encode()
        else:
            status, body = 404, b"nothing here"
        headers["X-Connection"] = str(self.id)
        return status, headers, body

    async def ask_upstream(self, q):
        if not self.upstream:
            self.upstream = await asyncio.open_connection(*self.server.upstream, limit=HEAD_MAX)
        reader, writer = self.upstream
        head = q.raw
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:")]
        writer.write(b"\r\n".join(lines) + q.kept)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in head[1:] if line)
        low = {k.lower(): v for k, v in headers.items()}
        status = int(head[0].split(" ")[1])
        body = b"" if q.method == "HEAD" or status in (204, 304) else await self.upstream_body(reader, low)
        if low.get("connection", "").lower() == "close":
            writer.close()
            self.upstream = None
        drop = {"transfer-encoding", "connection"} | (set() if q.method == "HEAD" else {"content-length"})
        return status, {k: v for k, v in headers.items() if k.lower() not in drop}, body

    @staticmethod
    async def upstream_body(reader, headers):
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while True:
                n = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                body += (await reader.readexactly(n + 2))[:-2]
                if n == 0:
                    return body
        n = headers.get("content-length")
        if n is None:
            return await reader.read(UPSTREAM_MAX)
        return await reader.readexactly(min(int(n), UPSTREAM_MAX))

    async def answer(self, q, day, content):
        status, headers, body = content
        status = day.get("status", status)
        headers = {**headers, **day.get("headers", {})}
        if "body" in day:
            body = day["body"].encode()
        if "raw" in day:
            await self.send(day["raw"].encode("latin-1"))
            raise Left
        if "flip" in day and body:
            at = day["flip"] % len(body)
            body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1:]
        if "endless" in day:
            await self.endless(day["endless"], status)
        head, body = self.shape(q, day, status, headers, body)
        await self.deliver(day, head, body)
        if day.get("close") == "reset":
            await self.writer.drain()
            self.abort("reset")
        if day.get("close") or q.headers.get("connection", "").lower() == "close":
            raise Left
        if isinstance(day.get("length"), int) and day["length"] > len(body):
            await self.hold()  # what was announced never comes

    def shape(self, q, day, status, headers, body):
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'So')}"]
        lines += [f"{k}: {v}" for k, v in headers.items()]
        if "chunked" in day:
            lines.append("Transfer-Encoding: chunked")
            body = chunks(day["chunked"], body)
        elif status == 204:
            body = b""
        elif q.method == "HEAD" and any(k.lower() == "content-length" for k in headers):
            pass  # an upstream's own
        elif day.get("length", 0) is not None:
            lines.append(f"Content-Length: {day.get('length', len(body))}")
        if day.get("close") is True:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), b"" if q.method == "HEAD" else body

    async def deliver(self, day, head, body):
        cut, hold = day.get("cut"), day.get("hold")
        whole = head + body
        stops = {"start": 0, "status": 5, "headers": len(head) - 10, "body": len(head) + len(body) // 2, "end": len(whole) - 1}
        if hold == "drip-body":
            await self.send(head)
            whole = body
        if cut is not None or hold in stops:
            where = cut if cut is not None else hold
            whole = whole[:where if isinstance(where, int) else stops[where]]
        if "drip" in day:
            n, ms = day["drip"]
            for i in range(0, len(whole), n):
                await self.send(whole[i:i + n])
                await asyncio.sleep(ms / 1000)
        else:
            await self.send(whole)
        if cut is not None:
            await self.server.flushed(self.writer)
            self.abort(day.get("how", "reset"))
        if hold in stops:
            await self.hold()

    async def endless(self, what, status):
        start = f"HTTP/1.1 {status} OK\r\n".encode()
        piece = {"headers": b"".join(b"X-%d: %s\r\n" % (i, b"v" * 100) for i in range(100)), "header": b"v" * 10000,
                 "body": b"b" * 65536, "continue": b"HTTP/1.1 100 Continue\r\n\r\n" * 100}[what]
        if what == "header":
            start += b"X-Long: "
        if what == "body":
            start += b"Connection: close\r\n\r\n"
        await self.send(start if what != "continue" else b"")
        while True:
            await self.send(piece)

    async def hold(self, read=True):
        """Say nothing until the client leaves."""
        if not read:
            self.writer.transport.pause_reading()
            while not self.writer.is_closing():
                await asyncio.sleep(0.05)
                if not peer_is_there(self.writer):
                    break
            raise Left
        while await self.reader.read(65536):
            pass
        raise Left

    async def tunnel(self, q):
        """CONNECT: to our own TLS port, whatever host was asked for."""
        if self.server.proxy_status != 200:
            await self.send(f"HTTP/1.1 {self.server.proxy_status} No\r\nContent-Length: 0\r\n\r\n".encode())
            raise Left
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.ports["https"])
        await self.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(self.reader, writer), pump(reader, self.writer), return_exceptions=True)
        raise Left

    async def send(self, data):
        if data:
            self.writer.write(data)
            await self.writer.drain()

    def abort(self, how):
        if how == "reset":  # no lingering: RST
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        raise Left


def peer_is_there(writer):
    state = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return state[0] == 1  # TCP_ESTABLISHED


async def pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def pattern(n):
    """The n bytes of /bytes/n: each run of 8 says its own offset (big endian)."""
    return b"".join(struct.pack(">Q", i) for i in range(0, n, 8))[:n]


def chunks(kind, body):
    good = b"%x\r\n%s\r\n" % (len(body), body)
    return {"good": good + b"0\r\n\r\n", "garbage": good + b"zebra\r\n", "huge": b"fffffffffffffffff0\r\nabc", "no-end": good,
            "trailer": good + b"0\r\nX-Trailer: one \r\nx-trailer:two\r\n\r\n",
            "trailers": good + b"0\r\n" + b"X-Trailer: %s\r\n" % (b"t" * 1000) * 2000 + b"\r\n"}[kind]


class Server:
    def __init__(self, directory, upstream, proxy_status):
        self.dir, self.upstream, self.proxy_status = directory, upstream, proxy_status
        self.rules = Rules(os.path.join(directory, "rules"))
        self.log_file = open(os.path.join(directory, "log"), "a", encoding="utf-8")
        self.ports, self.ids = {}, collections.Counter()

    def next_id(self, of):
        self.ids[of] += 1
        return self.ids[of]

    def log(self, connection, q, rule):
        entry = {"n": self.next_id("request"), "connection": connection.id, "door": connection.door, "method": q.method, "target": q.target,
                 "headers": q.headers, "rule": rule and rule.get("name", "rule")}
        if q.body:
            entry["body_bytes"], entry["body_sha256"] = q.body
        self.log_file.write(json.dumps(entry) + "\n")
        self.log_file.flush()

    @staticmethod
    async def flushed(writer):
        """Until the kernel has what was written: a reset throws away what it hasn't sent."""
        while writer.transport.get_write_buffer_size():
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)

    async def open(self, door, context=None):
        async def client(reader, writer):
            await Connection(self, reader, writer, door).serve()
        server = await asyncio.start_server(client, "127.0.0.1", 0, ssl=context, limit=HEAD_MAX, backlog=4096)
        self.ports[door] = server.sockets[0].getsockname()[1]
        return server


def run(*argv):
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_certificates(d):
    """A CA, and by it: a good certificate, one for another name, an expired one; and one signed by itself."""
    def at(name):
        return os.path.join(d, name)

    def key(name):
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", at(name + ".key"))
    key("ca")
    run("openssl", "req", "-x509", "-new", "-key", at("ca.key"), "-subj", "/CN=hostile CA", "-days", "30", "-out", at("ca.pem"))
    for name, names, days in (("https", "DNS:localhost,IP:127.0.0.1", 30), ("wrong_name", "DNS:elsewhere.invalid", 30),
                              ("expired", "DNS:localhost,IP:127.0.0.1", -1)):
        key(name)
        with open(at("ext"), "w", encoding="ascii") as f:
            f.write(f"subjectAltName={names}\n")
        run("openssl", "req", "-new", "-key", at(name + ".key"), "-subj", "/CN=hostile", "-out", at("csr"))
        run("openssl", "x509", "-req", "-in", at("csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", str(days),
            "-extfile", at("ext"), "-out", at(name + ".pem"))
    key("self_signed")
    run("openssl", "req", "-x509", "-new", "-key", at("self_signed.key"), "-subj", "/CN=localhost", "-days", "30", "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", at("self_signed.pem"))


async def serve(args):
    server = Server(args.dir, args.upstream, args.proxy_status)
    doors = [await server.open("http")]
    ready = {"dir": args.dir}
    if not args.no_tls:
        make_certificates(args.dir)
        ready["ca"] = os.path.join(args.dir, "ca.pem")
        for door in ("https", "wrong_name", "expired", "self_signed"):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(os.path.join(args.dir, door + ".pem"), os.path.join(args.dir, door + ".key"))
            doors.append(await server.open(door, context))
    silent = socket.create_server(("127.0.0.1", 0))  # nobody accepts: connects, and never says a word
    refused = socket.create_server(("127.0.0.1", 0))
    ready.update(server.ports, silent=silent.getsockname()[1], refused=refused.getsockname()[1])
    refused.close()
    line = json.dumps(ready)
    with open(os.path.join(args.dir, "ready.new"), "w", encoding="utf-8") as f:
        f.write(line + "\n")
    os.rename(os.path.join(args.dir, "ready.new"), os.path.join(args.dir, "ready"))
    print(line, flush=True)
    if args.forever:
        await asyncio.Event().wait()
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, lambda: os.read(0, 4096) or gone.set())
    await gone.wait()
    os._exit(0)  # connections that are held open are no reason to wait, or to complain


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("--upstream", type=address, metavar="HOST:PORT", help="what no rule matches is asked there")
    p.add_argument("--proxy-status", type=int, default=200, help="what CONNECT is answered")
    p.add_argument("--no-tls", action="store_true")
    p.add_argument("--forever", action="store_true", help="don't end with standard input")
    args = p.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    try:
        asyncio.run(serve(args))
    except (KeyboardInterrupt, asyncio.CancelledError):
        pass


if __name__ == "__main__":
    sys.exit(main())
