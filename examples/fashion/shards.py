"""Reads WebDataset shards of 28 x 28 arrays: ordinary Python that knows nothing of Cairn."""

import io
import os
import tarfile

import numpy

NAMES = ["T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Boot"]


def shards(path):
    """All .tar files below a directory (or the file itself), in the order of their names."""
    if os.path.isfile(path):
        return [path]
    return sorted(os.path.join(where, name) for where, _, names in os.walk(path, followlinks=True) for name in names if name.endswith(".tar"))


def load(path):
    """Keys, images (n x 28 x 28, uint8) and labels (n), in the order of the shards."""
    keys, images, labels = [], [], []
    for shard in shards(path):
        with tarfile.open(shard) as tar:
            for member in tar:
                key, _, field = member.name.partition(".")
                data = tar.extractfile(member).read()
                if field == "npy":
                    keys.append(key)
                    images.append(numpy.load(io.BytesIO(data)).reshape(28, 28))
                elif field == "cls":
                    labels.append(int(data))
    if not keys or len(labels) != len(keys):
        raise SystemExit(f"{path}: {len(keys)} images and {len(labels)} labels")
    return keys, numpy.stack(images), numpy.array(labels)
