"""Writes pictures of every kind that the package reads, and in goldens.json the pixels that Pillow gives for each.

The pixels are those of transformers' load_image: PIL.ImageOps.exif_transpose, then convert("RGB").
Grey of 16 bits is left out: Pillow clips it, so that mostly white remains.
Run: pip install pillow==13.0.0 numpy && python make_goldens.py
"""

import base64
import io
import json
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps, features

here = pathlib.Path(__file__).parent
files = {}


def picture(w, h, channels):
    """A picture with slopes, sharp edges and some noise."""
    y, x = np.mgrid[0:h, 0:w]
    r = np.random.default_rng(w * 1000 + h)
    p = np.zeros((h, w, 4))
    p[..., 0] = 255 * x / max(1, w - 1)
    p[..., 1] = 255 * y / max(1, h - 1)
    p[..., 2] = np.where((x // 5 + y // 4) % 2 == 0, 250, 10)
    p[..., 3] = 255 * ((x + y) % 7) / 6
    p[h // 3: h // 2, w // 4: w // 2, :3] = (255, 0, 40)
    p[..., :3] += r.integers(-9, 10, (h, w, 3))
    return np.clip(p, 0, 255).astype(np.uint8)[..., :channels]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(samples, depth, color, palette=None, trns=None, adam7=False, before=b"", after=b""):
    """samples: [height, width, channels] of whole numbers below 2**depth."""
    h, w, c = samples.shape

    def rows(s):
        out = b""
        for row in s:
            bits = "".join(format(int(v), f"0{depth}b") for v in row.reshape(-1))
            bits += "0" * (-len(bits) % 8)
            out += b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")
        return out

    raw = b""
    if adam7:
        for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
                               (0, 1, 1, 2)):
            part = samples[y0::dy, x0::dx]
            if part.size:
                raw += rows(part)
    else:
        raw = rows(samples)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, int(adam7)))
    if palette is not None:
        out += chunk(b"PLTE", palette)
    if trns is not None:
        out += chunk(b"tRNS", trns)
    return out + before + chunk(b"IDAT", zlib.compress(raw, 9)) + after + chunk(b"IEND", b"")


def pngs():
    w, h = 21, 13
    rgba = picture(w, h, 4).astype(int)
    grey = rgba[..., :1]
    wide = rgba * 257 // 1 - rgba % 3 * 40
    wide = np.clip(wide, 0, 65535)
    for depth in (1, 2, 4, 8):
        for adam7 in (False, True):
            name = f"{depth}{'-interlaced' if adam7 else ''}.png"
            files["grey-" + name] = png(grey >> (8 - depth), depth, 0, adam7=adam7)
            n = 1 << depth
            palette = bytes((i * 37 + k * 91) % 256 for i in range(n) for k in range(3))
            files["palette-" + name] = png(grey >> (8 - depth), depth, 3, palette, adam7=adam7)
            files["palette-transparent-" + name] = png(grey >> (8 - depth), depth, 3, palette,
                                                       bytes((i * 80) % 256 for i in range(min(n, 9))), adam7=adam7)
            files["grey-transparent-" + name] = png(grey >> (8 - depth), depth, 0, trns=struct.pack(">H", n // 2),
                                                    adam7=adam7)
    for adam7 in (False, True):
        name = "-interlaced.png" if adam7 else ".png"
        files["rgb-8" + name] = png(rgba[..., :3], 8, 2, adam7=adam7)
        files["rgb-16" + name] = png(wide[..., :3], 16, 2, adam7=adam7)
        files["rgba-8" + name] = png(rgba, 8, 6, adam7=adam7)
        files["rgba-16" + name] = png(wide, 16, 6, adam7=adam7)
        files["grey-alpha-8" + name] = png(rgba[..., [0, 3]], 8, 4, adam7=adam7)
        files["grey-alpha-16" + name] = png(wide[..., [0, 3]], 16, 4, adam7=adam7)
        files["rgb-transparent-8" + name] = png(rgba[..., :3], 8, 2, trns=struct.pack(">HHH", *rgba[3, 3, :3]),
                                                adam7=adam7)
        files["rgb-transparent-16" + name] = png(wide[..., :3], 16, 2, trns=struct.pack(">HHH", *wide[3, 3, :3]),
                                                 adam7=adam7)
    files["pixel.png"] = png(rgba[:1, :1, :3], 8, 2)
    files["animated.png"] = png(rgba[..., :3], 8, 2, before=chunk(b"acTL", struct.pack(">II", 1, 0)) + chunk(
        b"fcTL", struct.pack(">IIIIIHHBB", 0, w, h, 0, 0, 1, 10, 0, 0)))
    files["exif.png"] = png(rgba[..., :3], 8, 2, before=chunk(b"eXIf", exif(6)[6:]))
    files["exif-after.png"] = png(rgba[..., :3], 8, 2, after=chunk(b"eXIf", exif(8, ">")[6:]))
    files["xmp.png"] = png(rgba[..., :3], 8, 2, before=chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(3)))


def exif(orientation, order="<"):
    entries = [(0x010F, 2, 4, b"Me\0\0"), (0x0112, 3, 1, struct.pack(order + "HH", orientation, 0))]
    tiff = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries))
    for tag, kind, count, value in entries:
        tiff += struct.pack(order + "HHI", tag, kind, count) + value
    return b"Exif\0\0" + tiff + struct.pack(order + "I", 0)


def xmp(orientation):
    return (b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>' % orientation)


def saved(image, form, **options):
    b = io.BytesIO()
    image.save(b, form, **options)
    return b.getvalue()


def segment(jpeg, marker, data):
    """Puts a segment behind the start of a JPEG."""
    return jpeg[:2] + struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data + jpeg[2:]


def jpegs():
    for w, h in ((37, 29), (64, 48), (5, 3), (2, 2), (1, 1), (33, 17)):
        im = Image.fromarray(picture(w, h, 3))
        for sub in ("4:4:4", "4:2:2", "4:2:0", "4:1:1"):
            name = f"{sub.replace(':', '')}-{w}x{h}.jpg"
            files["jpeg-" + name] = saved(im, "JPEG", quality=90, subsampling=sub)
        files[f"jpeg-progressive-{w}x{h}.jpg"] = saved(im, "JPEG", quality=75, progressive=True)
    im = Image.fromarray(picture(37, 29, 3))
    # 4:4:0 is 4:2:2 of the picture on its side: the factors of luma are exchanged in the frame's header, and blocks
    # of luma stand one above the other. The pixels differ, which is of no matter.
    b = bytearray(saved(im.crop((0, 0, 32, 29)), "JPEG", quality=90, subsampling="4:2:2"))
    at = b.index(b"\xff\xc0")
    b[at + 5:at + 9] = struct.pack(">HH", 58, 16)
    b[at + 11] = 0x12
    files["jpeg-440.jpg"] = bytes(b)
    files["jpeg-low.jpg"] = saved(im, "JPEG", quality=10)
    files["jpeg-best.jpg"] = saved(im, "JPEG", quality=100, subsampling="4:4:4")
    files["jpeg-restart.jpg"] = saved(im, "JPEG", quality=80, restart_marker_blocks=2)
    files["jpeg-grey.jpg"] = saved(im.convert("L"), "JPEG", quality=90)
    files["jpeg-grey-progressive.jpg"] = saved(im.convert("L"), "JPEG", quality=90, progressive=True)
    files["jpeg-rgb.jpg"] = saved(im, "JPEG", quality=90, keep_rgb=True)
    files["jpeg-cmyk.jpg"] = saved(Image.frombytes("CMYK", (37, 29), picture(37, 29, 4).tobytes()), "JPEG", quality=95)
    ycck = bytearray(files["jpeg-cmyk.jpg"])
    ycck[ycck.index(b"Adobe") + 11] = 2
    files["jpeg-ycck.jpg"] = bytes(ycck)
    oriented = saved(im.crop((0, 0, 23, 11)), "JPEG", quality=90)
    for o in range(10):
        files[f"exif-{o}.jpg"] = segment(oriented, 0xE1, exif(o, "<>"[o % 2]))
    files["xmp.jpg"] = segment(oriented, 0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp(6))
    files["exif-and-xmp.jpg"] = segment(segment(oriented, 0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp(6)), 0xE1,
                                        exif(1))
    files["exif-broken.jpg"] = segment(oriented, 0xE1, b"Exif\0\0II*\0\xff\xff\xff\xff")


def gifs():
    im = Image.fromarray(picture(37, 29, 3))
    p = im.quantize(64)
    files["plain.gif"] = saved(p, "GIF")
    files["interlaced.gif"] = saved(p, "GIF", interlace=True)
    files["straight.gif"] = saved(p, "GIF", interlace=False)
    files["transparent.gif"] = saved(p, "GIF", transparency=3)
    files["grey.gif"] = saved(im.convert("L"), "GIF")
    frames = [im.rotate(a).quantize(32) for a in (40, 80, 120)]
    files["animated.gif"] = saved(p, "GIF", save_all=True, append_images=frames, duration=50)
    # The first frame covers a part of the screen.
    b = files["plain.gif"]
    part = bytearray(b)
    part[6:10] = struct.pack("<HH", 50, 40)
    for name, change in (("part.gif", {}), ("part-background.gif", {11: 5})):
        q = bytearray(part)
        for at, v in change.items():
            q[at] = v
        at = q.index(struct.pack("<BHHHH", 0x2C, 0, 0, 37, 29))
        q[at + 1:at + 5] = struct.pack("<HH", 7, 6)
        files[name] = bytes(q)
    q = bytearray(files["transparent.gif"])
    q[6:10] = struct.pack("<HH", 50, 40)
    files["part-transparent.gif"] = bytes(q)


def webps():
    for w, h in ((37, 29), (64, 48), (2, 2), (1, 1), (16, 3)):
        im = Image.fromarray(picture(w, h, 3))
        rgba = Image.fromarray(picture(w, h, 4))
        files[f"lossy-{w}x{h}.webp"] = saved(im, "WEBP", quality=80)
        files[f"lossy-alpha-{w}x{h}.webp"] = saved(rgba, "WEBP", quality=80)
        files[f"lossless-{w}x{h}.webp"] = saved(im, "WEBP", lossless=True)
        files[f"lossless-alpha-{w}x{h}.webp"] = saved(rgba, "WEBP", lossless=True, exact=True)
    im = Image.fromarray(picture(37, 29, 3))
    files["low.webp"] = saved(im, "WEBP", quality=5)
    files["exif.webp"] = saved(im, "WEBP", quality=80, exif=exif(6))
    files["xmp.webp"] = saved(im, "WEBP", quality=80, xmp=xmp(8))
    files["animated.webp"] = saved(im, "WEBP", save_all=True, append_images=[im.rotate(90), im.rotate(45)],
                                   quality=80)
    files["animated-lossless.webp"] = saved(im, "WEBP", save_all=True, append_images=[im.rotate(90)], lossless=True)


def main():
    pngs()
    jpegs()
    gifs()
    webps()
    goldens = {}
    for name, data in sorted(files.items()):
        (here / "pictures").mkdir(exist_ok=True)
        (here / "pictures" / name).write_bytes(data)
        opened = Image.open(io.BytesIO(data))
        mode = opened.mode
        try:
            im = ImageOps.exif_transpose(opened).convert("RGB")
        except Exception as e:
            print("Pillow refuses", name, e)
            (here / "pictures" / name).unlink()
            continue
        goldens[name] = {"mode": mode, "width": im.width, "height": im.height,
                         "rgb": base64.b64encode(zlib.compress(im.tobytes(), 9)).decode()}
    about = f"Pillow {Image.__version__}, libjpeg-turbo {features.version('libjpeg_turbo')}, " \
            f"libwebp {features.version('webp')}"
    (here / "goldens.json").write_text(json.dumps({"by": about, "pictures": goldens}, indent=0) + "\n")
    print(about, len(goldens))


main()
