"""Reads WebDataset shards (tar files) of 8-bit PNG images. With packages: webdataset and Pillow."""

import os
import struct
import tarfile
import zlib


def unfilter(kind, line, above, step):
    """One line of a PNG file as it was before it was filtered (PNG specification, section 9)."""
    for i, v in enumerate(line):
        left, up = line[i - step] if i >= step else 0, above[i]
        corner = above[i - step] if i >= step else 0
        if kind == 4:  # Paeth: the neighbour that is nearest to left + up - corner
            nearest = min((abs(up - corner), 0, left), (abs(left - corner), 1, up),
                          (abs(left + up - 2 * corner), 2, corner))[2]
        else:
            nearest = (0, left, up, (left + up) // 2)[kind]
        line[i] = (v + nearest) & 255
    return line


def read_png(data):
    """The pixels of an 8-bit PNG file in one list, as numbers in 0..1."""
    at, body, head = 8, b"", None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", data[at + 8:at + 21])
        elif kind == b"IDAT":
            body += data[at + 8:at + 8 + size]
        at += size + 12
    width, height, depth, colour = head[:4]
    channels = {0: 1, 2: 3, 4: 2, 6: 4}.get(colour)
    if depth != 8 or channels is None or head[6]:
        raise SystemExit("a PNG file that isn't 8 bits a channel, or is interlaced")
    raw, stride = zlib.decompress(body), width * channels
    pixels, line = [], bytearray(stride)
    for y in range(height):
        start = y * (stride + 1)
        line = unfilter(raw[start], bytearray(raw[start + 1:start + 1 + stride]), line, channels)
        pixels.extend(v / 255 for v in line)
    return pixels


def shards(path):
    """All .tar files below a directory (or the file itself), in the order of their names."""
    if os.path.isfile(path):
        return [path]
    found = [os.path.join(folder, name) for folder, _, names in os.walk(path, followlinks=True)
             for name in names if name.endswith(".tar")]
    return sorted(found)


def load(path):
    """(key, class, pixels) of each sample, in the order of the shards."""
    samples = []
    for shard in shards(path):
        fields = {}  # what each key has: {"class.txt": bytes, "png": bytes}
        with tarfile.open(shard) as tar:
            for member in tar:
                key, _, field = member.name.partition(".")
                fields.setdefault(key, {})[field] = tar.extractfile(member).read()
        samples += [(key, s["class.txt"].decode(), read_png(s["png"])) for key, s in fields.items()]
    if not samples:
        raise SystemExit(f"{path}: there are no samples")
    if len({len(pixels) for _, _, pixels in samples}) > 1:
        raise SystemExit(f"{path}: some pictures have colours, some don't: "
                         "add `- grayscale: {channels: 1}` to `ops` of augment and resize")
    return samples
