"""Writes suite.json: groups of the official JSON Schema test suite, drafts 2020-12 and 7, each with what is valid and what is not.

    make_suite.py FOLDER_OF_THE_SUITE

Taken are groups that have both, do not refer to other documents, and are not in passed_over.txt, each line of which is a
group, a tab, and why: the server refuses it, or the validator reads it otherwise. At most four of a file of draft 2020-12 and two of draft 7, so that no keyword
outweighs the others. The suite is under the MIT licence: see LICENSE beside this file.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
DRAFTS = {"draft2020-12": ("https://json-schema.org/draft/2020-12/schema", 4), "draft7": ("http://json-schema.org/draft-07/schema#", 2)}
# An annotation in 2020-12: only those of draft 7 are held against the validator's format checks.
FORMATS = "optional/format"
passed_over = {line.split("\t")[0] for line in (HERE / "passed_over.txt").read_text().splitlines()}

cases = []
for draft, (dialect, most) in DRAFTS.items():
    root = Path(sys.argv[1]) / "tests" / draft
    files = sorted(root.glob("*.json")) + (sorted((root / FORMATS).glob("*.json")) if draft == "draft7" else [])
    for path in files:
        if path.stem in ("format", "refRemote", "infinite-loop-detection", "vocabulary"):
            continue
        taken = 0
        for group in json.loads(path.read_text()):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": dialect} | schema
            elif draft == "draft7":
                continue
            inner = {k: v for k, v in schema.items() if k != "$schema"} if isinstance(schema, dict) else schema
            valid = [t["data"] for t in group["tests"] if t["valid"]]
            invalid = [t["data"] for t in group["tests"] if not t["valid"]]
            name = f"{draft} {path.stem}: {group['description']}"
            if taken == most or not valid or not invalid or "http" in json.dumps(inner) or name in passed_over:
                continue
            taken += 1
            cases.append({"name": name, "schema": schema, "valid": valid[0], "invalid": invalid[0]})
lines = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
(HERE / "suite.json").write_text(f"[\n{lines}\n]\n")
print(len(cases), "schemas")
