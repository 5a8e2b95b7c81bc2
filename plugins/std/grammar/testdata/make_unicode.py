#!/usr/bin/env python3
"""Writes ../src/unicode.bin: the general category of every code point, from
Python's unicodedata.

Ranges of one category in ascending order, each as one byte (index into NAMES)
and its length as a base-128 varint. Code points without a category (Cn) are
ranges too, so every range begins where the one before ended.
"""
import os
import sys
import unicodedata

NAMES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return out


table, start = bytearray(), 0
for c in range(1, 0x110001):
    if c == 0x110000 or unicodedata.category(chr(c)) != unicodedata.category(chr(start)):
        table.append(NAMES.index(unicodedata.category(chr(start))))
        table += varint(c - start)
        start = c
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "unicode.bin")
with open(path, "wb") as f:
    f.write(table)
print(f"Unicode {unicodedata.unidata_version}: {len(table)} bytes", file=sys.stderr)
