#!/usr/bin/env python3
"""Writes src/letters.bin: the characters beyond ASCII of the general categories
L, M and N, from Python's unicodedata. Left out are variation selectors and
enclosing marks (Me): emoji end with them, and no word goes on behind those.

Ranges in ascending order, four bytes each, the highest first: 20 bits of the
first code point, 12 bits of the number of those behind it. Longer ranges are
several.
"""
import os
import sys
import unicodedata

MOST = 1 << 12

ranges = []
for c in range(0x80, 0x110000):
    category = unicodedata.category(chr(c))
    if category[0] not in "LMN" or category == "Me" or "VARIATION SELECTOR" in unicodedata.name(chr(c), ""):
        continue
    if ranges and ranges[-1][0] + ranges[-1][1] == c and ranges[-1][1] < MOST:
        ranges[-1][1] += 1
    else:
        ranges.append([c, 1])
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "src", "letters.bin")
with open(path, "wb") as f:
    for first, n in ranges:
        f.write((first << 12 | n - 1).to_bytes(4, "big"))
print(f"Unicode {unicodedata.unidata_version}: {len(ranges)} ranges", file=sys.stderr)
