#!/usr/bin/env python3
"""An API server of Kubernetes that keeps objects in memory and does on request what a real one does rarely.

    kubeapi.py DIR [--token T] [--tls CERT KEY CLIENT-CA]

Serves any resource below /api/v1 and /apis/GROUP/VERSION: create, get, list (limit, continue, labelSelector), replace (resourceVersion), delete, merge patch, watch (bookmarks, timeoutSeconds,
sendInitialEvents, 410 for versions that are forgotten). An object with finalizers stays when it is deleted. Writes DIR/port and DIR/pid when it listens; DIR/log has a line a request.

DIR/faults, read at each request: JSON objects a line, each {"match": "METHOD PATH-GLOB?", "times": N, "do": …}:
    {"do": "status", "code": 429, "after": 0, "reason": "TooManyRequests", "message": "…"}
    {"do": "reset"}             the connection ends without an answer
    {"do": "lost"}              done, and then the connection ends without an answer
    {"do": "late", "for": S}    the answer comes S seconds late
    {"do": "event-410"}         a watch: one ERROR event of code 410 after what it has told
    {"do": "half"}              a watch: half of the next event, then the connection ends
    {"do": "twice"}             a watch: the next event twice
    {"do": "silent"}            a watch: nothing more, not even bookmarks, and no end
    {"do": "forgets"}           a watch: the next event is never told
    {"do": "garbage"}           a watch: a line that is no JSON
    {"do": "huge"}              a watch: a line without an end
    {"do": "no-watchlist"}      sendInitialEvents is answered as an etcd without progress notifications does
    {"match": "LIST PATH-GLOB", "do": "same-page"}  each page says that the list goes on where it goes on always
    {"match": "CREATED PATH-GLOB", "do": "reset"}   a POST has made its object, and the connection ends without an answer
--cluster STORE: Jobs get pods that run, and end as DIR/plays says (kube_cluster.py).
DIR/minor: the minor version that it says; DIR/arrays: "no": no Job may have a limit of each index; DIR/images: "no": volumes that are images are left out; DIR/denied: rights that the account lacks ("create jobs,get pods/log").
POST /_forget: all versions so far are forgotten. POST /_end: watches end. POST /_bookmark: watches get one now.
GET /_clients: how many connections it has that aren't a watch or a log; one is the asker's. What a client sent before it was killed
is served before its connection is gone.
"""

import argparse
import bisect
import fnmatch
import json
import os
import queue
import ssl
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kube_cluster

parser = argparse.ArgumentParser()
parser.add_argument("dir")
parser.add_argument("--token")
parser.add_argument("--tls", nargs=3)
parser.add_argument("--no-watchlist", action="store_true")
parser.add_argument("--cluster", metavar="STORE", help="play the rest of a cluster, too, with a store in this directory (kube_cluster.py)")
parser.add_argument("--port", type=int, default=0)
args = parser.parse_args()

lock = threading.RLock()
objects = {}   # (collection, name) → object; a collection is "/api/v1/namespaces/x/pods"
history = []   # (version, type, collection, object), by version
state = {"version": 1000, "oldest": 0}
watchers = set()
clients = set()  # connections
faults, faults_stamp = [], None
log = open(os.path.join(args.dir, "log"), "a", buffering=1)


def read_faults():
    global faults, faults_stamp
    path = os.path.join(args.dir, "faults")
    try:
        stamp = os.stat(path).st_mtime_ns
    except FileNotFoundError:
        faults, faults_stamp = [], None
        return
    if stamp != faults_stamp:
        faults = [json.loads(line) for line in open(path) if line.strip()]
        faults_stamp = stamp


def fault(method, target, kinds=None):
    """The next fault that is meant for this request; it is used up."""
    with lock:
        read_faults()
        for f in faults:
            want, _, glob = f.get("match", "* *").partition(" ")
            if f.get("times", 1) > 0 and want in ("*", method) and fnmatch.fnmatch(target, glob) and (kinds is None or f["do"] in kinds):
                f["times"] = f.get("times", 1) - 1
                return f
    return None


def change(kind, collection, obj):
    state["version"] += 1
    obj["metadata"]["resourceVersion"] = str(state["version"])
    history.append((state["version"], kind, collection, json.loads(json.dumps(obj))))
    for q in list(watchers):
        q.put("news")


class Api:
    """What the rest of the cluster sees of us."""
    lock, objects, change = lock, objects, staticmethod(change)


cluster = kube_cluster.Cluster(args.dir, args.cluster, Api) if args.cluster else None


def matches(obj, selector):
    labels = obj["metadata"].get("labels", {})
    for part in filter(None, (selector or "").split(",")):
        key, _, value = part.partition("=")
        if labels.get(key) != value.lstrip("="):
            return False
    return True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    hold = kept = None

    def answer(self, code, obj, headers=()):
        body = json.dumps(obj).encode()
        if self.hold:  # nothing is locked when it goes out
            self.kept = (code, obj, headers)
            return
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, code, reason, message, headers=()):
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}, headers)

    def handle_one(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        n = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(n) if n else b""
        user = self.headers.get("Impersonate-User") or ""
        log.write(json.dumps({"method": self.command, "path": url.path, "query": query, "bytes": n, "as": user,
                              "auth": (self.headers.get("Authorization") or "").split(" ")[0],
                              "groups": len(self.headers.get_all("Impersonate-Group") or [])}) + "\n")
        if url.path.startswith("/_"):
            return self.control(url.path)
        f = fault(self.command, self.path, ("status", "reset", "lost", "late"))
        if f and f["do"] == "reset":
            self.connection.close()
            self.close_connection = True
            return None
        self.hold = f if f and f["do"] in ("lost", "late") else None
        if self.hold:
            f = None
        if f:
            headers = [("Retry-After", str(f["after"]))] if "after" in f else []
            return self.refuse(f["code"], f.get("reason", "Unknown"), f.get("message", "as it was told"), headers)
        if args.token and self.headers.get("Authorization") != "Bearer " + open(args.token).read().strip():
            return self.refuse(401, "Unauthorized", "Unauthorized")
        if url.path == "/version":
            minor = self.setting("minor", "34")
            return self.answer(200, {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.10-fake"})
        if url.path.endswith("/selfsubjectaccessreviews"):
            what = json.loads(body)["spec"]["resourceAttributes"]
            name = f'{what["verb"]} {what["resource"]}' + ("/" + what["subresource"] if "subresource" in what else "")
            return self.answer(201, {"status": {"allowed": name not in self.setting("denied", "").split(",")}})
        if query.get("dryRun") == "All":
            if "backoffLimitPerIndex" in json.loads(body)["spec"] and self.setting("arrays", "yes") == "no":
                return self.refuse(422, "Invalid", "spec.podFailurePolicy.rules[0].action: Invalid value: FailIndex: requires the backoffLimitPerIndex to be set")
            made = json.loads(body)
            if self.setting("images", "yes") == "no":  # as a server does whose gate ImageVolume is off
                spec = made["spec"]["template"]["spec"]
                spec["volumes"] = [v for v in spec["volumes"] if "image" not in v]
            return self.answer(201, made)
        self.resource(url.path, query, body)
        return self.let_go()

    def let_go(self):
        hold, self.hold = self.hold, None
        if hold and hold["do"] == "lost":
            self.connection.close()
            self.close_connection = True
        elif hold:
            time.sleep(hold["for"])
            self.answer(*self.kept)

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = handle_one

    def setting(self, name, default):
        """What a file of that name in the directory says: minor, denied (rights, "create jobs,get pods/log"), groups ("GROUP/VERSION RESOURCE", a line each)."""
        path = os.path.join(args.dir, name)
        return open(path).read().strip() if os.path.exists(path) else default

    def control(self, path):
        with lock:
            if path == "/_forget":
                history.clear()
                state["oldest"] = state["version"]
            for q in list(watchers):
                q.put(path[2:])
            told = {"version": state["version"], "clients": len(clients)}
        self.answer(200, told)

    def resource(self, path, query, body):
        parts = path.strip("/").split("/")
        depth = (2 if parts[0] == "api" else 3) + 2  # up to the namespace's name
        collection = "/" + "/".join(parts[:depth + 1])
        name = parts[depth + 1] if len(parts) > depth + 1 else None
        if path == "/api/v1/nodes":
            nodes = [{"status": {"allocatable": {"nvidia.com/gpu": str(n)}}} for n in (8, 8, 0)]
            return self.answer(200, {"kind": "NodeList", "metadata": {}, "items": nodes})
        groups = dict(line.rsplit(" ", 1) for line in self.setting("groups", "").splitlines())
        if parts[0] == "apis" and "/".join(parts[1:]) in groups:
            return self.answer(200, {"kind": "APIResourceList", "resources": [{"name": groups["/".join(parts[1:])], "namespaced": True}]})
        if len(parts) <= depth:
            return self.refuse(404, "NotFound", "the server could not find the requested resource")
        if self.command == "GET" and not name:
            return self.watch(collection, query) if query.get("watch") in ("1", "true") else self.list(collection, query)
        if cluster and path.endswith("/log"):
            return self.log(name, query)
        with lock:
            have = objects.get((collection, name))
            if self.command == "POST":
                return self.create(collection, json.loads(body))
            if have is None:
                return self.refuse(404, "NotFound", f'{parts[depth]} "{name}" not found')
            if self.command == "GET":
                return self.answer(200, have)
            if self.command == "PUT":
                return self.replace(collection, name, have, json.loads(body))
            if self.command == "PATCH":
                merge(have, json.loads(body))
                change("MODIFIED", collection, have)
                return self.answer(200, have)
            if self.command == "DELETE":
                uid = (json.loads(body or b"{}").get("preconditions") or {}).get("uid")
                if uid and uid != have["metadata"]["uid"]:
                    return self.refuse(409, "Conflict", "the UID in the precondition does not match")
                if cluster and collection.endswith("/pods"):
                    cluster.go(collection, name, 1)
                    return self.answer(200, have)
                if have["metadata"].get("finalizers"):  # it goes when whoever holds it lets go
                    have["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
                    change("MODIFIED", collection, have)
                    return self.answer(200, have)
                del objects[(collection, name)]
                change("DELETED", collection, have)
                if cluster and collection.endswith("/jobs"):
                    cluster.deleted(collection, have)
                return self.answer(200, have)
        return self.refuse(405, "MethodNotAllowed", "not done here")

    def replace(self, collection, name, have, obj):
        """Only what is still as it was read, if the writer says what that is."""
        meta = obj["metadata"]
        if meta.get("resourceVersion") not in (None, "", have["metadata"]["resourceVersion"]):
            return self.refuse(409, "Conflict", f'Operation cannot be fulfilled on "{name}": the object has been modified')
        if meta.get("uid", have["metadata"]["uid"]) != have["metadata"]["uid"]:
            return self.refuse(409, "Conflict", "Precondition failed: UID in precondition differs")
        meta["uid"] = have["metadata"]["uid"]
        objects[(collection, name)] = obj
        change("MODIFIED", collection, obj)
        return self.answer(200, obj)

    def create(self, collection, obj):
        name = obj["metadata"]["name"]
        if (collection, name) in objects:
            return self.refuse(409, "AlreadyExists", f'"{name}" already exists')
        obj["metadata"].setdefault("uid", str(uuid.uuid4()))
        objects[(collection, name)] = obj
        if cluster and collection.endswith("/jobs"):
            cluster.created(collection, obj)
        change("ADDED", collection, obj)
        if fault("CREATED", self.path, ("reset",)):  # it is made, and nobody is told
            self.connection.close()
            self.close_connection = True
            return None
        return self.answer(201, obj)

    def list(self, collection, query):
        stuck = fault("LIST", self.path, ("same-page",))
        with lock:
            start = query.get("continue", "")
            if start and state["oldest"] > int(start.split(":")[0]):
                return self.refuse(410, "Expired", "The provided continue parameter is too old")
            version = start.split(":")[0] if start else str(state["version"])
            names = sorted(n for c, n in objects if c == collection and matches(objects[(c, n)], query.get("labelSelector")))
            for term in filter(None, query.get("fieldSelector", "").split(",")):  # of events alone
                field, _, want = term.partition("=")
                names = [n for n in names if objects[(collection, n)]["involvedObject"].get(field.removeprefix("involvedObject.")) == want]
            names = [n for n in names if n > start.partition(":")[2]] if start else names
            limit = int(query.get("limit", "0")) or len(names)
            meta = {"resourceVersion": version}
            if len(names) > limit:
                meta["continue"] = f"{version}:{names[limit - 1]}"
            if stuck:
                meta["continue"] = f"{version}:"
            return self.answer(200, {"kind": "List", "metadata": meta, "items": [objects[(collection, n)] for n in names[:limit]]})

    # --- logs

    def log(self, name, query):
        if not any(n == name for _, n in objects):
            return self.refuse(404, "NotFound", f'pods "{name}" not found')
        with lock:
            clients.discard(self.request)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if query.get("container") == "cairn":
            said = cluster.sidecars.get(name, [(time.time_ns(), b"cairn pod: nothing yet\n")])
            self.lines(said[-int(query["tailLines"]):] if "tailLines" in query else said, query)
            return self.chunk(b"")
        at = 0
        try:
            while True:
                with cluster.news:
                    lines = cluster.logs.get(name, [])[at:]
                at += len(lines)
                if not self.lines(lines, query):
                    return None
                with lock:
                    pod = next((o for (_, n), o in objects.items() if n == name), {"status": {}})
                over = all("running" not in c["state"] for c in pod["status"].get("containerStatuses", []))
                if query.get("follow") != "true" or over and not cluster.logs.get(name, [])[at:]:
                    break
                with cluster.news:
                    cluster.news.wait(0.05)
            self.chunk(b"")
        except OSError:
            self.close_connection = True
        return None

    def lines(self, lines, query):
        """False: the stream was cut."""
        for ns, line in lines:
            when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // 10**9))
            if when + "Z" < query.get("sinceTime", ""):
                continue
            prefix = f"{when}.{ns % 10**9:09d}Z ".encode() if query.get("timestamps") == "true" else b""
            f = fault("LOG", self.path, ("half",)) if query.get("container") != "cairn" else None
            if f:
                self.chunk((prefix + line)[:len(prefix) + len(line) // 2])
                self.connection.close()
                self.close_connection = True
                return False
            self.chunk(prefix + line)
        return True

    # --- watching

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, kind, obj):
        self.chunk(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    def bookmark(self, notes=None):
        meta = {"resourceVersion": str(state["version"])}
        if notes:
            meta["annotations"] = notes
        self.event("BOOKMARK", {"metadata": meta})

    def gone(self):
        self.event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})

    def spoil(self, f, kind, obj):
        """True: the stream has ended."""
        line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
        if f["do"] == "twice":
            self.chunk(line)
            self.chunk(line)
            return False
        if f["do"] == "forgets":
            return False
        if f["do"] == "half":
            self.chunk(line[:len(line) // 2])
        elif f["do"] == "garbage":
            self.chunk(b"{nonsense\n")
        elif f["do"] == "event-410":
            self.gone()
        elif f["do"] == "huge":
            while True:
                self.chunk(b"x" * 65536)
        elif f["do"] == "silent":
            time.sleep(3600)
        self.connection.close()
        self.close_connection = True
        return True

    def watch(self, collection, query):
        initial = query.get("sendInitialEvents") == "true"
        if initial and (args.no_watchlist or fault("GET", self.path, ("no-watchlist",))):
            return self.refuse(400, "BadRequest", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
        q, selector = queue.Queue(), query.get("labelSelector")
        with lock:
            clients.discard(self.request)
            at = state["version"] if initial else int(query["resourceVersion"])
            if at < state["oldest"]:
                return self.refuse(410, "Expired", "too old resource version")
            watchers.add(q)
            now = [objects[k] for k in sorted(objects) if k[0] == collection and matches(objects[k], selector)] if initial else []
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for obj in now:
                self.event("ADDED", obj)
            if initial:
                self.bookmark({"k8s.io/initial-events-end": "true"})
            self.follow(collection, selector, q, at, time.monotonic() + float(query.get("timeoutSeconds", "300")))
        except OSError:
            self.close_connection = True
        finally:
            watchers.discard(q)
        return None

    def follow(self, collection, selector, q, at, end):
        while time.monotonic() < end:
            with lock:
                # Its end only: a gang of a thousand pods is thousands of changes, each of which wakes every watch.
                new = history[bisect.bisect_right(history, at, key=lambda change: change[0]):]
                news = [(v, t, o) for v, t, c, o in new if c == collection and matches(o, selector)]
                at = new[-1][0] if new else at
            for version, kind, obj in news:
                f = fault("WATCH", self.path, ("event-410", "half", "twice", "silent", "forgets", "garbage", "huge"))
                if f:
                    if self.spoil(f, kind, obj):
                        return
                else:
                    self.event(kind, obj)
            try:
                what = q.get(timeout=max(min(end - time.monotonic(), 60), 0.01))
            except queue.Empty:
                what = "bookmark"
            if what == "end":
                break
            if what == "bookmark":
                self.bookmark()
            if what == "forget" and fault("WATCH", self.path, ("event-410",)):
                self.gone()
                break
        self.chunk(b"")


def merge(into, patch):
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


class Server(ThreadingHTTPServer):
    request_queue_size = 256  # who follows a gang comes with a connection a node

    def process_request(self, request, client_address):
        with lock:
            clients.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        with lock:
            clients.discard(request)
        super().shutdown_request(request)


server = Server(("127.0.0.1", args.port), Handler)
server.daemon_threads = True
if args.tls:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.tls[0], args.tls[1])
    context.load_verify_locations(args.tls[2])
    context.verify_mode = ssl.CERT_OPTIONAL
    server.socket = context.wrap_socket(server.socket, server_side=True)
for name, text in (("pid", os.getpid()), ("port", server.server_address[1])):
    with open(os.path.join(args.dir, name + ".tmp"), "w") as out:
        out.write(f"{text}\n")
    os.rename(os.path.join(args.dir, name + ".tmp"), os.path.join(args.dir, name))
server.serve_forever()
