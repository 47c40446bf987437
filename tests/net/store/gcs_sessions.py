"""tests/net/store/gcs_sessions.py DIR: resumable uploads of Google Cloud Storage's JSON API, as its documentation has them (fake-gcs-server takes the question how far an
upload came for its end). One bucket, in memory. DIR/port: where it listens; DIR/log: a line for each request: method, what, Content-Range, status.
While DIR/hold is there, the second and later chunks of a session get no answer and count for nothing.
"""
import http.server
import json
import os
import re
import sys
import time
import urllib.parse

OBJECTS, SESSIONS = {}, {}


class Storage(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, body=b"", **headers):
        with open(os.path.join(self.server.dir, "log"), "a", encoding="utf-8") as f:
            f.write(f"{self.command} {self.what} {self.headers.get('Content-Range', '-').replace(' ', '=')} {status}\n")
        self.send_response_only(status)
        for k, v in headers.items():
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def resource(self, name):
        return json.dumps({"name": name, "size": str(len(OBJECTS[name])), "generation": "7", "updated": "2026-01-02T03:04:05Z"}).encode()

    def answer(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.what = url.path.split("/")[1]
        if self.command == "POST" and query.get("uploadType") == "resumable":
            key = f"s{len(SESSIONS)}"
            SESSIONS[key] = {"name": query["name"], "data": b"", "chunks": 0}
            return self.say(200, Location=f"http://127.0.0.1:{self.server.server_address[1]}/session/{key}")
        if url.path.startswith("/session/"):
            return self.session(url.path.split("/")[2], body)
        m = re.fullmatch(r"/storage/v1/b/[^/]+/o/(.+)", url.path)
        name = m and urllib.parse.unquote(m.group(1))
        if self.command == "GET" and name in OBJECTS:
            if query.get("alt") != "media":
                return self.say(200, self.resource(name))
            first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "bytes=0-")).groups()
            data = OBJECTS[name][int(first):int(last) + 1 if last else None]
            total = len(OBJECTS[name])
            return self.say(206, data, **{"Content-Range": f"bytes {first}-{int(first) + len(data) - 1}/{total}", "x-goog-generation": "7"})
        return self.say(404)

    def session(self, key, body):
        s = SESSIONS.get(key)
        if s is None:
            return self.say(410)
        if self.command == "DELETE":
            del SESSIONS[key]
            return self.say(499)
        first, total = re.fullmatch(r"bytes (\*|\d+)(?:-\d+)?/(\d+)", self.headers["Content-Range"]).groups()
        if first != "*":
            s["chunks"] += 1
            if s["chunks"] > 1 and os.path.exists(os.path.join(self.server.dir, "hold")):
                with open(os.path.join(self.server.dir, "held"), "w", encoding="ascii"):
                    pass
                while os.path.exists(os.path.join(self.server.dir, "hold")):
                    time.sleep(0.02)
                self.close_connection = True
                return None
            if int(first) != len(s["data"]):
                return self.say(400)
            s["data"] += body
        if len(s["data"]) < int(total):
            return self.say(308, **({"Range": f"bytes=0-{len(s['data']) - 1}"} if s["data"] else {}))
        OBJECTS[s["name"]] = s["data"]
        return self.say(200, self.resource(s["name"]))

    do_GET = do_POST = do_PUT = do_DELETE = answer


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Storage)
    server.dir = sys.argv[1]
    os.makedirs(server.dir, exist_ok=True)
    with open(os.path.join(server.dir, "port.new"), "w", encoding="ascii") as f:
        f.write(f"{server.server_address[1]}\n")
    os.rename(os.path.join(server.dir, "port.new"), os.path.join(server.dir, "port"))
    server.serve_forever()


main()
