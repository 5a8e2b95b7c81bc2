"""Writes expressions.json.gz: small templates and what jinja2 under transformers' settings makes of them.

Every operator with every pair of values, filters, tests and methods with many arguments, format strings, random
nestings of all of these, statements and their scopes, pieces of tags in random order (white space, syntax errors).
A row is [source, text] or [source, null, class, message] or [source, null, "SyntaxError", message, line].

Run: pip install -r testdata/requirements.txt && python3 testdata/make_expressions.py
"""

import datetime
import gzip
import itertools
import json
import os
import random
import re
import signal
import warnings

import jinja2
import transformers.utils.chat_template_utils as chat

from fragments import STATEMENTS, PIECES

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
rnd = random.Random(20250710)

VARS = {
    "s": "Hello World", "e": "", "u": "Ünï çödé ß ǆ ΑΣ 日本 😀", "w": "  \t pad\n ", "csv": "a,b,,c", "lines": "one\ntwo\r\nthree\x0bfour\n",
    "q": "it's \"q\" \\ \x00\x7f\u00a0\u200b", "n": 7, "z": 0, "neg": -3, "big": 123456789012345678901234567890,
    "f": 2.5, "g": 1e16, "h": 1e-7, "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c"], "mixed": [1, "a", None, 2.0, [1], {"k": 1}], "el": [], "nested": [[1, 2], [3, [4]]],
    "d": {"b": 1, "a": "x", "items": 5}, "ed": {}, "dd": {"x": {"y": [10, 20]}, "1": "one"},
    "users": [{"name": "Ann", "age": 30, "t": {"c": 1}}, {"name": "bob", "age": 25}, {"name": "Cid", "age": 30, "t": {"c": 0}}],
}
ATOMS = list(VARS) + ["missing", "d.nope", "()", "(1,)", "(1, 'b')", "'abc'", "\"a'b\"", "[1, 2.5, 'x', none]", "{'k': [1], 2: 'two'}",
                      "range(4)", "1.0", "-0.0", "1e400", "true", "0x1F", "1_000", "12345678901234567890"]
STRS = ["s", "e", "u", "w", "csv", "lines", "q", "'abcabc'", "'-12'", "'aXbX'", "'Title Case'", "'x1'", "'  a  b '"]
OPS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
TESTS = ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "sequence",
         "iterable", "odd", "even", "lower", "upper", "escaped", "divisibleby 3", "divisibleby(2)", "in [1, 7, 'abc']", "eq 7", "ne(7)",
         "gt 2", "lt 2", "ge 2.5", "le 3", "equalto('abc')", "filter", "test", "not none", "not string", "odd(1)"]
FILTERS = ["length", "count", "string", "upper", "lower", "title", "capitalize", "trim", "trim('ad ')", "list", "first", "last", "reverse|list",
           "reverse", "sort", "sort(reverse=true)", "sort(case_sensitive=true)", "unique|list", "min", "max", "sum", "join", "join(', ')",
           "join('-', attribute='name')", "abs", "int", "int(9)", "int(base=16)", "float", "float(1.5)", "round", "round(1)", "round(-1)",
           "round(1, 'floor')", "round(2, 'ceil')", "default('D')", "default('D', true)", "d", "items|list", "dictsort", "dictsort(true)",
           "dictsort(by='value')", "dictsort(reverse=true)", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)",
           "tojson(separators=(',', ':'))", "tojson(indent='>')", "tojson(indent=0)", "replace('a', 'ZZ')", "replace('', '.')", "replace('l', 'L', 2)", "indent", "indent(2, true)",
           "indent('> ', true, true)", "center(15)", "truncate(5)", "truncate(8, true)", "truncate(6, false, '~', 0)", "wordcount",
           "batch(2)|list", "batch(2, 'f')|list", "slice(2)|list", "slice(3, 0)|list", "map('string')|list", "map('upper')|join",
           "map(attribute='name')|list", "map(attribute='t.c', default=9)|list", "map('default', 3)|list", "select|list", "select('odd')|list",
           "select('string')|list", "reject('none')|list", "reject('in', [1, 'a'])|list", "selectattr('t')|list", "selectattr('age', 'gt', 26)|map(attribute='name')|list",
           "rejectattr('t', 'defined')|list", "selectattr('name', 'equalto', 'bob')|list", "groupby('age')", "groupby('age')|map(attribute='grouper')|list",
           "groupby('name')|list", "attr('name')", "attr('upper')|string|length > 0", "filesizeformat", "filesizeformat(true)", "escape", "e|upper", "safe", "forceescape",
           "urlencode", "striptags", "xmlattr", "format(1, 'x')", "sum(attribute='age')", "sum(start=10)", "sort(attribute='age,name')|map(attribute='name')|list",
           "max(attribute='age')", "min(attribute='name')", "unique(attribute='age')|list", "upper(1)", "join(1, 2, 3, 4)", "replace('a')", "trim(x=1)", "tojson(1, 2, foo=3)",
           "map|list", "map('nope')|list", "select('nope')|list", "nope"]
METHODS = ["upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "strip()", "lstrip()", "rstrip()", "strip('a d')", "lstrip('Ha')",
           "rstrip('dc ')", "split()", "split(' ')", "split(',')", "split(',', 1)", "rsplit(',', 1)", "split(none, 1)", "rsplit(none, 1)", "rsplit()", "split(maxsplit=1)", "split(sep='b')",
           "splitlines()", "splitlines(true)", "partition(',')", "rpartition('b')", "replace('a', 'b')", "replace('a', 'bb', 1)", "replace('', '-')", "replace('abc', '')",
           "startswith('H')", "startswith(('a', 'H'))", "endswith('d')", "endswith(('x', 'c'), 1)", "startswith('l', 2, 4)", "find('b')", "find('b', 2)", "rfind('b')", "find('zz')", "find('')", "rfind('')",
           "index('a')", "rindex('a')", "count('a')", "count('')", "count('b', 1, 3)", "join(ls)", "join(l)", "join('xyz')", "center(9)", "center(10, '*')", "ljust(9, '.')", "rjust(9)", "zfill(6)",
           "expandtabs()", "expandtabs(3)", "isalpha()", "isalnum()", "isdigit()", "isdecimal()", "isnumeric()", "isspace()", "islower()", "isupper()", "istitle()", "isidentifier()", "isascii()", "isprintable()",
           "removeprefix('a')", "removesuffix('c')", "format(1)", "upper(1)", "strip(1)", "split('')", "replace('a')", "replace(1, 2)", "find(1)", "startswith(1)", "center()", "join(1)", "zfill('x')", "nope()",
           "split(foo=1)", "upper(x=1)", "count()", "__class__", "__len__()", "encode", "ljust(5, 'ab')", "startswith()", "partition()", "partition('')"]
LIST_METHODS = ["copy()", "count(1)", "count()", "index(1)", "index(9)", "index(2, 1)", "append(1)", "pop()", "sort()", "reverse", "extend([1])", "insert(0, 1)", "clear()", "remove(1)", "nope", "nope()", "upper()"]
DICT_METHODS = ["items()", "keys()", "values()", "get('b')", "get('zz')", "get('zz', 4)", "get()", "get([])", "copy()", "items()|list", "keys()|list|first", "values()|sum", "pop('a')", "update({})", "clear", "setdefault('x', 1)",
                "fromkeys('ab')", "fromkeys([1, 2], 0)", "a", "b", "nope", "nope.x", "items"]
PERCENTS = ["'%s'", "'%r'", "'%d'", "'%5d|'", "'%-5d|'", "'%05d'", "'%+d'", "'% d'", "'%x'", "'%X'", "'%#x'", "'%o'", "'%f'", "'%.2f'", "'%10.3f|'", "'%e'", "'%.3E'", "'%g'", "'%.3g'", "'%#.3g'", "'%G'", "'%c'", "'%5s|'",
            "'%-5s|'", "'%.2s|'", "'%%'", "'%i %%'", "'%a'", "'%(b)s'", "'%(a)5s|%(b)d'", "'%s %s'", "'%'", "'%z'", "'%*d'", "'no'", "'%.0f'", "'%08.2f'", "'%+.1f'", "'%5%'", "'%.3d'"]
SPECS = ["", "5", "<5", ">5", "^5", "*^9", "05", "d", "5d", "+d", " d", ",", "_", "x", "X", "#x", "o", "#b", "b", "e", ".2e", "f", ".2f", ".0f", "g", ".3g", ".3", "10.3f", "010.2f", "+.1f", "%", ".1%", "s", ".2s", "<8s", "c", ",.2f",
         "=+6d", "n", "G", "x<6", "08,d", "q", "1.", ",s", "_x", ".20g", ".17g", "#.3g"]
SLICES = ["[0]", "[-1]", "[99]", "[-99]", "[1:]", "[:1]", "[1:3]", "[-2:]", "[:-1]", "[::-1]", "[::2]", "[::-2]", "[5:1:-1]", "[1:99]", "[99:]", "[::0]", "['a']", "['b']", "[none]", "[1.0]", "[true]", "[:none]", "['x']['y'][1]", "[1, 2]",
          "['a':]", ".0", ".a", ".b", ".x.y", ".name", ".upper", "[::big]", "[big]", "[s]"]


def expressions():
    for a, op, b in itertools.product(ATOMS, OPS, ATOMS):
        yield f"{a} {op} {b}", 0.45
    for a, b in itertools.product(["n", "z", "neg", "f", "t", "h", "2", "-1", "0.5", "big", "s", "nil", "missing"], repeat=2):
        if b != "big":  # Python would compute for ever
            yield f"{a} ** {b}", 1
    for a in ATOMS:
        yield a, 1
        for op in ("-", "+", "not "):
            yield f"{op}{a}", 1
        for test in TESTS:
            yield f"{a} is {test}", 1
        for filter in FILTERS:
            yield f"{a}|{filter}", 1
        for s in SLICES:
            yield f"{a}{s}", 1
        yield f"[{a}, {a}]", 1
        yield f"{{'k': {a}}}|tojson", 1
        yield f"[{a}]|string", 1
        yield f"dict(a={a}, **{a})", 1
        yield f"namespace(x={a}).x", 1
        yield f"range({a})|list", 1
        yield f"{a}()", 1
        yield f"({a}, 1)|tojson(indent=1)", 1
        yield f"{a} < {a} < {a}", 1
        yield f"'%s' % {a}", 1
        yield f"{{{a}: 1}}", 1
        yield f"raise_exception({a})", 1
        yield f"({a} if n else 0) ~ ('x' if z)", 1
        for p in PERCENTS:
            yield f"{p} % {a}", 1
        yield f"'{{}} {{!r}}'.format({a}, {a})", 1
        for spec in SPECS:
            yield f"'{{:{spec}}}'.format({a})", 0.8
    for a, m in itertools.product(STRS, METHODS):
        yield f"{a}.{m}", 1
    for a, m in itertools.product(["l", "ls", "mixed", "el", "(1, 2, 1)", "nested"], LIST_METHODS):
        yield f"{a}.{m}", 1
    for a, m in itertools.product(["d", "ed", "dd", "{'a': {'b': 2}, 'b': 3}"], DICT_METHODS):
        yield f"{a}.{m}", 1
    for x in ["'{0} {1}'.format(1, 2)", "'{a}'.format(a=s)", "'{0.name}'.format(users[0])", "'{0[name]}'.format(users[0])", "'{0[0]}'.format(l)", "'{} {0}'.format(1)", "'{'.format()", "'}'.format()",
              "'{{}}'.format()", "'{:{}}'.format(n, 4)", "'{:>{w}}|'.format(s, w=15)", "'{x}'.format()", "'{}'.format()", "'{!s:>5}'.format(n)", "'{!a}'.format(u)", "'{!x}'.format(1)", "'{a[b]}'.format_map({'a': {'b': 1}})",
              "'{0.__class__}'.format(1)", "'{:,}'.format(1234567.891)", "'{:.3}'.format('abcdef')", "strftime_now('%Y-%m-%d %H:%M:%S %j %a %A %b %B %d %e %I %p %y %U %W %w %u %V %G %%')", "strftime_now('%-d %-m %-H %B %q')",
              "range(2, 20, 5)|list", "range(5, 0, -2)|list", "range(1, 2, 0)", "range(100001)", "range(99999)|length", "range('a')", "range()", "range(1, 2, 3, 4)", "range(10)[2:5]", "range(10)[-1]", "3 in range(5)", "range(3) == range(0, 3)",
              "range(0, 10, 3)", "dict([('a', 1), ('b', 2)])", "dict(a=1, b=2)", "dict([1])", "dict({'a': 1}, a=2)", "namespace(a=1)", "namespace(_x=1)", "cycler('a', 'b').next()", "cycler()", "joiner()()", "[1, 2] + [3]", "(1, 2) + (3,)", "'a' 'b'",
              "1 if 0 else 2 if 0 else 3", "1 if 0", "(1 if 0) is undefined", "(1 if 0).x", "not 1 == 2", "1 < 2 == true", "1 < 3 > 2", "2 ** 3 ** 2", "-2 ** 2", "1 - -1", "10 // 3 * 3 + 10 % 3", "'a' ~ 1 ~ none ~ [1]", "1 ~ 2 + 3",
              "users|map(attribute='t')|map(attribute='c')|list", "'\\u00e9\\n\\t\\x41\\101\\'\\q\\\\'", "'a\\\nb'", "'\\é'", "[1, 2, 3,]", "{'a': 1,}", "(1, 2,)", "l[0:2][1]", "d['items']", "d.items()", "dd['1']", "dd.x.y[-1]", "u[::-1]", "u[4:9]", "u|length",
              "'<a>&'|escape", "('<a>'|safe) + '<b>'", "('<a>'|safe) ~ '<b>'", "'<b>' + ('<a>'|safe)", "('%s'|safe) % '<i>'", "['<a>'|safe, '<b>']|join('<')", "('a'|safe).upper() is escaped", "['a'|safe]", "10 ** 30", "10 ** 400 // 10 ** 398", "2 ** 0.5", "7 // 2.0", "-7 // 2", "-7 % 3", "7 % -3", "-7.5 % 2",
              "7.5 // -2", "1 / 3", "1e22", "1e21 * 10", "123456789.123456789", "1e15 + 0.5", "0.1 + 0.2", "1.0 * 3", "5e-324", "1.7976931348623157e308", "100 * 1.1", "1e16", "9999999999999998.0", "0.0001", "0.00001", "big * big", "big // 7", "big % 1000", "-big // 7", "big / 3", "big + 0.5", "9223372036854775807 + 1", "-9223372036854775808 - 1", "4611686018427387904 * 2",
              "('x' * 3)|upper", "3 * 'ab'", "[0] * 3", "-1 * [1]", "true + true", "true ~ false", "none == false", "0 == false", "1 == true", "1 == 1.0", "{1: 'a'}[1.0]", "{1: 'a'}[true]", "'1' == 1", "[1] == [1.0]", "(1,) == [1]", "[1, 2] < [1, 3]", "[1, 'a'] < [1, 2]", "'a' < 'B'", "missing == missing2", "missing in [missing]", "[missing]", "missing|tojson",
              "none|length", "none|list", "none|upper", "none ~ ''", "none.x", "none['x']", "none()", "missing()", "missing.x", "missing['x']", "d.nope.x", "d.nope()", "s.nope()", "l.nope", "l['x']", "n.x", "f.is_integer()", "n.bit_length()", "self", "loop", "caller", "super", "s is sameas s", "none is sameas none", "callable is defined", "range is callable", "s is callable", "s.upper is callable",
              "lipsum", "x is nope", "(s|nope) if 0 else 1", "(1 is nope) if 0 else 1", "s|attr('nope')", "s|attr('__class__')", "d|attr('b')", "s['upper']()", "d['b']", "l|map('multiply', 2)|list", "mixed|select('mapping')|list", "mixed|map('string')|join('|')", "(l|select).x", "l|select|first", "l|reverse|first", "(l|reverse)|length", "d|list", "d|length", "d|first", "d|last", "d|join", "d|sort", "d|string", "d == {'a': 'x', 'items': 5, 'b': 1}"]:
        yield x, 1


def tree(depth):
    """A random expression."""
    if depth == 0 or rnd.random() < 0.15:
        return rnd.choice(ATOMS)
    kind = rnd.randrange(9)
    a = tree(depth - 1)
    if kind <= 1:
        return f"({a} {rnd.choice(OPS)} {tree(depth - 1)})"
    if kind == 2:
        return f"({a})|{rnd.choice(FILTERS)}"
    if kind == 3:
        return f"({a}){rnd.choice(SLICES)}"
    if kind == 4:
        return f"({a}).{rnd.choice(METHODS + LIST_METHODS + DICT_METHODS)}"
    if kind == 5:
        return f"({a} if {tree(depth - 1)} else {tree(depth - 1)})"
    if kind == 6:
        return f"[{a}, {tree(depth - 1)}]"
    if kind == 7:
        return f"(({a}) is {rnd.choice(TESTS)})"
    return f"{{'k': {a}}}|{rnd.choice(FILTERS)}"


def folded(source, result):
    """Tells where jinja2 answers differently because it works a constant out when it compiles."""
    try:
        text = chat._cached_compile_jinja_template("{% set zz = " + source[3:-3] + " %}{{ zz }}").render(**json.loads(json.dumps(VARS)))
    except Exception as e:
        return result[1:] != [None, type(e).__name__, str(e)]
    return result[1:] != [text]


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 7, 10, 15, 6, 7)


def row(source):
    if re.search(r"\* *\(?(big|12345678901234567890)|(big|12345678901234567890)\)? *\* *\(?[a-z'\[(]|g\b.*\bcenter|\*\*.*\*\*.*\*\*", source):
        return None  # may take all memory or time
    if re.search(r"\.encode|range\(4\).*(count|index)|(escape|safe|\|e\b).*[.*>]|range\(4\).*:big|(1e400|\(1,\)|[\d.xF_]+|true|\(\)|'b'\)|\}|'|\]|\")\)+\[[^\]]*:[^\]]*\]|'k': .*\[[^\]]*:[^\]]*\]", source):
        return None  # left out, or the class Markup
    signal.alarm(5)
    try:
        return answer(source)
    except TimeoutError:
        return None
    finally:
        signal.alarm(0)


def late(*_):
    raise TimeoutError


def answer(source):
    try:
        template = chat._cached_compile_jinja_template(source)
    except jinja2.TemplateSyntaxError as e:
        return [source, None, "SyntaxError", e.message, e.lineno]
    except (SyntaxError, AssertionError, RecursionError, KeyError):
        return None  # an accident of the generated Python
    try:
        text = template.render(**json.loads(json.dumps(VARS)))
    except (TimeoutError, MemoryError):
        return None
    except NameError:
        return None  # inf in the generated Python
    except Exception as e:
        text, result = str(e), [source, None, type(e).__name__, str(e)]
    else:
        result = [source, text]
    if source.startswith("{{ ") and "[" in source and ":" in source and folded(source, result):
        return None
    # addresses, identities and things that we leave out on purpose
    if re.search(r"0x[0-9a-f]{6,}|complex|bytes|encode|ordinal|surrogate|<generator|\dj\)|<class|\.<locals>\.Template", text) or len(text) > 20000:
        return None
    return result


def main():
    chat.datetime = Clock
    signal.signal(signal.SIGALRM, late)
    sources = ["{{ " + x + " }}" for x, p in expressions() if rnd.random() < p]
    sources += ["{{ " + tree(rnd.choice([2, 3, 3])) + " }}" for _ in range(6000)]
    sources += STATEMENTS
    for _ in range(4000):
        sources.append("".join(rnd.choice(PIECES) for _ in range(rnd.randrange(2, 9))))
    rows, seen = [], set()
    for s in sources:
        if s in seen:
            continue
        seen.add(s)
        r = row(s)
        if r is not None:
            rows.append(r)
    with open(os.path.join(HERE, "expressions.json.gz"), "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as f:
        f.write(json.dumps({"vars": VARS, "rows": rows}, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    kinds = {}
    for r in rows:
        k = r[2] if len(r) > 2 else "text"
        kinds[k] = kinds.get(k, 0) + 1
    print(len(rows), "rows:", kinds)


if __name__ == "__main__":
    main()
