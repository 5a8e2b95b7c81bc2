"""Holds texts to schemas by Python's jsonschema, which shares nothing with what made the texts.

    validate.py FILE_OF_LINES

A line of the input is {"name", "schema", "text"}; with "valid" and "invalid" it is a control, and "text" is not there:
the validator must take the one and refuse the other before its word on a schema counts. A line of the output is
{"line": count, "verdict": "valid" or "invalid", "error"}.

Numbers are read as the decimals that they are written as: with binary fractions 0.07 is no multiple of 0.01. A name that
an object has twice is legal JSON and says nothing certain: such a text is valid when it is both with the first and with
the last of each.
"""

import copy
import decimal
import json
import re
import sys

from jsonschema import validators
from jsonschema.validators import Draft202012Validator

decimal.setcontext(decimal.Context(prec=4000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN))
sys.set_int_max_str_digits(0)


class Broken(ValueError):
    """The text is no JSON."""


def constant(name):
    raise Broken(f"{name} is no JSON")


def number(text):
    """A number with a fraction or an exponent; exponents beyond 15 digits are cut to that, which no bound tells apart."""
    mantissa, _, exponent = text.lower().partition("e")
    return decimal.Decimal(f"{mantissa}e{min(max(int(exponent or 0), -(10**15)), 10**15)}")


def read(text, first=False):
    """The value of a text, with the first or the last member of a name."""
    pairs = (lambda p: dict(reversed(p))) if first else dict
    return json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=constant)


def whole(_, value):
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or isinstance(value, decimal.Decimal) and value == value.to_integral_value()


def format_checks():
    """The formats of the latest draft: it has those of draft 7, and uuid and duration. rfc3987-syntax 1.1.0 leaves out the
    characters beyond U+FFFF that RFC 3987, section 2.2, lists as ucschar: they are shown to it as one that it knows.
    jsonschema 4.26.0 takes no relative JSON pointer that begins with a number like 101, and is shown 1."""
    checks = copy.deepcopy(Draft202012Validator.FORMAT_CHECKER)
    for name in ("iri", "iri-reference"):
        inner, raises = checks.checkers[name]

        def check(value, inner=inner):
            return inner("".join("\u00e4" if ucschar(ord(c)) else c for c in value) if isinstance(value, str) else value)

        checks.checkers[name] = (check, raises)
    relative, raises = checks.checkers["relative-json-pointer"]
    checks.checkers["relative-json-pointer"] = (lambda v: relative(re.sub("^[1-9][0-9]*", "1", v) if isinstance(v, str) else v), raises)
    return checks


def ucschar(c):
    return 0x10000 <= c < 0xE0000 and c & 0xFFFF <= 0xFFFD or 0xE1000 <= c <= 0xEFFFD


FORMATS = format_checks()


def validator(schema):
    base = validators.validator_for(schema, default=Draft202012Validator)
    cls = validators.extend(base, type_checker=base.TYPE_CHECKER.redefine("integer", whole))
    return cls(schema, format_checker=FORMATS)


def judge(check, text):
    try:
        values = [read(text), read(text, first=True)]
    except (Broken, json.JSONDecodeError) as e:
        return f"no JSON: {e}"
    for value in values:
        for error in check.iter_errors(value):
            return f"{error.json_path}: {error.message} ({'/'.join(map(str, error.absolute_schema_path))})"
    return ""


def control(check, case):
    try:
        for error in check.iter_errors(case["valid"]):
            return f"control: refuses what is valid: {error.message}"
        return "control: takes what is invalid" if check.is_valid(case["invalid"]) else ""
    except re.error as e:
        return f"control: its patterns are Python's: {e}"


def main():
    decoder = json.JSONDecoder(parse_float=number)
    for count, line in enumerate(open(sys.argv[1], encoding="utf-8")):
        case = decoder.decode(line)
        check = validator(case["schema"])
        if "text" in case:
            error = judge(check, case["text"])
        else:
            error = control(check, case)
        print(json.dumps({"line": count, "verdict": "invalid" if error else "valid", "error": error}))


main()
