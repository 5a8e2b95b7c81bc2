"""Writes suite.json: of each file of the JSON Schema test suite's draft 2020-12 the first group that has two valid instances.

    make_suite.py FOLDER_OF_THE_SUITE

Groups that refer to other documents are passed over. The suite is under the MIT licence: see LICENSE beside this file.
"""

import json
import sys
from pathlib import Path

cases = []
for path in sorted((Path(sys.argv[1]) / "tests/draft2020-12").glob("*.json")):
    for group in json.loads(path.read_text()):
        schema = group["schema"]
        if isinstance(schema, dict):
            schema = {k: v for k, v in schema.items() if k != "$schema"}
        valid = [t["data"] for t in group["tests"] if t["valid"]]
        if len(valid) >= 2 and "http" not in json.dumps(schema):
            cases.append({"name": f"{path.stem}: {group['description']}", "schema": schema, "instances": valid})
            break
lines = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
(Path(__file__).parent / "suite.json").write_text(f"[\n{lines}\n]\n")
