#!/usr/bin/env python3
"""Records what the reference library makes of texts of which parts are data.

    pip install -r requirements.txt
    python3 make_span_goldens.py

The library cannot be told where data is. But where a text is all data, the ids
are those of the same tokenizer without the withheld tokens among its added
ones; and what stands between two added tokens is encoded by itself, so that the
ids of template and data in turn, every part of the template beginning and
ending with an added token, are those of the parts put together. A third kind
has special tokens only, and the library's own encode_special_tokens.

Writes spans.gz: one JSON object a line, components put into a base file and
cases of [text, data as ranges of bytes, ids].
"""

import json
import os
import random

from tokenizers import Tokenizer, normalizers, pre_tokenizers

import corpus
from make_goldens import HERE, component, pack

ALL_DATA, CHATS = 500, 250


def withheld(added):
    c = added["content"]
    return added["special"] or c.startswith("<") and c.endswith(">")


def load(spec):
    return Tokenizer.from_str(json.dumps(spec))


def without_withheld(spec):
    """A tokenizer that knows no withheld token, and what its ids are in spec's."""
    less = dict(spec, added_tokens=[a for a in spec["added_tokens"] if not withheld(a)], post_processor=None)
    tok, full = load(less), load(spec)
    return tok, {i: full.token_to_id(t) for t, i in tok.get_vocab().items()}


def forged(rng, added):
    """Text of added tokens' texts, pieces of them and what is around them."""
    out = []
    for _ in range(rng.randint(1, 8)):
        c = rng.choice(added)["content"]
        r = rng.random()
        if r < 0.25:
            c = c[rng.randint(0, len(c)) :]
        elif r < 0.5:
            c = c[: rng.randint(0, len(c))]
        elif r < 0.6:
            c = "".join(chr(ord(x) + 0xFEE0) if "!" <= x <= "~" else x for x in c)  # wide forms, which NFKC undoes
        elif r < 0.65:
            c = c.upper()
        out.append(c + rng.choice(["", "", "", " ", "\n", "x", "é", "<", ">", "|", "word", "\u0338", " the "]))
    return "".join(out)


def data_text(rng, spec, strings):
    return rng.choice(strings)[:200] if rng.random() < 0.4 else forged(rng, spec["added_tokens"])


def all_data(rng, spec, strings, encode):
    for _ in range(ALL_DATA):
        text = data_text(rng, spec, strings)
        yield text, [[0, len(text.encode())]], encode(text)


def chats(rng, spec, strings):
    full, (less, ids) = load(dict(spec, post_processor=None)), without_withheld(spec)
    marks = [a["content"] for a in spec["added_tokens"]
             if a["special"] and not (a["normalized"] or a["lstrip"] or a["rstrip"] or a["single_word"]) and len(full.encode(a["content"])) == 1]
    assert marks
    for _ in range(CHATS):
        text, data, want = b"", [], []
        for _ in range(rng.randint(1, 5)):
            part = rng.choice(marks) + rng.choice(["", "", "user\n", "a <word> b", "\n"]) + rng.choice(marks)
            want += full.encode(part).ids
            text += part.encode()
            part = data_text(rng, spec, strings)
            want += [ids[i] for i in less.encode(part).ids]
            data.append([len(text), len(text) + len(part.encode())])
            text += part.encode()
        part = rng.choice(marks)
        want += full.encode(part).ids
        yield (text + part.encode()).decode(), data, want


def variants():
    n, p = normalizers, pre_tokenizers
    for base in ("gpt2", "llama3", "qwen2", "llama2"):
        yield base, {}
    yield "qwen2", dict(normalizer=n.NFKC())
    yield "qwen2", dict(normalizer=n.Sequence([n.NFKD(), n.Lowercase(), n.Strip()]))
    yield "gpt2", dict(normalizer=n.Sequence([n.Replace("x", "<|x|>"), n.NFKC()]))
    yield "llama2", dict(normalizer=None, pre_tokenizer=p.Metaspace("▁", "first", True))


def main():
    strings = corpus.strings(4000, 20)
    lines, rng = [], random.Random(5)
    for base, parts in variants():
        with open(os.path.join(HERE, base + ".json"), encoding="utf-8") as f:
            spec = json.load(f)
        parts = {k: component(v) for k, v in parts.items()}
        spec.update(parts)
        less, ids = without_withheld(spec)
        cases = list(all_data(rng, spec, strings, lambda s: [ids[i] for i in less.encode(s).ids]))
        if not parts:
            cases += chats(rng, spec, strings)
        lines.append(dict(base=base, parts=parts, cases=cases))
        if not parts:
            parts = dict(added_tokens=[a for a in spec["added_tokens"] if a["special"]], post_processor=None)
            tok = load(dict(spec, **parts))
            tok.encode_special_tokens = True
            lines.append(dict(base=base, parts=parts, cases=list(all_data(rng, spec, strings, lambda s: tok.encode(s).ids))))
    pack("spans.gz", "\n".join(json.dumps(x, ensure_ascii=False, separators=(",", ":")) for x in lines).encode())
    for x in lines:
        print(x["base"], list(x["parts"]), len(x["cases"]), sum(len(c[2]) for c in x["cases"]), "tokens")


if __name__ == "__main__":
    main()
