"""Compares files that were built anew with the committed ones.

    python3 compare_goldens.py FOLDER ...

Says of each file of the folders that git sees changed whether its numbers differ by more than TOLERANCE; files that are
neither tensors nor numbers in JSON must have the same bytes. Exits with 1 if any does not.
"""
import gzip
import json
import subprocess
import sys

from safetensors.torch import load

TOLERANCE = 1e-4


def git(*args):
    return subprocess.run(["git", *args], check=True, capture_output=True).stdout


def near(a, b):
    """Whether two values of JSON are equal but for how numbers were rounded."""
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(a, (int, float)) and isinstance(b, (int, float)) and \
            abs(a - b) <= TOLERANCE * max(1, abs(a), abs(b))
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(near, a, b))
    return a == b


def tensors_near(a, b):
    """The same of two safetensors files. Weights must be equal, since their seeds are."""
    a, b = load(a), load(b)
    return a.keys() == b.keys() and all(
        a[k].shape == b[k].shape and a[k].dtype == b[k].dtype and
        bool(((a[k].float() - b[k].float()).abs() <= TOLERANCE * b[k].float().abs().clamp(min=1)).all()) for k in a)


def equal(path):
    old, new = git("show", "HEAD:" + path), open(path, "rb").read()
    if path.endswith(".gz"):
        old, new = gzip.decompress(old), gzip.decompress(new)
    if old == new:
        return True
    if path.endswith(".safetensors"):
        return tensors_near(new, old)
    if path.endswith(".json"):
        return near(json.loads(new), json.loads(old))
    return False


def main(folders):
    rows = git("status", "--porcelain", "-z", "--", *folders).decode().split("\0")
    bad = 0
    for row in filter(None, rows):
        kind, path = row[:2].strip(), row[3:]
        same = kind == "M" and equal(path)
        bad += not same
        print(f"{'rounded otherwise' if same else 'DIFFERS'}: {path}" + ("" if kind == "M" else f" ({kind})"))
    print(f"{len(list(filter(None, rows)))} files are not the committed bytes, {bad} of them differ")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
