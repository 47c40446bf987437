"""images.py: the work of `augment` by other programs, one thread each.

images.py make OUT.tar N        N JPEG pictures of 500 x 375 (and 375 x 500), about 50 kB each, as a WebDataset shard
images.py TOOL IN.tar OUT.tar   decode, random resized crop to 224, flip with 1/2, JPEG of quality 75, write; TOOL is pillow, opencv, torchvision
                                (its tensors: decode_jpeg, encode_jpeg; transforms.v2 where there is one) or torchvision-pillow.
                                Prints the seconds, without what it takes to start.
"""

import io
import math
import random
import sys
import tarfile
import time

SIDE, QUALITY = 224, 75


def picture(rng, w, h):
    """Noise at all scales, and a little of a sensor's: as many bytes as a photograph."""
    import numpy as np
    from PIL import Image

    sum_ = np.zeros((h, w, 3))
    for k in (4, 8, 16, 32, 64, 128):
        coarse = rng.normal(0, 1, (h // k + 2, w // k + 2, 3)).astype("f4")
        sum_ += k ** 0.5 * np.stack([np.asarray(Image.fromarray(coarse[..., c]).resize((w, h), Image.BICUBIC)) for c in range(3)], -1)
    levels = (sum_ - sum_.mean()) / sum_.std() * 50 + 128 + rng.normal(0, 3, (h, w, 1))
    return Image.fromarray(levels.clip(0, 255).astype("u1"))


def add(t, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    t.addfile(info, io.BytesIO(data))


def make(path, n):
    import numpy as np

    rng = np.random.default_rng(1)
    jpegs = []
    for i in range(min(n, 40)):
        b = io.BytesIO()
        picture(rng, *((500, 375) if i % 4 else (375, 500))).save(b, "JPEG", quality=90)
        jpegs.append(b.getvalue())
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as t:
        for i in range(n):
            add(t, f"{i:06d}.cls", str(i % 10).encode())
            add(t, f"{i:06d}.jpg", jpegs[i % len(jpegs)])


def draw(w, h):
    for _ in range(10):
        area, ratio = w * h * random.uniform(0.08, 1), math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        cw, ch = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < cw <= w and 0 < ch <= h:
            return random.randint(0, w - cw), random.randint(0, h - ch), cw, ch
    return 0, 0, w, h


def pillow():
    from PIL import Image

    def change(data):
        im = Image.open(io.BytesIO(data)).convert("RGB")
        x, y, w, h = draw(*im.size)
        im = im.resize((SIDE, SIDE), Image.BILINEAR, box=(x, y, x + w, y + h))
        if random.random() < 0.5:
            im = im.transpose(Image.FLIP_LEFT_RIGHT)
        out = io.BytesIO()
        im.save(out, "JPEG", quality=QUALITY)
        return out.getvalue()
    return change


def opencv():
    import cv2
    import numpy as np

    cv2.setNumThreads(1)

    def change(data):
        im = cv2.imdecode(np.frombuffer(data, "u1"), cv2.IMREAD_COLOR)
        x, y, w, h = draw(im.shape[1], im.shape[0])
        # Area where it shrinks: the only one of OpenCV's without aliasing.
        im = cv2.resize(im[y:y + h, x:x + w], (SIDE, SIDE), interpolation=cv2.INTER_AREA if w > SIDE and h > SIDE else cv2.INTER_LINEAR)
        if random.random() < 0.5:
            im = cv2.flip(im, 1)
        return cv2.imencode(".jpg", im, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes()
    return change


def transforms():
    import torch

    torch.set_num_threads(1)
    try:
        from torchvision.transforms import v2 as T
    except ImportError:
        from torchvision import transforms as T
    return T.Compose([T.RandomResizedCrop(SIDE, antialias=True), T.RandomHorizontalFlip()])


def torchvision():
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg, encode_jpeg

    apply = transforms()

    def change(data):
        im = decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
        return encode_jpeg(apply(im).contiguous(), QUALITY).numpy().tobytes()
    return change


def torchvision_pillow():
    from PIL import Image

    apply = transforms()

    def change(data):
        out = io.BytesIO()
        apply(Image.open(io.BytesIO(data)).convert("RGB")).save(out, "JPEG", quality=QUALITY)
        return out.getvalue()
    return change


TOOLS = {"pillow": pillow, "opencv": opencv, "torchvision": torchvision, "torchvision-pillow": torchvision_pillow}


def main(what, *args):
    if what == "make":
        return make(args[0], int(args[1]))
    change = TOOLS[what]()
    begin = None
    with tarfile.open(args[0]) as source, tarfile.open(args[1], "w", format=tarfile.USTAR_FORMAT) as out:
        for member in source:
            data = source.extractfile(member).read()
            if member.name.endswith(".jpg"):
                if begin is None:
                    change(data)  # what is done once
                    begin = time.perf_counter()
                data = change(data)
            add(out, member.name, data)
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main(*sys.argv[1:])
