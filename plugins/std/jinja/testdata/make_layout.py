"""Writes layout.json.gz: what jinja2's pprint and wordwrap make of texts and values.

Rows are those of expressions.json.gz. Needs jinja2 alone: the settings are those of transformers.

Run: pip install jinja2==3.1.6 && python3 testdata/make_layout.py
"""

import gzip
import json
import os
import random

from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))
rnd = random.Random(20251121)

WORDS = ["a", "to", "the", "word", "longer-word", "co-operate", "well--known", "em--dash", "--option", "x-1", "1-2", "-", "--", "a-b-c-d",
         "mother-in-law", "end.", "(par)", "\"q\"--so", "supercalifragilistic", "über-groß", "日本語", "x" * 30, "foo-" * 9, "---", "e-mail", "I-a",
         "semi;--colon", "what?--yes", "it's", "_a-_b", "ab-cd--ef", "😀", "1--a", "a\tb", "\u00a0", "c\u2003d"]
SPACES = [" ", "  ", "\n", "\n\n", "\t", " \n ", "\r\n", "\x0b", "\x0c", "\x1c", "\u2028", "   "]


def words(most):
    return "".join(rnd.choice(WORDS) + rnd.choice(SPACES if rnd.random() < 0.3 else [" "]) for _ in range(rnd.randrange(most)))


def value(depth):
    kind = rnd.randrange(11 if depth else 7)
    if kind < 2:
        return rnd.choice([1, 0, -5, 10**20, 2.5, True, None, ""])
    if kind < 7:
        return words(rnd.choice([2, 5, 30]))
    if kind < 9:
        return [value(depth - 1) for _ in range(rnd.randrange(6))]
    return {words(rnd.choice([2, 3, 20])): value(depth - 1) for _ in range(rnd.randrange(6))}


TEXTS = [words(n) for n in (2, 3, 5, 8, 12, 12, 20, 20, 30, 30, 40, 40, 60)] + ["", " ", "a " * 60, "x" * 200, "x" * 79 + " y", "-" * 100 + "a", "\n"]
VALUES = [value(4) for _ in range(120)] + [[["x" * 70]], {"a": "x" * 90}, ["a b " * 30], {"k": ["a b " * 30, "c"]}, "a b " * 30, "a\nb\n" * 30,
          list(range(60)), [[]] * 40, {"b": {}, "a": []}]
VARS = {"t": TEXTS, "v": VALUES, "n": 7}
sources = []
for i in range(len(TEXTS)):
    sources.append("{{ t[%d]|wordwrap }}" % i)
    for width in (1, 2, 5, 10, 20, 33):
        for args in ("", ", false", ", true, '|'", ", break_on_hyphens=false", ", false, none, false"):
            sources.append("{{ t[%d]|wordwrap(%d%s) }}" % (i, width, args))
for i in range(len(VALUES)):
    sources.append("{{ v[%d]|pprint }}" % i)
sources += ["{{ %s|pprint }}" % x for x in ("(1,)", "(t[4], t[5])", "((t[9],),)", "{2: 1, 'a': t[6], 1: 3}", "range(3)", "missing", "[t[8]|escape]", "t[8]|safe",
                                            "[1, (2, [t[7]] * 3)]", "{1: {3: t[3], 2: t[2]}, 0: (t[1],) * 9}", "namespace(a=1)", "'a'", "v")]
sources += ["{{ %s }}" % x for x in ("n|wordwrap", "missing|wordwrap", "t|wordwrap", "t[5]|wordwrap(0)", "t[5]|wordwrap(-1)", "t[5]|wordwrap('x')", "t[5]|wordwrap(5, true, 7)",
                                     "t[5]|wordwrap(1, 2, 3, 4, 5, 6)", "t[0]|pprint(1)", "t[5]|wordwrap(width=9)", "none|wordwrap", "'pprint' is filter", "'wordwrap' is filter",
                                     "''|wordwrap(0)", "t[5]|wordwrap(true)", "t[8]|upper|wordwrap(11)|length")]
env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
rows = []
for source in sources:
    try:
        rows.append([source, env.from_string(source).render(**VARS)])
    except Exception as e:  # what the template raised is the golden
        rows.append([source, None, type(e).__name__, str(e)])
with gzip.GzipFile(os.path.join(HERE, "layout.json.gz"), "wb", mtime=0) as f:
    f.write(json.dumps({"vars": VARS, "rows": rows}, ensure_ascii=True).encode())
print(len(rows), "rows,", sum(len(r) > 2 for r in rows), "of them errors")
