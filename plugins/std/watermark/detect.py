#!/usr/bin/env python3
"""Tells whether text carries the watermark of scheme "keyed".

    python detect.py --key 15485863 < ids.json

Standard input is a JSON array of token ids, the prompt left out: what the
server's /tokenize answers for the text, or "ids" of a generation with details.
For scheme "transformers" use transformers' own WatermarkDetector.

The rule, for a window of WIDTH tokens whose last is c:
  seed  = the least SipHash-2-4(key, le32(x) le32(c)) over all x of the window
  green = SipHash-2-4(key, le64(seed) le32(c)) < ratio * 2^64
where key is le64(hashing_key) and eight zero bytes.
"""
import argparse
import collections
import json
import math
import struct
import sys

MASK = (1 << 64) - 1
Score = collections.namedtuple("Score", "scored green z p")


def rotate(x, n):
    return (x << n | x >> (64 - n)) & MASK


def siphash(key, message):
    """SipHash-2-4 (Aumasson and Bernstein, 2012)."""
    k0, k1 = struct.unpack("<QQ", key)
    a, b, c, d = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573

    def rounds(n):
        nonlocal a, b, c, d
        for _ in range(n):
            a = (a + b) & MASK
            c = (c + d) & MASK
            b, d = rotate(b, 13) ^ a, rotate(d, 16) ^ c
            a = (rotate(a, 32) + d) & MASK
            c = (c + b) & MASK
            d, b = rotate(d, 21) ^ a, rotate(b, 17) ^ c
            c = rotate(c, 32)

    size = len(message)
    padded = message + b"\0" * (-(size + 1) % 8) + bytes([size & 255])
    for (word,) in struct.iter_unpack("<Q", padded):
        d ^= word
        rounds(2)
        a ^= word
    c ^= 255
    rounds(4)
    return a ^ b ^ c ^ d


class Rule:
    """What generator and detector agree on."""

    def __init__(self, ratio, key, width):
        self.ratio, self.width, self.key = ratio, width, struct.pack("<QQ", key, 0)

    def green(self, window):
        c = window[-1]
        seed = min(siphash(self.key, struct.pack("<II", x, c)) for x in window)
        return siphash(self.key, struct.pack("<QI", seed, c)) < int(self.ratio * 2.0**64)

    def score(self, tokens):
        """Each distinct window counts once."""
        windows = {tuple(tokens[i : i + self.width]) for i in range(len(tokens) - self.width + 1)}
        n, green = len(windows), sum(map(self.green, windows))
        if n == 0:
            raise SystemExit(f"too short: {len(tokens)} tokens, want at least {self.width}")
        z = (green - self.ratio * n) / math.sqrt(n * self.ratio * (1 - self.ratio))
        return Score(n, green, z, 0.5 * math.erfc(z / math.sqrt(2)))


def main():
    a = argparse.ArgumentParser(description="detects the watermark of scheme keyed")
    a.add_argument("--key", type=int, default=15485863, help="hashing_key")
    a.add_argument("--ratio", type=float, default=0.25, help="greenlist_ratio")
    a.add_argument("--width", type=int, default=4, help="context_width")
    a.add_argument("--threshold", type=float, default=4.0, help="z from which on text counts as watermarked")
    o = a.parse_args()
    ids = [t["id"] if isinstance(t, dict) else t for t in json.load(sys.stdin)]
    s = Rule(o.ratio, o.key, o.width).score(ids)
    print(f"{s.green} of {s.scored} windows green, {o.ratio * s.scored:.1f} expected; z = {s.z:.2f}, p = {s.p:.2g}")
    print("watermarked" if s.z >= o.threshold else "not found")
    sys.exit(0 if s.z >= o.threshold else 1)


if __name__ == "__main__":
    main()
