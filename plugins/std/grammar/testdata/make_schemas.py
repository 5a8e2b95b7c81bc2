#!/usr/bin/env python3
"""Writes schemas.json: random schemas of draft 2020-12, and which of a fixed list
of instances Python's jsonschema (4.26) finds valid."""
import json
import os
import random

from jsonschema import Draft202012Validator

r = random.Random(1207)
VALUES = [None, True, False, 0, 1, 2, 3, 6, -1, 1.5, 2.5, "", "a", "b", "ab", "abc", "a\"", [], [1], [1, 2], ["a"], [1, "a"], [2, 2], [None, 1, "a"], [[1]],
          {}, {"a": 1}, {"b": 1}, {"a": "a"}, {"a": 1, "b": 2}, {"a": "a", "b": None}, {"c": 1}, {"a": 1, "c": "x"}, {"a": {"a": 1}}, {"a": {"b": "a"}, "b": 3},
          {"ab": 1, "b": [1]}, {"a": [1, "a"]}]
NAMES = ["a", "b", "c"]


def scalar():
    return r.choice([None, True, 1, 2, 2.5, "a", "ab"])


def number():
    return r.choice([{"minimum": 1}, {"maximum": 2}, {"exclusiveMinimum": 1.5}, {"exclusiveMaximum": 3}, {"multipleOf": 2}, {"multipleOf": 0.5}, {"multipleOf": 3}])


def string():
    return r.choice([{"minLength": 2}, {"maxLength": 1}, {"pattern": "^a"}, {"pattern": "b"}, {"pattern": "^[ab]*$"}])


def array(d):
    return r.choice([
        lambda: {"items": schema(d)}, lambda: {"prefixItems": [schema(d), schema(d)]}, lambda: {"minItems": r.randrange(3)}, lambda: {"maxItems": r.randrange(3)},
        lambda: {"contains": schema(d)}, lambda: {"contains": schema(d), "maxContains": 1}, lambda: {"prefixItems": [schema(d)], "items": schema(d)},
        lambda: {"prefixItems": [schema(d)], "unevaluatedItems": schema(d), "contains": schema(d)},
        lambda: {"allOf": [{"prefixItems": [schema(d)]}], "unevaluatedItems": False}])()


def obj(d):
    def props():
        return {n: schema(d) for n in r.sample(NAMES, r.randrange(1, 3))}
    return r.choice([
        lambda: {"properties": props()}, lambda: {"required": r.sample(NAMES, r.randrange(1, 3))}, lambda: {"properties": props(), "additionalProperties": schema(d)},
        lambda: {"patternProperties": {r.choice(["^a", "b$"]): schema(d)}}, lambda: {"minProperties": 1}, lambda: {"maxProperties": 1},
        lambda: {"propertyNames": string()}, lambda: {"dependentRequired": {"a": ["b"]}}, lambda: {"dependentSchemas": {"b": schema(d)}},
        lambda: {"properties": props(), "patternProperties": {"b": schema(d)}, "additionalProperties": False},
        lambda: {"anyOf": [{"properties": props()}, {"properties": props(), "required": ["b"]}], "unevaluatedProperties": schema(d)},
        lambda: {"if": {"properties": props()}, "then": {"required": ["a"]}, "else": {"properties": props()}, "unevaluatedProperties": False}])()


def schema(d):
    k = r.randrange(15)
    if d == 0 or k < 3:
        return r.choice([{"type": r.choice(["null", "boolean", "integer", "number", "string", "array", "object"])}, {"const": scalar()}, {"enum": [scalar(), scalar()]},
                         {"type": ["string", "integer"]}, True, number(), string(), {"type": "integer"}, {"type": "string"}])
    if k < 5:
        return number()
    if k < 7:
        return array(d - 1)
    if k < 10:
        return obj(d - 1)
    if k < 11:
        return {"not": schema(d - 1)}
    word = r.choice(["anyOf", "allOf", "oneOf", "both"])
    if word == "both":
        out = dict(x for _ in range(2) for s in [schema(d - 1)] if isinstance(s, dict) for x in s.items())
        return out
    return {word: [schema(d - 1) for _ in range(r.randrange(1, 4))]}


cases, seen = [], set()
while len(cases) < 700:
    s = schema(3)
    text = json.dumps(s)
    if text in seen or len(text) > 700 or len(text) < 30:
        continue
    seen.add(text)
    v = Draft202012Validator(s)
    cases.append([s, "".join("1" if v.is_valid(x) else "0" for x in VALUES)])
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemas.json")
with open(path, "w") as f:
    json.dump({"values": VALUES, "cases": cases}, f, separators=(",", ":"))
    f.write("\n")
