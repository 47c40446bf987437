"""Draws discs, crosses and stripes as PNG files, in a folder a class."""

import argparse
import os
import random
import struct
import zlib

SIDE = 24


def disc(x, y):
    return x * x + y * y < 0.4


def cross(x, y):
    return min(abs(x), abs(y)) < 0.2


def stripes(x, y):
    return int((y + 1.0) * 2.5) % 2 == 0


def draw(rng, shape):
    """SIDE x SIDE levels of gray: the shape a little moved and scaled, on a noisy ground."""
    dx, dy, scale = rng.uniform(-0.25, 0.25), rng.uniform(-0.15, 0.15), rng.uniform(0.8, 1.3)
    light, dark = rng.uniform(130, 230), rng.uniform(30, 110)
    rows = []
    for j in range(SIDE):
        row = bytearray()
        for i in range(SIDE):
            x, y = ((2 * v + 1) / SIDE - 1 for v in (i, j))
            level = light if shape((x - dx) * scale, (y - dy) * scale) else dark
            row.append(max(0, min(255, round(level + rng.gauss(0, 50)))))
        rows.append(bytes(row))
    return rows


def png(rows):
    """The bytes of an 8-bit gray PNG file."""
    def chunk(kind, body):
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True)
    p.add_argument("--count", type=int, required=True, help="pictures a class")
    p.add_argument("--seed", type=int, required=True)
    o = p.parse_args()
    rng = random.Random(o.seed)
    for shape in (disc, cross, stripes):
        folder = os.path.join(o.out, shape.__name__)
        os.makedirs(folder)
        for i in range(o.count):
            with open(os.path.join(folder, f"{i:04d}.png"), "wb") as f:
                f.write(png(draw(rng, shape)))


if __name__ == "__main__":
    main()
