"""augment_shards.py: shards for augment.t and what is in them, with nothing but Python's own library.

make DIR           a.tar (NPY, gray and colour), pngs.tar (with masks), ...
make-large FILE N  N samples of 3 MB
keys FILE          key.field of each member, a line each
sums FILE          with the digests of their bytes
shape FILE KEY.FIELD
same FILE KEY.FIELD FILE KEY.FIELD
levels16 FILE KEY.FIELD   the different levels of a 16-bit gray PNG
"""

import hashlib
import io
import os
import struct
import sys
import tarfile
import zlib


def npy(w, h, channels, at):
    shape = f"({h}, {w})" if channels == 0 else f"({h}, {w}, {channels})"
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + levels(w, h, channels, at)


def levels(w, h, channels, at):
    """Slopes, an edge, and something that looks like noise."""
    out = bytearray()
    for y in range(h):
        for x in range(w):
            for c in range(max(channels, 1)):
                noise = (x * 7919 + y * 104729 + c * 1299709 + at * 15485863) >> 3 & 31
                out.append((x * (2 + c) + y * (at % 5 + 1) + (90 if x > w // 2 + at % 9 else 0) + noise) % 256)
    return bytes(out)


def png(w, h, channels, at, kind=None):
    raw, row = levels(w, h, channels, at), w * max(channels, 1)
    rows = b"".join(b"\0" + raw[y * row:(y + 1) * row] for y in range(h))
    return png_of(w, h, kind or {0: 0, 1: 0, 3: 2}[channels], zlib.compress(rows))


def png_of(w, h, kind, data, bits=8, orientation=1):
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    exif = b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, bits, kind, 0, 0, 0)) + (chunk(b"eXIf", exif) if orientation > 1 else b"")
            + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def gray(w, h, orientation=1):
    return png_of(w, h, 0, zlib.compress(b"".join(b"\0" + levels(w, 1, 1, y) for y in range(h))), orientation=orientation)


def levels16(data):
    """Of a PNG that codec_write_png() made: chunks in order, any filter."""
    w, h, bits, kind = struct.unpack(">IIBB", data[16:26])
    assert (bits, kind) == (16, 0), (bits, kind)
    at, packed = 8, b""
    while at < len(data):
        n, name = struct.unpack(">I4s", data[at:at + 8])
        packed += data[at + 8:at + 8 + n] if name == b"IDAT" else b""
        at += 12 + n
    raw, above, found = zlib.decompress(packed), bytes(2 * w), set()
    for y in range(h):
        kind, row = raw[y * (2 * w + 1)], bytearray(raw[y * (2 * w + 1) + 1:(y + 1) * (2 * w + 1)])
        for x in range(2 * w):
            a, b, c = (row[x - 2], above[x], above[x - 2]) if x > 1 else (0, above[x], 0)
            paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[x] = (row[x] + (0, a, b, (a + b) // 2, paeth)[kind]) % 256
        found |= {v for (v,) in struct.iter_unpack(">H", row)}
        above = row
    return sorted(found)


def write(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as t:
        for key, fields in samples:
            for name, data in fields.items():
                info = tarfile.TarInfo(f"{key}.{name}")
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))


def read(path):
    with tarfile.open(path) as t:
        return {m.name: t.extractfile(m).read() for m in t}


def make(where):
    def at(name):
        return os.path.join(where, name)

    corpus = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "fuzz", "corpus", "image")
    os.makedirs(where, exist_ok=True)
    arrays = [(f"s{i:03d}", {"cls": str(i % 3).encode(), "npy": npy(20 + i % 7, 30 - i % 5, (0, 3, 1)[i % 3], i)}) for i in range(24)]
    write(at("a.tar"), arrays)
    write(at("few.tar"), arrays[5:9])
    pictures = [(f"dir/p{i}", {"json": b"{}", "png": png(40, 30, 3 if i % 2 else 1, i), "seg.png": png(40, 30, 1, i)}) for i in range(6)]
    write(at("pngs.tar"), pictures)
    with open(os.path.join(corpus, "photo.jpg"), "rb") as f:
        photo = f.read()
    write(at("jpegs.tar"), [(f"j{i}", {"cls": b"1", "jpg": photo}) for i in range(6)])
    write(at("none.tar"), [("t", {"txt": b"no image"})])
    write(at("empty.tar"), [])
    ids = b"".join(b"\0" + struct.pack(">30H", *((300, 301, 1000, 65535)[(x + y) // 8 % 4] for x in range(30))) for y in range(20))
    write(at("deep.tar"), [("d", {"png": gray(30, 20), "ids.png": png_of(30, 20, 0, zlib.compress(ids), bits=16)})])
    for name, image, mask in (("misfit-size", gray(30, 20), gray(29, 20)), ("misfit-square", gray(20, 20, 6), gray(20, 20)),
                              ("misfit-half", gray(30, 20, 3), gray(30, 20)), ("misfit-stored", gray(30, 20, 6), gray(30, 20)),
                              ("fit-upright", gray(20, 30, 6), gray(30, 20))):
        write(at(f"{name}.tar"), [("m", {"png": image, "seg.png": mask})])
    bad = {"cut.jpg": photo[:len(photo) // 2], "cut.png": png(40, 30, 3, 1)[:200], "zero.png": b"", "text.jpg": b"not an image",
           "bomb.png": png_of(60000, 60000, 2, zlib.compress(b"\0" * 1000))}
    for name, data in bad.items():
        stem, ext = name.split(".")
        write(at(f"bad-{stem}-{ext}.tar"), [("ok1", {ext: photo if ext == "jpg" else png(8, 8, 3, 1)}), ("broken", {ext: data, "cls": b"7"}),
                                           ("ok2", {ext: photo if ext == "jpg" else png(8, 8, 3, 2)})])
    write(at("clash.tar"), [("two", {"jpg": photo, "png": png(8, 8, 3, 1)})])


def shape(data):
    if data[:4] == b"\x89PNG":
        w, h, _, kind = struct.unpack(">IIBB", data[16:26])
        return f"png {h} {w} {3 if kind == 2 else 1}"
    if data[:6] == b"\x93NUMPY":
        return "npy " + data[10:128].split(b"}")[0].decode() + "}"
    at = 2
    while data[at] == 0xFF and data[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
    h, w, n = struct.unpack(">HHB", data[at + 5:at + 10])
    return f"jpeg {h} {w} {n}"


def main(what, *a):
    if what == "make":
        make(a[0])
    elif what == "make-large":
        one = npy(1000, 10, 3, 1)
        head, body = one[:128].replace(b"(10, 1000, 3)", b"(1000, 1000, 3)"), one[128:]
        head = head.replace(b"\n", b"").ljust(127)[:127] + b"\n"
        write(a[0], ((f"l{i}", {"npy": head + body * 100}) for i in range(int(a[1]))))
    elif what == "keys":
        print("\n".join(read(a[0])))
    elif what == "sums":
        print("\n".join(f"{hashlib.sha256(d).hexdigest()[:16]} {n}" for n, d in read(a[0]).items()))
    elif what == "shape":
        print(shape(read(a[0])[a[1]]))
    elif what == "levels16":
        print(*levels16(read(a[0])[a[1]]))
    elif what == "same":
        return 0 if read(a[0])[a[1]] == read(a[2])[a[3]] else 1
    return 0


sys.exit(main(*sys.argv[1:]))
