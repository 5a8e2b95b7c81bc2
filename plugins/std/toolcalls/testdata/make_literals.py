#!/usr/bin/env python3
"""Makes literals.json: Python literals and what Python reads them as, written as JSON (null: Python refuses them, or
they have no JSON).

    make_literals.py > literals.json
"""
import ast, json, random

FIXED = ["1", "-1", "+3", "0", "007", "1_000", "0x1F", "0o17", "0b101", "1.5", ".5", "5.", "1e3", "1E-2", "-2.5e+3", "1e999", "1__0", "1.2.3",
         "True", "False", "None", "nan", "x", "", "''", '""', "'a'", '"a\'b"', r"'\n\t\\\'\"\a\b\f\v\r'", r"'\x41\u00e9\U0001F600'", r"'\q\/'",
         r"'\x4'", r"'\ud83d'", "'''a'b''c'''", '"""x\ny"""', "'a\\\nb'", "[]", "[1,]", "[1 , 'a', [2]]", "[,]", "[1 2]", "()", "(1,)", "(1, 2)",
         "{}", "{'a': 1}", "{'a': 1,}", "{'a': {'b': [None, True]}}", "{'a'}", "{'a' 1}", "{'a': 1 'b': 2}", "{,}", "['a', 'b'", "'a", "1 2", "b'a'", "f'a'",
         "{'é': '☃'}", "[ [ ], { } , ( ) ]", "{'a': (1,), 'b': ()}", "[True, False, None]", "-", "--1", "1+1", "[1, -2, +3.5]"]


def made(r, depth=0):
    kind = r.randint(0, 9 if depth < 3 else 5)
    if kind <= 1:
        return "".join(r.choice("ab'\"\\\n\té☃😀{}[](),: ") for _ in range(r.randint(0, 8)))
    if kind <= 5:
        return r.choice([0, -5, 10**12, 1.5, -0.25, 1e-7, 1e22, True, False, None])
    if kind <= 7:
        return [made(r, depth + 1) for _ in range(r.randint(0, 3))]
    if kind == 8:
        return tuple(made(r, depth + 1) for _ in range(r.randint(0, 3)))
    return {"".join(r.choice("ab'\"\\é ") for _ in range(r.randint(0, 4))): made(r, depth + 1) for _ in range(r.randint(0, 3))}


def read(source):
    try:
        return json.dumps(ast.literal_eval(source), allow_nan=False, ensure_ascii=False)
    except Exception:
        return None


r = random.Random(1)
sources = FIXED + [repr(made(r)) for _ in range(300)]
print(json.dumps([{"source": s, "json": read(s)} for s in sources], indent=0))
