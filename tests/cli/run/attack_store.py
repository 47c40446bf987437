"""attack_store.py STORE HASH KIND TARGET: writes a run into a directory store, as whoever may write to a shared bucket can: the run HASH, changed as KIND
says so that it aims at TARGET. Prints the new run hash. The formats are those of storage/FORMAT.md."""

import hashlib
import json
import os
import struct
import sys

FILE, SYMLINK, DIRECTORY = 1, 3, 4


def put(store, space, data):
    name = hashlib.sha256(data).hexdigest()
    place = os.path.join(store, space, name[:2])
    os.makedirs(place, exist_ok=True)
    path = os.path.join(place, name)
    if not os.path.exists(path):
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0o444)
    return name


def text0(data):
    return struct.pack("<I", len(data)) + data + b"\0"


def content(name, size):
    return struct.pack("<Q", size) + bytes.fromhex(name)


def file_entry(store, name, data):
    return (FILE, name, content(put(store, "blobs", data), len(data)))


def tree(store, entries):
    listing = b"cairn-tree/1\n"
    for kind, name, rest in sorted(entries, key=lambda e: e[1]):
        listing += bytes([kind]) + text0(name) + rest
    return put(store, "trees", listing), len(listing)


def forge(store, manifest, kind, target):
    if kind == "link":  # x is a directory with a link, and x/l/pwned a file
        inner = tree(store, [(SYMLINK, b"l", text0(target.encode()))])
        name, size = tree(store, [
            (DIRECTORY, b"0", content(*inner)),
            file_entry(store, b"1", b"echo pwned\n"),
            file_entry(store, b"paths", b"x\nx/l/pwned\n"),
        ])
        manifest["pipeline_files"] = {"digest": "sha256:" + name, "kind": "tree", "size": size}
    elif kind == "id":
        manifest["run"] = target
    elif kind == "pipeline":
        manifest["path"] = target
    elif kind == "input":
        manifest["inputs"][0]["name"] = "input:" + target
    elif kind == "step":
        manifest["steps"] = [{"name": target}]
    elif kind == "metric":  # each value TARGET in its results is NaN
        name = manifest["results"]["digest"].split(":")[1]
        with open(os.path.join(store, "blobs", name[:2], name), "rb") as f:
            was = f.read()
        data = was.replace(struct.pack("<d", float(target)), struct.pack("<d", float("nan")))
        assert data != was
        manifest["results"]["digest"] = "sha256:" + put(store, "blobs", data)
    else:
        raise SystemExit("what is " + kind)
    manifest["ended_ns"] += 1
    return manifest


def main(store, run_hash, kind, target):
    with open(os.path.join(store, "runs", run_hash[:2], run_hash), "rb") as f:
        manifest = json.load(f)
    if kind != "id":
        manifest["run"] = "forged-" + kind
    forged = forge(store, manifest, kind, target)
    data = json.dumps(forged, sort_keys=True, separators=(",", ":")).encode()
    print(put(store, "runs", data))


main(*sys.argv[1:])
