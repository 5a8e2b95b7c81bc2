#!/usr/bin/env python3
"""Writes strings.tsv: texts in UTF-8 as hexadecimal digits, and as Python's json.dumps writes them."""
import json
import pathlib

texts = [chr(c) for c in range(0x180)] + [
    "", "plain", "é…“x”", "\u2028\u2029", "\ud7ff\ue000\ufffd\uffff", "\U00010000\U0001f600\U0010ffff", "<&>'/\\\"", "a" * 100 + "é",
]
lines = [f"{t.encode().hex()}\t{json.dumps(t)}\n" for t in texts]
pathlib.Path(__file__).with_name("strings.tsv").write_text("".join(lines))
