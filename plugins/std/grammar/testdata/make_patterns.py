#!/usr/bin/env python3
"""Writes patterns.json: random regular expressions, and which texts Python's re
finds a match in (search) and matches as a whole (full).

Only what Python and ECMA-262 read alike: ASCII, no line ends in the texts.
"""
import json
import os
import random
import re

r = random.Random(2026)


def atom(depth):
    k = r.randrange(12)
    if k < 5:
        return r.choice("ab0-")
    if k < 6:
        return "."
    if k < 8:
        return r.choice(["[ab]", "[^a]", "[a-c0]", "[^-b]", "\\d", "\\w", "[\\d-]", "\\W"])
    if depth == 0:
        return "a"
    if k < 11:
        return r.choice(["(%s)", "(?:%s)", "(?:%s)"]) % alternatives(depth - 1)
    return r.choice(["(?=%s)", "(?!%s)"]) % alternatives(depth - 1)


def sequence(depth):
    out = []
    for _ in range(r.randrange(1, 4)):
        a = atom(depth)
        if not a.startswith(("(?=", "(?!")) and r.randrange(3) == 0:
            a += r.choice(["*", "+", "?", "{2}", "{1,2}", "{2,}", "{0,3}", "*?"])
        out.append(a)
    return "".join(out)


def alternatives(depth):
    out = [sequence(depth) for _ in range(r.choice([1, 1, 2, 3]))]
    if r.randrange(8) == 0:
        out[0] = "^" + out[0]
    if r.randrange(8) == 0:
        out[-1] += "$"
    return "|".join(out)


texts = [""] + ["".join(r.choice("ab0-c") for _ in range(r.randrange(1, 6))) for _ in range(23)]
cases = []
while len(cases) < 600:
    p = alternatives(2)
    try:
        c = re.compile(p)
    except re.error:
        continue
    found = "".join("1" if c.search(t) else "0" for t in texts)
    full = "".join("1" if c.fullmatch(t) else "0" for t in texts)
    cases.append([p, found, full])
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "patterns.json")
with open(path, "w") as f:
    json.dump({"texts": texts, "cases": cases}, f, separators=(",", ":"))
    f.write("\n")
