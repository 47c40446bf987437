"""tests/net/store/walker.py s3://BUCKET/PREFIX: reads a store in a bucket by GET and LIST only, and proves every manifest whole.

Nothing of cairn is used: the layout is read from storage/FORMAT.md, requests are signed here (SigV4), zstd is libzstd by ctypes. Every byte of every object
is compared with its digest; from every manifest, all that it names must be there. One line of JSON on standard output; exit 1 with the problems on standard error.
Endpoint and keys: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.
"""
import concurrent.futures
import ctypes
import ctypes.util
import datetime
import hashlib
import hmac
import http.client
import json
import os
import re
import struct
import sys
import urllib.parse
import xml.etree.ElementTree as xml

PART = 16 << 20
NONE = "0" * 64

KINDS = ("none", "blob", "tree", "reference", "executable")
SPACE = ("", "blob", "tree", "blob", "blob")  # where content of each kind lies


class Bucket:
    def __init__(self, uri):
        self.name, _, prefix = uri[len("s3://"):].partition("/")
        self.prefix = prefix.rstrip("/") + "/" if prefix else ""
        self.host = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
        self.key, self.secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]

    def ask(self, path, query):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        empty = hashlib.sha256(b"").hexdigest()
        path = urllib.parse.quote(path, safe="/-_.~")
        query = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in sorted(query.items()))
        request = f"GET\n{path}\n{query}\nhost:{self.host}\nx-amz-content-sha256:{empty}\nx-amz-date:{now}\n\nhost;x-amz-content-sha256;x-amz-date\n{empty}"
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = b"AWS4" + self.secret.encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        c = http.client.HTTPConnection(self.host, timeout=60)
        c.request("GET", path + ("?" + query if query else ""), headers={
            "x-amz-date": now, "x-amz-content-sha256": empty,
            "Authorization": f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}"})
        r = c.getresponse()
        body = r.read()
        if r.status != 200:
            raise SystemExit(f"GET {path}?{query}: {r.status} {body[:300]!r}")
        return r, body

    def list(self, prefix):
        query = {"list-type": "2", "prefix": self.prefix + prefix}
        while True:
            page = xml.fromstring(self.ask("/" + self.name, query)[1])
            ns = re.match(r"\{.*\}|", page.tag).group()
            for o in page.iter(ns + "Contents"):
                yield o.find(ns + "Key").text[len(self.prefix):]
            if page.findtext(ns + "IsTruncated") != "true":
                return
            query["continuation-token"] = page.findtext(ns + "NextContinuationToken")

    def get(self, key):
        return self.ask(f"/{self.name}/{self.prefix}{key}", {})


zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
zstd.ZSTD_decompress.restype = ctypes.c_size_t
zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]


def unzstd(stored, size):
    out = ctypes.create_string_buffer(max(size, 1))
    n = zstd.ZSTD_decompress(out, size, stored, len(stored))
    return out.raw[:n] if n <= size else None


def digest(data):
    part = PART
    if len(data) <= PART:
        return hashlib.sha256(data).hexdigest()
    while (len(data) + part - 1) // part > 8192:
        part *= 2
    return hashlib.sha256(b"".join(hashlib.sha256(data[i:i + part]).digest() for i in range(0, len(data), part))).hexdigest()


class Reader:
    """Bytes in order."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, n):
        if n > len(self.data) - self.at:
            raise ValueError("too short")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self, nul):
        return self.take(self.number("I") + nul)[:-1 if nul else None]

    def more(self):
        return self.at < len(self.data)


class Store:
    def __init__(self, bucket):
        self.bucket, self.problems = bucket, []
        self.content = {"blob": {}, "tree": {}}  # digest → bytes
        self.records, self.bytes = {"actions": {}, "runs": {}}, 0
        keys = list(bucket.list(""))
        self.keys = [k for k in keys if k.split("/")[0] in ("blobs", "packs", "actions", "runs")]
        self.leases = sum(k.startswith("leases/") for k in keys)
        names = set(self.keys)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for key, (answer, body) in zip(self.keys, pool.map(bucket.get, self.keys)):
                self.bytes += len(body)
                self.see(key, answer, body, names)

    def wrong(self, what):
        self.problems.append(what)

    def see(self, key, answer, body, names):
        space, name = key.split("/")[0], key.split("/")[-1]
        if space == "blobs":
            if answer.getheader("x-amz-meta-cairn-encoding") == "zstd":
                body = unzstd_stream(body)
            if body is None or digest(body) != name:
                return self.wrong(f"{key}: its bytes don't match its name")
            self.content["blob"][name] = body
        elif space == "runs":
            if hashlib.sha256(body).hexdigest() != name:
                return self.wrong(f"{key}: its bytes don't match its name")
            self.records["runs"][name] = body
        elif space == "actions":
            self.records["actions"][name] = body
        elif name.endswith(".idx"):
            if key[:-4] not in names:
                return self.wrong(f"{key}: its pack is missing")
            self.index(key, name[:-4], body)

    def index(self, key, name, body):
        r = Reader(body)
        if hashlib.sha256(body).hexdigest() != name or r.take(19) != b"cairn-pack-index/1\n":
            return self.wrong(f"{key}: no index, or not that of its name")
        salt, n = r.take(16), r.number("I")
        pack = self.bucket.get("packs/" + name)[1]
        if pack[:29] != b"cairn-pack/1\n" + salt:
            return self.wrong(f"packs/{name}: isn't the pack of its index")
        for _ in range(n):
            space, encoding, what = r.number("B"), r.number("B"), r.take(32).hex()
            size, offset, stored = r.number("Q"), r.number("Q"), r.number("Q")
            data = pack[offset:offset + stored]
            data = unzstd(data, size) if encoding else data
            wanted = hashlib.sha256(data or b"").hexdigest() if space else digest(data or b"")
            if data is None or len(data) != size or wanted != what:
                self.wrong(f"packs/{name}: member {what} has other bytes")
            else:
                self.content["tree" if space else "blob"][what] = data

    # ---- closures ----

    def reach(self, kind, name, size, seen, where):
        if (kind, name) in seen:
            return
        seen.add((kind, name))
        data = self.content[kind].get(name)
        if data is None:
            return self.wrong(f"{where}: {kind} {name} is missing")
        if len(data) != size:
            return self.wrong(f"{where}: {kind} {name} has {len(data)} bytes, not {size}")
        if kind == "tree":
            self.tree(data, seen, f"{where} > tree {name[:12]}")

    def tree(self, data, seen, where):
        r, last = Reader(data), None
        if r.take(13) != b"cairn-tree/1\n":
            return self.wrong(f"{where}: no tree")
        while r.more():
            kind, name = r.number("B"), r.text(1)
            if last is not None and name <= last or name in (b"", b".", b"..") or b"/" in name:
                self.wrong(f"{where}: entries out of order, or a bad name")
            last = name
            if kind == 3:
                r.text(1)
                continue
            size, what = r.number("Q"), r.take(32).hex()
            self.reach("tree" if kind == 4 else "blob", what, size, seen, f"{where}/{name.decode(errors='replace')}")

    def ids(self, j, seen, where):
        """All content ids of a JSON document, and keys by name."""
        if isinstance(j, dict):
            if {"digest", "kind", "size"} <= set(j) and str(j["digest"]).startswith("sha256:"):
                return self.reach(SPACE[KINDS.index(j["kind"])], j["digest"][7:], j["size"], seen, where)
            for k, v in j.items():
                self.ids(v, seen, f"{where} {k}")
        elif isinstance(j, list):
            for v in j:
                self.ids(v, seen, where)

    def results(self, data, seen, where):
        r, outputs = Reader(data), 0
        if r.take(16) != b"cairn-results/1\n":
            return self.wrong(f"{where}: no table of results")
        while r.more():
            if r.take(1) == b"S":
                r.text(1)
                outputs = r.number("I")
                for _ in range(outputs):
                    r.text(1)
                continue
            label = r.text(1).decode(errors="replace")
            r.take(1 + 32 + 8 + 8)
            if r.number("B"):
                for _ in range(outputs):
                    kind, size, what = r.number("B"), r.number("Q"), r.take(32).hex()
                    if kind:
                        self.reach(SPACE[kind], what, size, seen, f"{where} {label}")
            for _ in range(r.number("I")):
                r.text(1)
                r.take(8)

    def manifest(self, name):
        seen, where, j = set(), f"run {name[:12]}", json.loads(self.records["runs"][name])
        self.ids(j, seen, where)
        table = (j.get("results") or {}).get("digest", "")[7:]
        if table in self.content["blob"]:
            self.results(self.content["blob"][table], seen, where)
        lines = (j.get("attempts") or {}).get("digest", "")[7:]
        for line in self.content["blob"].get(lines, b"").splitlines():
            self.ids(json.loads(line), seen, where)
        return len(seen)

    def action(self, name):
        r, seen, where = Reader(self.records["actions"][name]), set(), f"action {name[:12]}"
        magic, whole = r.take(15), self.records["actions"][name]
        if magic not in (b"cairn-action/1\n", b"cairn-action/2\n"):
            return self.wrong(f"{where}: no record")
        if magic == b"cairn-action/2\n" and hashlib.sha256(whole[:-32]).digest() != whole[-32:]:
            return self.wrong(f"{where}: its digest isn't that of its bytes")
        r.take(32)
        ids = [(r.number("B"), r.number("Q"), r.take(32).hex()) for _ in range(3)]
        r.take(16)
        for _ in range(3):
            r.text(0)
        for _ in range(r.number("I")):
            r.text(0)
            ids.append((r.number("B"), r.number("Q"), r.take(32).hex()))
        for kind, size, what in ids:
            if kind:
                self.reach(SPACE[kind], what, size, seen, where)


def unzstd_stream(stored):
    """Of a blob alone the size isn't beside it: room is doubled until it fits."""
    room = max(4 * len(stored), 1 << 20)
    while room < 1 << 32:
        data = unzstd(stored, room)
        if data is not None:
            return data
        room *= 4
    return None


def main():
    store = Store(Bucket(sys.argv[1]))
    reached = [store.manifest(name) for name in store.records["runs"]]
    manifests_broken = len(store.problems)
    for name in store.records["actions"]:
        store.action(name)
    print(json.dumps({"objects": len(store.keys), "bytes": store.bytes, "manifests": len(reached), "reached": sum(reached),
                      "actions": len(store.records["actions"]), "leases": store.leases, "problems": len(store.problems), "of_manifests": manifests_broken}))
    for p in store.problems[:50]:
        print(p, file=sys.stderr)
    return 1 if store.problems else 0


if __name__ == "__main__":
    sys.exit(main())
