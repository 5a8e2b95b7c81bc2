"""Renders conversations by the demo model's own chat template, as transformers does, and writes prompts.json.

Run: pip install jinja2==3.1.6 && python3 testdata/make_prompts.py
"""

import json
import os

from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = os.path.join(HERE, "..", "..", "..", "models", "demo", "checkpoint", "tokenizer_config.json")

environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
environment.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
with open(TOKENIZER) as f:
    template = environment.from_string(json.load(f)["chat_template"])

ADD = {"type": "function", "function": {"name": "add", "description": "Adds \"two\"\nnumbers: é😀\u0001\\", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer", "minimum": -1.5}, "b": {"enum": [1, True, None, "<x>"]}}, "required": []}}}
TIME = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}
user = {"role": "user", "content": "What is 7 times 8? <|im_end|>"}
call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": [1, {}], "b": "é\t"}}}
again = {"id": "c2", "type": "function", "function": {"name": "get_time", "arguments": {}}}

CASES = [
    ("a question", {}, [user], None, True),
    ("a conversation", {}, [user, {"role": "assistant", "content": "56"}, user], None, True),
    ("no turn of the assistant is begun", {}, [user, {"role": "assistant", "content": "56"}], None, False),
    ("a system message", {}, [{"role": "system", "content": "Be brief."}, user], None, True),
    ("tools", {}, [user], [ADD, TIME], True),
    ("a system message and tools", {}, [{"role": "system", "content": "Be brief."}, user], [TIME], True),
    ("calls and results", {}, [user, {"role": "assistant", "content": None, "tool_calls": [call, again]},
                               {"role": "tool", "tool_call_id": "c1", "content": "56"}, {"role": "tool", "tool_call_id": "c2", "content": "noon"},
                               {"role": "assistant", "content": "At noon.", "tool_calls": [again]}], [ADD], True),
    ("the system message of the house", {"system": "Your name is Bob."}, [user], None, True),
    ("the system message of the house, and tools", {"system": "Your name is Bob."}, [user], [TIME], True),
    ("the client's system message comes before that of the house", {"system": "Your name is Bob."},
     [{"role": "system", "content": "Your name is Ann."}, user], None, True),
]

out = []
for about, config, messages, tools, generate in CASES:
    house = [{"role": "system", "content": config["system"]}] if config and messages[0]["role"] != "system" else []
    prompt = template.render(messages=house + messages, tools=tools, add_generation_prompt=generate)
    request = {"messages": messages, "add_generation_prompt": generate}
    if tools:
        request["tools"] = tools
    out.append({"about": about, "config": config, "request": request, "prompt": prompt})
with open(os.path.join(HERE, "prompts.json"), "w") as f:
    f.write("[\n" + ",\n".join("  " + json.dumps(c, ensure_ascii=False) for c in out) + "\n]\n")
