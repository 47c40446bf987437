"""normalise_files.py DIR: pairs of files NAME.old and NAME.new for `cairn-steps normalise`, and DIR/expect.json: for each NAME the
verdict, the normaliser, and what member and detail must hold."""

import gzip
import io
import json
import os
import struct
import sys
import tarfile
import zipfile
import zlib

import numpy

expect = {}
root = sys.argv[1]


def pair(name, old, new, verdict, normaliser=None, member=None, detail=None):
    for side, data in (("old", old), ("new", new)):
        with open(os.path.join(root, f"{name}.{side}"), "wb") as f:
            f.write(data)
    expect[name] = {"verdict": verdict, "normaliser": normaliser, "member": member, "detail": detail}


def tar(members, fmt=tarfile.PAX_FORMAT, mtime=0, mode=0o644, uid=0):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.mtime, info.mode, info.uid = mtime, mode, uid
            if isinstance(data, str):
                info.type, info.linkname = tarfile.SYMTYPE, data
                t.addfile(info)
            else:
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(members, when=(2020, 1, 1, 0, 0, 0), method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name, when), data, method)
    return out.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, level=6, text=None, rgba=False, filters=0):
    h, w = pixels.shape[:2]
    if rgba:
        pixels = numpy.dstack([pixels, numpy.full((h, w, 1), 255, numpy.uint8)])
    rows = []
    for y in range(h):
        row = pixels[y].astype(numpy.uint8).reshape(w, -1)
        if filters == 1:  # Sub
            row = numpy.concatenate([row[:1], (row[1:].astype(int) - row[:-1]) % 256]).astype(numpy.uint8)
        rows.append(bytes([filters]) + row.tobytes())
    head = struct.pack(">IIBBBBB", w, h, 8, 6 if rgba else 2, 0, 0, 0)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    if text:
        out += chunk(b"tEXt", b"Comment\0" + text)
    return out + chunk(b"IDAT", zlib.compress(b"".join(rows), level)) + chunk(b"IEND", b"")


def npy(a, fortran=False):
    out = io.BytesIO()
    numpy.lib.format.write_array(out, numpy.asfortranarray(a) if fortran else a, version=(1, 0))
    return out.getvalue()


def npz(arrays, when=(2020, 1, 1, 0, 0, 0), method=zipfile.ZIP_STORED):
    return zipped([(k + ".npy", npy(v)) for k, v in arrays.items()], when, method)


def gz(data, level=6, mtime=0):
    return gzip.compress(data, level, mtime=mtime)


text = b"".join(b"line %d of a text\n" % i for i in range(5000))
changed = text[:70000] + b"X" + text[70001:]
a_b = [("a.txt", b"alpha"), ("d/b.txt", b"beta"), ("link", "a.txt")]

# tar
pair("tar-mtime", tar(a_b), tar(a_b, mtime=1700000000), "same", "tar", None, "mtime of member a.txt")
pair("tar-order", tar(a_b), tar(a_b[::-1]), "same", "tar", None, "order of members")
pair("tar-owner", tar(a_b), tar(a_b, uid=1000), "same", "tar", None, "owner of member")
pair("tar-mode", tar(a_b), tar(a_b, mode=0o600), "same", "tar", None, "mode of member")
pair("tar-dialect", tar(a_b), tar(a_b, fmt=tarfile.GNU_FORMAT), "same", "tar", None, "headers")
pair("tar-executable", tar(a_b), tar(a_b, mode=0o755), "different", "tar", "a.txt", "executable")
pair("tar-byte", tar(a_b), tar([a_b[0], ("d/b.txt", b"betA"), a_b[2]], mtime=5), "different", "tar", "d/b.txt", "byte 3: 0x61 → 0x41")
pair("tar-extra", tar(a_b), tar(a_b + [("z", b"")]), "different", "tar", "z", "only in the new one")
pair("tar-missing", tar(a_b), tar(a_b[1:]), "different", "tar", "a.txt", "only in the old one")
pair("tar-link", tar(a_b), tar(a_b[:2] + [("link", "d/b.txt")]), "different", "tar", "link", "a.txt → d/b.txt")
pair("tar-kind", tar(a_b), tar(a_b[:2] + [("link", b"a.txt")]), "different", "tar", "link", "symbolic link")
pair("tar-twice", tar([("a", b"1"), ("a", b"2")]), tar([("a", b"2"), ("a", b"1")]), "different", "tar", "a", "byte 0")
pair("tar-cut", tar(a_b), tar([("a.txt", text)])[:3000], "none", None, None, "tar")

# gzip: alone, several members, around a tar
pair("gzip-level", gz(text, 1), gz(text, 9), "same", "gzip", None, "compression")
pair("gzip-mtime", gz(text), gz(text, mtime=1700000000), "same", "gzip", None, "compression")
pair("gzip-members", gz(text), gz(text[:999]) + gz(text[999:]), "same", "gzip", None, "compression")
pair("gzip-byte", gz(text), gz(changed, 9), "different", "gzip", None, "byte 70000: 0x")
pair("gzip-tar", gz(tar(a_b), 1), gz(tar(a_b, mtime=9), 9), "same", "gzip+tar", None, "mtime of member a.txt")
pair("gzip-tar-byte", gz(tar(a_b), 1), gz(tar([("a.txt", b"alphb")] + a_b[1:]), 9), "different", "gzip+tar", "a.txt", "byte 4")
pair("gzip-cut", gz(text), gz(text)[:500], "none", None, None, "gzip")
pair("gzip-damaged", gz(text), gz(text)[:-8] + b"\0" * 8, "none", None, None, "gzip")
pair("tar-tar-gz", tar([("in.tar.gz", gz(tar(a_b)))]), tar([("in.tar.gz", gz(tar(a_b, mtime=3)))]), "same", "tar+gzip+tar", "in.tar.gz", "mtime of member a.txt")
pair("tar-tar-gz-byte", tar([("in.tar.gz", gz(tar(a_b)))]), tar([("in.tar.gz", gz(tar([("a.txt", b"alpha!")] + a_b[1:])))]), "different", "tar+gzip+tar",
     "in.tar.gz > a.txt", "5 bytes → 6 bytes")

# zip
files = [("a.txt", text), ("b/c.txt", b"c")]
pair("zip-time", zipped(files), zipped(files, (2024, 5, 6, 7, 8, 10)), "same", "zip", None, "mtime of member a.txt")
pair("zip-order", zipped(files), zipped(files[::-1]), "same", "zip", None, "order of members")
pair("zip-stored", zipped(files), zipped(files, method=zipfile.ZIP_STORED), "same", "zip", None, "compression")
pair("zip-byte", zipped(files), zipped([("a.txt", changed), files[1]], (2024, 5, 6, 7, 8, 10)), "different", "zip", "a.txt", "byte 70000")
pair("zip-cut", zipped(files), zipped(files)[:-30], "none", None, None, "zip")

# png
rng = numpy.random.default_rng(7)
pixels = rng.integers(0, 256, (20, 31, 3)).astype(numpy.uint8)
other = pixels.copy()
other[13, 5, 2] ^= 1
pair("png-level", png(pixels, 1), png(pixels, 9), "same", "png", None, "compression")
pair("png-filter", png(pixels), png(pixels, filters=1), "same", "png", None, "compression")
pair("png-text", png(pixels), png(pixels, text=b"made by hand"), "same", "png", None, "text or time")
pair("png-alpha", png(pixels), png(pixels, rgba=True), "same", "png", None, "depth")
pair("png-pixel", png(pixels, 1), png(other, 9), "different", "png", None, "pixel at x 5, y 13: #%02x%02x%02x → #%02x%02x%02x; 1 of 620" % (*pixels[13, 5], *other[13, 5]))
pair("png-size", png(pixels), png(pixels[:, :30]), "different", "png", None, "31 × 20 pixels → 30 × 20")
pair("png-cut", png(pixels), png(pixels)[:300], "none", None, None, "png")

# npy and npz
w = rng.normal(size=(4, 5, 6))
w2 = w.copy()
w2[2, 0, 3] += 0.5
pair("npy-fortran", npy(w), npy(w, True), "same", "npy", None, "order of the axes")
pair("npy-endian", npy(w), npy(w.astype(">f8")), "same", "npy", None, "byte order")
pair("npy-value", npy(w), npy(w2, True), "different", "npy", None, "value at [2, 0, 3]: ")
pair("npy-type", npy(w), npy(w.astype("f4")), "different", "npy", None, "type <f8 → <f4")
pair("npy-shape", npy(w), npy(w.reshape(20, 6)), "different", "npy", None, "shape (4, 5, 6) → (20, 6)")
for kind in ("i1", "<u8", ">i4", "<f2", "<f4", "?", "<c16", "S5", "<U3", "<M8[s]"):
    one = numpy.arange(24).reshape(2, 3, 4).astype("i8" if "M8" in kind else kind).astype(kind)
    two = one.copy()
    two[1, 1, 2] = one[0, 0, 0]
    name = "npy-of-" + kind.strip("<>?").replace("[s]", "") if kind != "?" else "npy-of-bool"
    pair(name, npy(one), npy(two), "different", "npy", None, "value at [1, 1, 2]: ")
    pair(name + "-same", npy(one), npy(one, True), "same", "npy")
    if kind == "<M8[s]":
        pair(name + "-unit", npy(one), npy(one.astype("<M8[ms]")), "different", "npy", None, "type")
dates = numpy.arange(24).reshape(2, 3, 4).astype("<M8[D]")
pair("npy-date-endian", npy(dates), npy(dates.astype(">M8[D]")), "same", "npy", None, "byte order")
pair("npy-date-bytes", npy(dates), npy(dates).replace(b"<M8", b">M8"), "different", "npy", None,
     "value at [0, 0, 1]: 1 → 72057594037927936")
pair("npy-span-bytes", npy(dates - dates[0, 0, 0]),
     npy(dates - dates[0, 0, 0]).replace(b"<m8", b">m8"), "different", "npy", None, "value at")
for kind in ("c1", "c7", "X4"):  # no two floats have one or seven bytes; X isn't known
    letters = npy(numpy.zeros(4, "S" + kind[1:])).replace(b"|S" + kind[1:].encode(), b">" + kind.encode())
    pair("npy-not-" + kind, letters, letters[:-1] + b"x", "none", None, None, "npy")
records = numpy.zeros(3, [("x", "f4"), ("y", "i8")])
pair("npy-records", npy(records), npy(records) + b"x", "none", None, None, "records")
pair("npz-time", npz({"w": w, "b": w[0]}), npz({"b": w[0], "w": w}, (2024, 5, 6, 7, 8, 10), zipfile.ZIP_DEFLATED), "same", "npz", None, "mtime of member")
pair("npz-value", npz({"w": w, "b": w[0]}), npz({"w": w2, "b": w[0]}, (2024, 5, 6, 7, 8, 10)), "different", "npz", "w.npy",
     "value at [2, 0, 3]: %r → %r; 1 of 120 values differ, by 0.5 at most" % (float(w[2, 0, 3]), float(w2[2, 0, 3])))
pair("npz-array", npz({"w": w}), npz({"w": w, "b": w}), "different", "npz", "b.npy", "only in the new one")

# json
doc = {"accuracy": 0.9125, "n": 3, "rows": [{"a": 1, "b": [1, 2, {"c": None}]}, "ü"]}
pair("json-order", json.dumps(doc).encode(), json.dumps(dict(reversed(doc.items())), indent=2, ensure_ascii=False).encode(), "same", "json", None, "order of keys")
pair("json-number", b'[1, 100, 0.5]', b' [1.0, 1e2, 5e-1]\n', "same", "json", None, "numbers")
pair("json-value", json.dumps(doc).encode(), json.dumps({**doc, "accuracy": 0.9126}).encode(), "different", "json", None, "`$.accuracy`: 0.9125 → 0.9126")
pair("json-deep", json.dumps(doc).encode(), json.dumps(doc).replace("null", "0").encode(), "different", "json", None, "`$.rows[0].b[2].c`: null → 0")
pair("json-absent", b'{"a": 1}', b'{"b": 1}', "different", "json", None, "`$.a`: 1 → absent")
pair("json-items", b"[1, 2]", b"[1, 2, 3]", "different", "json", None, "2 items → 3 items")
pair("json-large", b"[9007199254740993]", b"[9007199254740992.0]", "different", "json", None, "9007199254740993")
pair("json-broken", b'{"a": 1}', b'{"a": 1', "none", None, None, "json")

pair("json-zero", b'[0.0, 0, 1]', b'[-0.0, 0, 1]', "different", "json", None, "`$[0]`: 0.0 → -0.0")
pair("json-zero-whole", b'[0]', b'[-0.0]', "different", "json", None, "`$[0]`: 0 → -0.0")


# bytes that no reader looks at: then the bytes of the files decide
def tar_of(name, data=b"", mode=0o644, **more):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        info = tarfile.TarInfo(name)
        info.mode, info.size = mode, len(data)
        for key, value in more.items():
            setattr(info, key, value)
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_with(members, comment=b"", member_comment=b""):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.comment = comment
        for name, data in members:
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.comment = member_comment
            z.writestr(info, data)
    return out.getvalue()


def zip_streamed(members):
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *args):
            raise io.UnsupportedOperation

        tell = seek

    out = Pipe()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


def zip_large(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        for name, data in members:
            with z.open(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), "w", force_zip64=True) as f:
                f.write(data)
    return out.getvalue()


hidden = "belongs to no member"
one = tar(a_b)
at = one.index(b"alpha") + 100
pair("tar-behind", one, one + b"and more", "none", None, None, hidden)
pair("tar-second", one, one + tar(a_b, mtime=3), "none", None, None, hidden)
pair("tar-zeros", one, one + bytes(20480), "same", "tar", None, "headers")
pair("tar-fill", one, one[:at] + b"x" + one[at + 1:], "none", None, None, hidden)
pair("tar-setuid", tar_of("a", b"1", 0o755), tar_of("a", b"1", 0o4755), "different", "tar", "a",
     "mode 0755 → 4755")
pair("tar-xattr", tar_of("a", b"1"),
     tar_of("a", b"1", pax_headers={"SCHILY.xattr.user.x": "y"}), "different", "tar", "a",
     "attributes")
for name, key in (("vendor", "VENDOR.note"), ("comment", "comment"), ("near", "SCHILY.acls")):
    pair("tar-pax-" + name, tar_of("a", b"1"), tar_of("a", b"1", pax_headers={key: "y"}),
         "different", "tar", "a", "pax records")
pair("tar-pax-value", tar_of("a", b"1", pax_headers={"VENDOR.note": "x"}),
     tar_of("a", b"1", pax_headers={"VENDOR.note": "y"}), "different", "tar", "a", "pax records")
pair("tar-pax-times", tar_of("a", b"1", pax_headers={"atime": "1.5"}),
     tar_of("a", b"1", pax_headers={"ctime": "2.5", "uname": "ü"}), "same", "tar")
pair("tar-pax-long", tar_of("d/" * 99 + "a", b"1"), tar_of("d/" * 99 + "a", b"1", mtime=1.5),
     "same", "tar", None, "mtime")
short = tar_of("a", b"1", pax_headers={"VENDOR.note": "x"})
pair("tar-pax-broken", short, short.replace(b"=x\n", b"=xx"), "none", None, None, "pax")


def tar_global(value):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT,
                      pax_headers={"comment": value}) as t:
        t.addfile(tarfile.TarInfo("a"))
    return out.getvalue()


pair("tar-pax-global", tar_global("1"), tar_global("2"), "different", "tar", "a", "pax records")
pair("tar-device", tar_of("a", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
     tar_of("a", type=tarfile.CHRTYPE, devmajor=1, devminor=5), "different", "tar", "a",
     "device 1:3 → 1:5")
pair("tar-uname", tar_of("a", b"1"), tar_of("a", b"1", uname="eve"), "same", "tar", None,
     "owner of member a")
pair("tar-all", tar(a_b), tar(a_b[::-1], mtime=5, mode=0o600, uid=7), "same", "tar", None,
     "mtime of member a.txt, mode of member a.txt, owner of member a.txt, order of members")
pair("zip-comment", zip_with(files), zip_with(files, b"made by eve"), "different", "zip", None,
     "comments")
pair("zip-member-comment", zip_with(files), zip_with(files, b"", b"see"), "different", "zip",
     None, "comments")
pair("zip-behind", zipped(files), zipped(files) + b"and more", "none", None, None, "zip")
pair("zip-before", zipped(files), b"PK\3\4 not a member" + zipped(files), "none", None, None, "zip")
pair("zip-streamed", zipped(files), zip_streamed(files), "same", "zip", None, "headers")
pair("zip-64", zipped(files), zip_large(files), "same", "zip", None, "headers")
streamed, extra = zip_streamed(files), struct.pack("<HH", 0x6363, 5) + b"eve's"
at = streamed.index(b"PK\7\10")
pair("zip-streamed-sizes", streamed, streamed[:at + 8] + b"eve" + streamed[at + 11:], "none", None,
     None, hidden)
pair("zip-streamed-unsigned", streamed, streamed[:at] + b"eve!" + streamed[at + 4:], "none", None,
     None, hidden)


def zip_extra(directory=b"", local=b"", members=files):
    """Each member with these extra fields."""
    out, entries = b"", b""
    for name, data in members:
        name, crc, n = name.encode(), zlib.crc32(data), len(data)
        facts = struct.pack("<HHHHHIIIH", 20, 0, 0, 0, 33, crc, n, n, len(name))
        entries += b"PK\1\2\24\0" + facts + struct.pack("<HHHHII", len(directory), 0, 0, 0, 0, len(out)) + name + directory
        out += b"PK\3\4" + facts + struct.pack("<H", len(local)) + name + local + data
    return out + entries + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(entries), len(out), 0)


def field(kind, data):
    return struct.pack("<HH", kind, len(data)) + data


plain = zip_extra()
times = field(0x5455, b"\1" + bytes(4)), field(0x5455, b"\1" + b"\3" * 4)
owner = field(0x7875, b"\1\4" + bytes(4) + b"\4" + bytes(4))
pair("zip-extra-none", zipped(files), plain, "same", "zip", None, "mtime")
pair("zip-extra-times", zip_extra(times[0], times[0] + owner), zip_extra(times[1], times[1]), "same", "zip", None, "")
pair("zip-extra-order", zip_extra(extra, extra), zip_extra(extra, extra, files[::-1]), "same", "zip", None, "order")
for name, fields in ("local", (b"", extra)), ("directory", (extra, b"")), ("long-times", (b"", field(0x5455, b"\1" * 40))):
    pair("zip-extra-" + name, plain, zip_extra(*fields), "different", "zip", None, "extra fields")
pair("zip-extra-cut", plain, zip_extra(b"", b"abc"), "none", None, None, "zip")
pair("zip-extra-value", zip_extra(b"", extra), zip_extra(b"", extra[:-1] + b"S"), "different", "zip", None, "extra fields")
other_name = plain[:plain.index(b"PK\1\2")] + plain[plain.index(b"PK\1\2"):].replace(b"a.txt", b"b.txt")
pair("zip-other-name", plain, other_name, "none", None, None, "differs from its directory")
image = png(pixels)
gamma = image[:33] + chunk(b"gAMA", struct.pack(">I", 45455)) + image[33:]
pair("png-gamma", image, gamma, "different", "png", None, "chunks beside the pixels")
pair("png-behind", image, image + b"and more", "different", "png", None, "behind the end")
pair("png-second", image, image + image, "different", "png", None, "behind the end")
idat = chunk(b"IDAT", image[41:-16] + b"and more")
pair("png-idat", image, image[:33] + idat + image[-12:], "none", None, None, "png")

# nothing that is known, or not the same on both sides
pair("text", text, changed, "none")
pair("empty", b"", b"", "none")
pair("gzip-and-text", gz(text), text, "none")
# A bomb: what unpacks to more than is allowed has no answer, but ends.
zeros = zlib.compressobj(9, zlib.DEFLATED, 31)
bomb = b"".join(zeros.compress(bytes(1 << 24)) for _ in range(8)) + zeros.flush()
if len(sys.argv) > 2:
    pair("bomb", bomb, gz(bomb), "none")
    pair("bomb-deep", gz(gz(gz(gz(gz(gz(text)))))), gz(gz(gz(gz(gz(gz(text, 1)))))), "different", "gzip+gzip+gzip+gzip", None, "unpacked")

with open(os.path.join(root, "expect.json"), "w", encoding="utf-8") as f:
    json.dump(expect, f)
