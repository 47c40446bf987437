#!/usr/bin/env python3
"""A web server with files, for tests of inputs by URL.

usage: files.py DIR READY LOG [CERT KEY]

READY gets the port as soon as it listens; LOG one line a request: "METHOD PATH STATUS RANGE". The first part of a path says how the file that the rest
names is served:

    etag     with an ETag of its bytes; keeps to If-Match and to ranges
    weak     with a weak ETag
    dated    with Last-Modified alone
    bare     with neither
    nohead   as etag, but HEAD is 403
    nolength as etag, but without a length (the connection's end is the end)
    ignores  with an ETag, but whatever is asked for: neither ranges nor conditions
    short    says the whole length and closes after half of it
    signed   as etag, but only with ?X-Amz-Signature=good
    to       302 to /etag/…; loop: to itself; far: to http://example.invalid/
    deny     403
"""
import hashlib
import http.server
import os
import ssl
import sys
import threading
import urllib.parse

root, ready, log = sys.argv[1:4]
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def note(self, status):
        with lock, open(log, "a") as f:
            f.write(f"{self.command} {self.path} {status} {self.headers.get('Range', '-')}\n")

    def answer(self, status, headers, body=b"", length=True, cut=None):
        self.note(status)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if length:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        kind, _, name = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        if kind in ("to", "loop", "far"):
            where = {"to": f"/etag/{name}", "loop": self.path, "far": "http://example.invalid/x"}[kind]
            return self.answer(302, {"Location": where})
        if kind == "deny" or (kind == "nohead" and self.command == "HEAD"):
            return self.answer(403, {})
        if kind == "signed" and "X-Amz-Signature=good" not in url.query:
            return self.answer(403, {})
        try:
            with open(os.path.join(root, name), "rb") as f:
                body = f.read()
        except OSError:
            return self.answer(404, {})
        tag = '"' + hashlib.sha256(body).hexdigest()[:16] + '"'
        headers = {"ETag": "W/" + tag if kind == "weak" else tag}
        if kind in ("dated", "bare"):
            headers = {"Last-Modified": self.date_time_string(int(os.stat(os.path.join(root, name)).st_mtime))} if kind == "dated" else {}
        if kind != "ignores" and self.headers.get("If-Match", tag) != tag:
            return self.answer(412, {})
        if kind == "short":
            return self.answer(200, headers, body, cut=len(body) // 2 if self.command == "GET" else None)
        span = self.headers.get("Range")
        if span and kind not in ("ignores", "nolength"):
            first, last = span.removeprefix("bytes=").split("-")
            if int(first) >= len(body):
                return self.answer(416, headers)
            last = min(int(last), len(body) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
            return self.answer(206, headers, body[int(first):last + 1])
        self.answer(200, headers, body, length=kind != "nolength")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
if len(sys.argv) > 4:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[4], sys.argv[5])
    server.socket = context.wrap_socket(server.socket, server_side=True)
with open(ready + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(ready + ".new", ready)
server.serve_forever()
