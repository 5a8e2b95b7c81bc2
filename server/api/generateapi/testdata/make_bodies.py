#!/usr/bin/env python3
"""Writes bodies.tsv: bodies of generate-one and generate-batch, and what llm-inference makes of them.

usage: make_bodies.py CHECKOUT, of github.com/alexandriaproject-io/llm-inference. Its validators are called as
src/controllers/generate_controller.py calls them; "crash" is a body on which they raise an error, a status 500 there.
"""
import itertools
import json
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
from src.controllers.controller_utils import is_valid_batch_item, is_valid_config  # noqa: E402


def one(data):
    request_id, prompt = data.get("request_id"), data.get("prompt", " ")
    if (not request_id or not isinstance(request_id, str)) or (not prompt or not isinstance(prompt, str)) or (
            not is_valid_config(data.get("generation_config", None))):
        return "Invalid Data Format"
    return "ok"


def batch(data):
    prompts = data.get("prompts", [])
    if (not len(prompts)) or (not all(is_valid_batch_item(p) for p in prompts)) or (
            not is_valid_config(data.get("generation_config", None))):
        return "Invalid Data Format"
    ids = [item["request_id"] for item in prompts]
    return "Duplicate request_ids" if len(ids) != len(set(ids)) else "ok"


def verdict(route, body):
    try:
        data = json.loads(body)
    except json.JSONDecodeError:
        return "Invalid JSON format"
    try:
        return route(data)
    except Exception:
        return "crash"


values = ['"x"', '""', "0", "1", "-1", "1.0", "2.5", "1e2", "true", "false", "null", "[]", "{}", "[1]", '{"a":1}']
settings = ["num_beams", "max_new_tokens", "top_k", "do_sample", "stream", "temperature", "top_p", "repetition_penalty",
            "length_penalty", "other"]
bodies = {one: [], batch: []}
broken = ["", " ", "{", "}", "{}", "[", "[]", "[1]", "null", "true", "7", '"a"', '{"request_id":"a"', '{"request_id":a}', "{'a':1}",
          '{"request_id":"a",}', '{"request_id":"a"} x', '{"request_id":"a\n"}']
for route in bodies:
    bodies[route] += broken
for v in values:
    bodies[one] += [f'{{"request_id":{v},"prompt":"p"}}', f'{{"request_id":"a","prompt":{v}}}', f'{{"request_id":"a","generation_config":{v}}}',
                    f'{{"request_id":"a","only_new_tokens":{v},"stream_response":{v}}}']
    bodies[batch] += [f'{{"prompts":{v}}}', f'{{"prompts":[{v}]}}', f'{{"prompts":[{{"request_id":{v},"prompt":"p"}}]}}',
                      f'{{"prompts":[{{"request_id":"a","prompt":{v}}}]}}', f'{{"prompts":[{{"request_id":"a"}},{{"request_id":"b"}}],"generation_config":{v}}}']
for name, v in itertools.product(settings, values):
    bodies[one].append(f'{{"request_id":"a","generation_config":{{"{name}":{v}}}}}')
bodies[batch] += ['{"prompts":[{"request_id":"a"},{"request_id":"b"},{"request_id":"a"}]}', '{"prompts":[{"request_id":"a"},{"prompt":"x"}]}',
                  '{"prompts":[{"request_id":"a"},{"request_id":"a","prompt":1}]}']
lines = [f"{route.__name__}\t{json.dumps(body)}\t{verdict(route, body)}\n" for route in bodies for body in bodies[route]]
pathlib.Path(__file__).with_name("bodies.tsv").write_text("".join(lines))
