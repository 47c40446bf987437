#!/usr/bin/env python3
"""lossy.py DIR PORT: stands before a server at 127.0.0.1:PORT and passes requests on, but the answer of the first POST is lost with its connection. DIR/port: its own."""
import os
import socketserver
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

lost = []


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {k: v for k, v in self.headers.items() if k.lower() in ("authorization", "content-type")}
        request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[2]}{self.path}", data=body, headers=headers, method="POST")
        try:
            with urllib.request.urlopen(request) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as e:
            status, text = e.code, e.read()
        with open(os.path.join(sys.argv[1], "answers"), "ab") as out:
            out.write(text.strip() + b"\n")
        if not lost:
            lost.append(text)
            self.connection.close()
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


socketserver.TCPServer.allow_reuse_address = True
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(os.path.join(sys.argv[1], "port.tmp"), "w") as out:
    out.write(str(server.server_address[1]))
os.rename(os.path.join(sys.argv[1], "port.tmp"), os.path.join(sys.argv[1], "port"))
server.serve_forever()
