"""Writes the cases of the comparison as all engines read them: schemas as text, instances as text and tokens.

    prepare.py compact|flexible TOKENIZER OUT SCHEMAS...

The text is what json.dumps writes: with a space behind commas and colons where white space is flexible, none otherwise.
"""

import json
import sys

from tokenizers import Tokenizer

whitespace, tokenizer, out, *files = sys.argv[1:]
encode = Tokenizer.from_file(tokenizer).encode
separators = (", ", ": ") if whitespace == "flexible" else (",", ":")
cases = []
for path in files:
    with open(path) as f:
        for c in json.load(f):
            texts = [json.dumps(x, ensure_ascii=False, separators=separators) for x in c["instances"]]
            cases.append({
                "Name": c["name"], "Schema": json.dumps(c["schema"], ensure_ascii=False), "Texts": texts,
                "Tokens": [encode(t, add_special_tokens=False).ids for t in texts],
            })  # fmt: skip
with open(tokenizer) as f:
    ends = [a["id"] for a in json.load(f)["added_tokens"] if a["content"] in ("<|end_of_text|>", "<|endoftext|>", "</s>")]
with open(out, "w") as f:
    json.dump({"End": ends[0], "Whitespace": whitespace, "Cases": cases}, f)
