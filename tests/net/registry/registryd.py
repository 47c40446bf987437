#!/usr/bin/env python3
"""A container registry in memory that lies on request: registryd.py DIR.

Prints nothing; DIR/port has three ports when it is ready: the registry's, one elsewhere, and the registry's over TLS (DIR/cert.pem, DIR/key.pem). DIR/mode holds what is wrong, words on lines, read with each request; DIR/log gets
a line a request: door, method, path, how it was authorised.

    token           asks for a token: user u, password p, or the refresh token R; `token-once`: each is good for one request
    realm=URL       … from there
    basic           asks for u:p; `forbids`: 403 to others instead of 401
    body=X          manifests are other bytes than their digest says; `header`: Docker-Content-Digest is another; `no-header`: there is none; `no-head`: HEAD isn't known
    huge            manifests are 5 MiB; `rubbish`: no JSON; `index`: an index with linux/amd64 and linux/arm64
    busy=N          the first N requests are answered 429; `down=N`: 503; `cut=N`: the connection ends
    away            blobs are looked for elsewhere (307); `loop`: manifests are sent round in circles; `cleartext`: from here to ftp://
    tear            every other piece of an upload arrives by half, and the connection ends; `lie`: an upload says that more arrived than was sent
    forget          each piece is taken, and of none anything has arrived
    upload-away     uploads go on elsewhere; `wrong-put`: the manifest is taken for another
"""
import base64, hashlib, json, os, ssl, sys, threading, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIR = sys.argv[1]
LOCK = threading.Lock()
BLOBS, MANIFESTS, UPLOADS, TOKENS, COUNTS = {}, {}, {}, {}, {}
PORTS = {}


def modes():
    try:
        words = open(os.path.join(DIR, "mode")).read().split()
    except FileNotFoundError:
        words = []
    return {w.partition("=")[0]: w.partition("=")[2] for w in words}


def sha(b):
    return "sha256:" + hashlib.sha256(b).hexdigest()


class Registry(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    door = "registry"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, message, **headers):
        self.answer(status, json.dumps({"errors": [{"code": "X", "message": message}]}).encode(), **headers)

    def read(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def drop(self):
        self.close_connection = True
        self.connection.close()

    def counted(self, name, m):
        if name not in m:
            return False
        with LOCK:
            COUNTS[name] = COUNTS.get(name, 0) + 1
            return COUNTS[name] <= int(m[name])

    # --- who asks ---------------------------------------------------------------------------------------------------

    def allowed(self, m):
        said = self.headers.get("Authorization", "")
        if "basic" in m:
            if said == "Basic " + base64.b64encode(b"u:p").decode():
                return True
            if said and "forbids" in m:
                self.refuse(403, "not you")
                return False
            self.refuse(401, "no password", WWW_Authenticate='Basic realm="test"')
            return False
        if "token" in m or "token-once" in m:
            with LOCK:
                left = TOKENS.get(said.removeprefix("Bearer "), 0)
                if said.startswith("Bearer ") and left:
                    TOKENS[said.removeprefix("Bearer ")] -= 1
                    return True
            realm = m.get("realm") or f"http://127.0.0.1:{PORTS['registry']}/token?x=1"
            self.refuse(401, "no token", WWW_Authenticate=f'Bearer realm="{realm}",service="test"')
            return False
        return True

    def give_token(self, m, body):
        said = self.headers.get("Authorization", "")
        fine = said == "Basic " + base64.b64encode(b"u:p").decode() if self.command == "GET" else "refresh_token=R" in body.decode() and "grant_type=refresh_token" in body.decode()
        asked = self.path if self.command == "GET" else body.decode()
        if not fine or "service=test" not in asked or "scope=repository%3A" not in asked:
            return self.refuse(401, "who?")
        token = uuid.uuid4().hex
        TOKENS[token] = 1 if "token-once" in m else 1000
        return self.answer(200, json.dumps({"access_token" if self.command == "POST" else "token": token, "expires_in": 300}).encode())

    # --- what is asked -----------------------------------------------------------------------------------------------

    def handle_one(self):
        m = modes()
        body = self.read() if self.command != "PATCH" else b""
        path, _, query = self.path.partition("?")
        with open(os.path.join(DIR, "log"), "a") as log:
            log.write(f"{self.door} {self.command} {self.path} {self.headers.get('Authorization', '-').split(' ')[0]}\n")
        if path == "/token":
            return self.give_token(m, body)
        if self.door == "registry":
            if self.counted("busy", m):
                return self.refuse(429, "slower", Retry_After="0")
            if self.counted("down", m):
                return self.refuse(503, "down")
            if self.counted("cut", m):
                return self.drop()
            if not self.allowed(m):
                return None
        if path == "/v2/":
            return self.answer(200, b"{}")
        if "/blobs/uploads/" in path:
            return self.upload(path, query, body, m)
        if "/blobs/" in path:
            return self.blob(path, m)
        if "/manifests/" in path:
            return self.manifest(path, body, m)
        return self.refuse(404, "nothing here")

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = handle_one

    def blob(self, path, m):
        if "away" in m and self.door == "registry":
            return self.answer(307, Location=f"http://127.0.0.1:{PORTS['elsewhere']}{path}")
        digest = path.rsplit("/", 1)[1]
        return self.answer(200, BLOBS[digest], Docker_Content_Digest=digest) if digest in BLOBS else self.refuse(404, "no such blob")

    def upload(self, path, query, body, m):
        key = path.rsplit("/", 1)[1]
        if self.command == "POST":
            key = uuid.uuid4().hex
            UPLOADS[key] = b""
            at = f"http://127.0.0.1:{PORTS['elsewhere']}" if "upload-away" in m else ""
            return self.answer(202, Location=f"{at}{path}{key}?state=1", Range="0-0")
        if key not in UPLOADS:
            return self.refuse(404, "no such upload")
        have = UPLOADS[key]
        if self.command == "GET":
            return self.answer(204, Location=path, Range=f"0-{max(len(have) - 1, 0)}")
        if self.command == "PATCH":
            return self.piece(path, key, m)
        digest = query.split("digest=")[1].replace("%3A", ":")
        if sha(have + body) != digest:
            return self.refuse(400, "digest doesn't match")
        BLOBS[digest] = have + body
        return self.answer(201, Location="/x", Docker_Content_Digest=digest)

    def piece(self, path, key, m):
        n, begin = int(self.headers["Content-Length"]), int(self.headers["Content-Range"].split("-")[0])
        with LOCK:
            COUNTS["piece"] = COUNTS.get("piece", 0) + 1
        if "tear" in m and COUNTS["piece"] % 2 and n > 1:
            UPLOADS[key] = UPLOADS[key][:begin] + self.rfile.read(n // 2)
            return self.drop()
        body = self.rfile.read(n)
        if begin != len(UPLOADS[key]):
            return self.refuse(416, "not from there", Location=path, Range=f"0-{max(len(UPLOADS[key]) - 1, 0)}")
        UPLOADS[key] += body
        if "forget" in m:
            UPLOADS[key] = b""
        said = 1 << 50 if "lie" in m else max(len(UPLOADS[key]) - 1, 0)
        return self.answer(202, Location=path, Range=f"0-{said}")

    def manifest(self, path, body, m):
        name = path.split("/manifests/")[1]
        if self.command == "PUT":
            MANIFESTS[path] = MANIFESTS[path.removesuffix(name) + sha(body)] = body
            return self.answer(201, Location="/x", Docker_Content_Digest=sha(b"another" if "wrong-put" in m else body))
        if "loop" in m:
            return self.answer(307, Location=self.path)
        if "cleartext" in m:
            return self.answer(302, Location="ftp://127.0.0.1/x")
        if "no-head" in m and self.command == "HEAD":
            return self.refuse(405, "what?")
        text = MANIFESTS.get(path)
        if "index" in m:
            entry = lambda a: {"mediaType": "x", "digest": sha(a.encode()), "size": 1, "platform": {"os": "linux", "architecture": a}}
            text = json.dumps({"schemaVersion": 2, "manifests": [entry("arm64"), entry("amd64")]}).encode()
        if text is None:
            return self.refuse(404, "manifest unknown")
        headers = {} if "no-header" in m else {"Docker_Content_Digest": sha(b"another") if "header" in m else sha(text)}
        if "body" in m:
            text += b" "
        if "huge" in m:
            text = b" " * (5 << 20)
        if "rubbish" in m:
            text, headers = b"<html>", {}
        return self.answer(200, text, Content_Type="application/vnd.oci.image.manifest.v1+json", **headers)


class Elsewhere(Registry):
    door = "elsewhere"


servers = {name: ThreadingHTTPServer(("127.0.0.1", 0), kind) for name, kind in (("registry", Registry), ("elsewhere", Elsewhere), ("secure", Registry))}
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(os.path.join(DIR, "cert.pem"), os.path.join(DIR, "key.pem"))
servers["secure"].socket = tls.wrap_socket(servers["secure"].socket, server_side=True)
for name, server in servers.items():
    PORTS[name] = server.server_address[1]
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
with open(os.path.join(DIR, "port.new"), "w") as f:
    f.write(f"{PORTS['registry']} {PORTS['elsewhere']} {PORTS['secure']}\n")
os.rename(os.path.join(DIR, "port.new"), os.path.join(DIR, "port"))
threading.Event().wait()
