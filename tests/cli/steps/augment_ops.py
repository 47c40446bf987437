"""augment_ops.py WORK: holds each op of `cairn step augment` against torchvision and Pillow, pixel by pixel.

The step runs with `record: true`; what it says it has drawn is fed to torchvision's functional op on the same image. Prints one line an op:
`ok NAME max M mean D (at most M', D')` or `not ok ...`. Exit 77 without torchvision, Pillow or numpy, 1 when an op is out of its tolerance.
"""

import io
import json
import math
import os
import subprocess
import sys
import tarfile

try:
    import numpy as np
    import torch
    import torchvision.transforms.functional as F
    from PIL import Image, ImageOps
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.autoaugment import RandAugment, _apply_op
except ImportError as why:
    print(f"no torchvision here: {why}")
    sys.exit(77)

WORK = sys.argv[1]
MODES = {"nearest": InterpolationMode.NEAREST, "bilinear": InterpolationMode.BILINEAR, "bicubic": InterpolationMode.BICUBIC,
         "box": InterpolationMode.BOX, "lanczos": InterpolationMode.LANCZOS}
# Largest difference of a level, and the mean over all, per op. 0: the same pixels.
TOLERANCE = {
    "resize": (0, 0), "resize both": (0, 0), "resize larger": (0, 0), "center_crop": (0, 0), "center_crop larger": (0, 0), "random_crop": (0, 0),
    "random_resized_crop": (0, 0), "flip": (0, 0), "rotate": (0, 0), "rotate bilinear": (1, 0.5), "rotate expand": (0, 0), "affine": (0, 0),
    "affine bilinear": (1, 0.5), "brightness": (1, 0.001), "contrast": (1, 0.001), "saturation": (1, 0.001), "hue": (1, 0.3), "color_jitter": (3, 0.3),
    "grayscale": (0, 0), "blur": (1, 0.002), "cutout": (0, 0), "normalize": (1e-6, 1e-7), "rand_augment": (1, 0.001), "rand_augment strong": (2, 0.01),
}


def picture(seed, w, h, mode="RGB"):
    """Smooth shapes, edges and some noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w]
    planes = []
    for _ in range(3):
        a, b, c = rng.uniform(0.02, 0.2, 3)
        plane = 110 + 60 * np.sin(a * x + c * y) + 50 * np.cos(b * y) + 40 * (x > w * rng.uniform(0.2, 0.8)) + rng.normal(0, 6, (h, w))
        planes.append(plane)
    image = Image.fromarray(np.stack(planes, -1).clip(0, 255).astype("u1"))
    return image.convert(mode)


SIZES = [(64, 48), (48, 64), (33, 57), (100, 100), (31, 31), (128, 97)]
PICTURES = {f"p{i:02d}": picture(i, *SIZES[i % len(SIZES)], "L" if i % 5 == 4 else "RGB") for i in range(30)}


def as_bytes(image, kind, **more):
    b = io.BytesIO()
    image.save(b, kind, **more)
    return b.getvalue()


def write_shard(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as t:
        for key, fields in samples.items():
            for name, data in fields.items():
                info = tarfile.TarInfo(f"{key}.{name}")
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))


def read_shard(path):
    samples = {}
    with tarfile.open(path) as t:
        for m in t:
            key, name = m.name.split(".", 1)
            samples.setdefault(key, {})[name] = t.extractfile(m).read()
    return samples


def augment(source, ops, **more):
    out = os.path.join(WORK, "out.tar")
    settings = {"ops": ops, "seed": 3, "record": True, "to": "npy", **more}
    subprocess.run(["cairn", "step", "augment", "-i", f"shard={source}", "-o", f"shard={out}", "--with-json", json.dumps(settings)],
                   check=True, stderr=subprocess.DEVNULL)
    return read_shard(out)


def drawn(sample):
    (image,) = json.loads(sample["augment.json"])["images"].values()
    return image["ops"]


def array(sample):
    return np.load(io.BytesIO(sample["npy"]))


failed = False


def judge(name, pairs):
    """pairs: (got, wanted), arrays."""
    global failed
    worst, total, n = 0.0, 0.0, 0
    most, most_mean = TOLERANCE[name]
    shapes = True
    for got, want in pairs:
        if got.shape != want.shape:
            print(f"# {name}: shape {got.shape}, not {want.shape}")
            shapes = False
            continue
        d = np.abs(got.astype("f8") - want.astype("f8"))
        worst, total, n = max(worst, d.max()), total + d.sum(), n + d.size
    mean = total / max(n, 1)
    good = shapes and n > 0 and worst <= most and mean <= most_mean
    failed |= not good
    print(f"{'ok' if good else 'not ok'} {name}: max {worst:.3g} mean {mean:.3g} (at most {most}, {most_mean}; {n} levels)")


SOURCE = os.path.join(WORK, "pictures.tar")


def check(name, op, apply, keys=None):
    """apply(image, drawn) → what torchvision makes of it."""
    got = augment(SOURCE, [op])
    pairs = []
    for key, image in PICTURES.items():
        d = drawn(got[key])[0]
        want = image if d.get("applied") is False else apply(image, d)
        pairs.append((array(got[key]), np.asarray(want)))
    judge(name, pairs)


def window(image, d, mode):
    return F.resized_crop(image, d["y"], d["x"], d["height"], d["width"], [d["to_height"], d["to_width"]], MODES[mode])


def check_windows():
    for mode in MODES:
        TOLERANCE[f"resize {mode}"] = TOLERANCE["resize"]
        check(f"resize {mode}", {"resize": {"size": 24, "filter": mode}}, lambda i, d, m=mode: F.resize(i, 24, MODES[m]))
    check("resize both", {"resize": [20, 50]}, lambda i, d: F.resize(i, [20, 50]))
    check("resize larger", {"resize": {"size": [150, 201], "filter": "bicubic"}}, lambda i, d: F.resize(i, [150, 201], InterpolationMode.BICUBIC))
    check("center_crop", {"center_crop": [20, 31]}, lambda i, d: F.center_crop(i, [20, 31]))
    check("center_crop larger", {"center_crop": [60, 75]}, lambda i, d: F.center_crop(i, [60, 75]))
    for mode in ("constant", "edge", "reflect", "symmetric"):
        TOLERANCE[f"random_crop {mode}"] = TOLERANCE["random_crop"]
        check(f"random_crop {mode}", {"random_crop": {"size": [30, 28], "padding": [9, 5, 4, 7], "mode": mode}},
              lambda i, d, m=mode: F.crop(F.pad(i, [9, 5, 4, 7], 0, m), d["y"] + 5, d["x"] + 9, 30, 28))
    for mode in MODES:
        TOLERANCE[f"random_resized_crop {mode}"] = TOLERANCE["random_resized_crop"]
        check(f"random_resized_crop {mode}", {"random_resized_crop": {"size": 28, "filter": mode}}, lambda i, d, m=mode: window(i, d, m))


def fill_of(image, level):
    return level if image.mode == "L" else [level] * 3


def check_warps():
    check("flip", {"flip": {"direction": "horizontal", "p": 0.5}}, lambda i, d: F.hflip(i))
    check("flip", {"flip": {"direction": "vertical", "p": 0.5}}, lambda i, d: F.vflip(i))
    check("rotate", {"rotate": {"degrees": 180, "fill": 7}}, lambda i, d: F.rotate(i, d["degrees"], fill=fill_of(i, 7)))
    check("rotate", {"rotate": {"degrees": [90, 90]}}, lambda i, d: F.rotate(i, 90))
    check("rotate bilinear", {"rotate": {"degrees": 180, "filter": "bilinear"}}, lambda i, d: F.rotate(i, d["degrees"], InterpolationMode.BILINEAR))
    check("rotate expand", {"rotate": {"degrees": 180, "expand": True}}, lambda i, d: F.rotate(i, d["degrees"], expand=True))
    for mode, name in (("nearest", "affine"), ("bilinear", "affine bilinear")):
        check(name, {"affine": {"degrees": 60, "translate": [0.2, 0.1], "scale": [0.7, 1.4], "shear": [-20, 20, -10, 10], "filter": mode, "fill": 50}},
              lambda i, d, m=mode: F.affine(i, d["degrees"], [d["translate_x"], d["translate_y"]], d["scale"], [d["shear_x"], d["shear_y"]], MODES[m],
                                            fill=fill_of(i, 50)))


def hue(image, turns):
    """By torchvision's tensors: Pillow's HSV has 8 bits."""
    t = F.adjust_hue(F.pil_to_tensor(image), turns) if image.mode == "RGB" else F.pil_to_tensor(image)
    return F.to_pil_image(t)


ENHANCE = {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast, "saturation": F.adjust_saturation, "hue": hue}


def jitter(image, d):
    for name in d["order"]:
        if d[name] == (0 if name == "hue" else 1):
            continue
        image = ENHANCE[name](image, d[name])
    return image


def check_colours():
    for name, amount in (("brightness", 0.8), ("contrast", 0.8), ("saturation", 0.9), ("hue", 0.5)):
        check(name, {"color_jitter": {name: amount}}, jitter)
    check("color_jitter", {"color_jitter": {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3, "hue": 0.1, "p": 0.7}}, jitter)
    check("grayscale", {"grayscale": {"p": 0.5}}, lambda i, d: F.to_grayscale(i, len(i.getbands())))
    check("grayscale", {"grayscale": {"channels": "1"}}, lambda i, d: i.convert("L"))


def check_filters():
    def blur(image, d):
        k = 2 * math.ceil(3 * d["sigma"]) + 1
        return F.gaussian_blur(image, [k, k], [d["sigma"], d["sigma"]])

    check("blur", {"blur": {"sigma": [0.3, 4.0]}}, blur)
    check("blur", {"blur": {"sigma": 1.5, "kernel": 5}}, lambda i, d: F.gaussian_blur(i, [5, 5], [1.5, 1.5]))

    def cutout(image, d):
        a = np.array(image)
        for c in d["centres"]:
            a[max(c["y"] - 5, 0):c["y"] + 6, max(c["x"] - 6, 0):c["x"] + 6] = 9
        return a

    check("cutout", {"cutout": {"size": [11, 12], "holes": 3, "fill": 9}}, cutout)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    got = augment(SOURCE, [{"normalize": {"mean": mean, "std": std}}])
    pairs = [(array(got[k]), F.normalize(F.to_tensor(i), mean[:len(i.getbands())], std[:len(i.getbands())]).numpy()) for k, i in PICTURES.items()]
    judge("normalize", pairs)


def rand_augment(image, d):
    for op in d["ops"]:
        image = _apply_op(image, op["op"], op["amount"], InterpolationMode.NEAREST, fill_of(image, 0))
    return image


def check_rand_augment():
    check("rand_augment", {"rand_augment": {"n": 1, "magnitude": 9}}, rand_augment)
    check("rand_augment strong", {"rand_augment": {"n": 2, "magnitude": 25}}, rand_augment)
    # The magnitudes are torchvision's own.
    wrong = []
    for key, sample in augment(SOURCE, [{"rand_augment": {"n": 14, "magnitude": 17}}]).items():
        w, h = PICTURES[key].size
        space = RandAugment()._augmentation_space(31, (h, w))
        for op in drawn(sample)[0]["ops"]:
            magnitudes, signed = space[op["op"]]
            size = {"TranslateX": w, "TranslateY": h}.get(op["op"])
            want = 150 / 331 * size * 17 / 30 if size else float(magnitudes[17]) if magnitudes.ndim > 0 else 0.0
            if abs(abs(op["amount"]) - want) > 1e-4 or (op["amount"] < 0 and not signed):
                wrong.append((key, op, want))
    print(f"{'not ok' if wrong else 'ok'} rand_augment magnitudes: {wrong[:3] if wrong else 'torchvision has the same'}")
    return bool(wrong)


def decoders():
    """JPEG: the same pixels as Pillow, whole and by windows; PNG of all kinds."""
    rng = np.random.default_rng(5)
    big = picture(77, 500, 375)
    kinds = {}
    for i, (sub, progressive, gray) in enumerate([(s, p, g) for s in (0, 1, 2) for p in (False, True) for g in (False, True)]):
        im = big.convert("L") if gray else big
        kinds[f"j{i:02d}"] = as_bytes(im, "JPEG", quality=85, subsampling=sub, progressive=progressive)
    kinds["cmyk"] = as_bytes(big.convert("CMYK"), "JPEG", quality=90)
    path = os.path.join(WORK, "jpeg.tar")
    samples = {f"{k}-{n:02d}": {"jpg": data} for k, data in kinds.items() for n in range(12)}
    write_shard(path, samples)
    got = augment(path, [{"random_resized_crop": {"size": [40, 60], "scale": [0.001, 1.0]}}], scaled_decode=False)
    pairs = []
    for key, sample in got.items():
        if key.startswith("cmyk"):
            continue
        pairs.append((array(sample), np.asarray(window(Image.open(io.BytesIO(samples[key]["jpg"])), drawn(sample)[0], "bilinear"))))
    TOLERANCE.update({"windows of JPEG": (0, 0), "whole JPEG": (0, 0), "CMYK": (0, 0), "scaled JPEG": (16, 1.3), "PNG": (0, 0), "16-bit PNG": (0, 0)})
    judge("windows of JPEG", pairs)
    got = augment(path, [])
    judge("whole JPEG", [(array(s), np.asarray(Image.open(io.BytesIO(samples[k]["jpg"])))) for k, s in got.items() if k.startswith("j")])
    judge("CMYK", [(array(s), np.asarray(Image.open(io.BytesIO(samples[k]["jpg"])).convert("RGB"))) for k, s in got.items() if k.startswith("cmyk")])
    exact, scaled = augment(path, [{"resize": [30, 40]}], scaled_decode=False), augment(path, [{"resize": [30, 40]}])
    judge("scaled JPEG", [(array(scaled[k]), array(exact[k])) for k in exact])
    if all((array(scaled[k]) == array(exact[k])).all() for k in exact):
        print("not ok scaled JPEG: it was not scaled")
        return True
    pngs = {"rgb": big.crop((0, 0, 61, 40)), "l": big.convert("L").crop((0, 0, 61, 40)), "p": big.crop((0, 0, 61, 40)).quantize(30),
            "p4": big.crop((0, 0, 61, 40)).quantize(9), "one": big.convert("1").crop((0, 0, 61, 40)), "rgba": big.crop((0, 0, 61, 40)).copy(),
            "la": big.convert("LA").crop((0, 0, 61, 40))}
    pngs["rgba"].putalpha(Image.fromarray(rng.integers(0, 256, (40, 61), dtype="u1")))
    path = os.path.join(WORK, "png.tar")
    write_shard(path, {k: {"png": as_bytes(i, "PNG", **({"bits": 4} if k == "p4" else {}))} for k, i in pngs.items()})
    got = augment(path, [])
    gray = ("l", "one", "la")
    judge("PNG", [(array(got[k]), np.asarray(i.convert("L" if k in gray else "RGB"))) for k, i in pngs.items()])
    TOLERANCE.update({"background": (1, 0.5), "palette's indices": (0, 0)})
    base = Image.new("RGBA", pngs["rgba"].size, (200, 10, 90, 255))
    got = augment(path, [], background=[200, 10, 90])
    judge("background", [(array(got[k]), np.asarray(Image.alpha_composite(base, pngs[k].convert("RGBA")).convert("RGB"))) for k in ("rgba", "la")])
    got = augment(path, [], masks=["png"], to="keep")
    judge("palette's indices", [(np.asarray(Image.open(io.BytesIO(got[k]["png"]))), np.asarray(pngs[k])) for k in ("p", "p4", "l")])
    deep = rng.integers(0, 65536, (20, 30), dtype="u2")
    path = os.path.join(WORK, "deep.tar")
    write_shard(path, {"deep": {"png": as_bytes(Image.fromarray(deep.astype("i4"), "I"), "PNG")}})
    judge("16-bit PNG", [(array(augment(path, [], image=["png"])["deep"]), (deep / 257.0).round())])
    return False


def orientations():
    """Turned upright as Pillow does, whole and by windows."""
    image, samples = picture(3, 61, 40), {}
    for o in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = o
        samples[f"o{o}"] = {"jpg": as_bytes(image, "JPEG", exif=exif), "cls": b"1"}
        samples[f"p{o}"] = {"png": as_bytes(image, "PNG", exif=exif)}
    path = os.path.join(WORK, "orientations.tar")
    write_shard(path, samples)
    stored = {k: Image.open(io.BytesIO(f.get("jpg") or f["png"])) for k, f in samples.items()}
    upright = {k: ImageOps.exif_transpose(i) for k, i in stored.items()}
    TOLERANCE.update({"upright": (0, 0), "upright windows": (0, 0), "as stored": (0, 0)})
    judge("upright", [(array(s), np.asarray(upright[k])) for k, s in augment(path, []).items()])
    judge("as stored", [(array(s), np.asarray(stored[k])) for k, s in augment(path, [], orientation="ignore").items()])
    got = augment(path, [{"random_resized_crop": [9, 11]}], scaled_decode=False)
    judge("upright windows", [(array(s), np.asarray(window(upright[k], drawn(s)[0], "bilinear"))) for k, s in got.items()])


def main():
    write_shard(SOURCE, {k: {"png": as_bytes(i, "PNG"), "cls": b"1"} for k, i in PICTURES.items()})
    check_windows()
    check_warps()
    check_colours()
    check_filters()
    bad = check_rand_augment()
    bad |= decoders()
    orientations()
    return 1 if failed or bad else 0


sys.exit(main())
