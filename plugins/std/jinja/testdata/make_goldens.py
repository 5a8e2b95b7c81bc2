"""Renders every template of testdata/templates with every conversation below by Python's transformers
and writes goldens.json.gz: a list of {template, case, request, options, text | error}.

Run: pip install -r testdata/requirements.txt && python3 testdata/make_goldens.py
Further arguments are folders of .jinja files; then the goldens go to the file named by --out.
"""

import argparse
import datetime
import glob
import gzip
import json
import os

import transformers.utils.chat_template_utils as chat

HERE = os.path.dirname(os.path.abspath(__file__))


class Clock(datetime.datetime):
    """The time that template_test.go uses."""

    @classmethod
    def now(cls, tz=None):
        return cls(2025, 7, 10, 15, 6, 7)


chat.datetime = Clock

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather \"now\" <at> a place & its surroundings — été",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name of the city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "integer", "minimum": 1, "maximum": 7},
                "points": {"type": "array", "items": {"type": "number"}},
            },
            "required": ["city"],
        },
        "return": {"type": "object", "properties": {"t": {"type": "number"}}},
    },
}
CLOCK = {
    "type": "function",
    "function": {"name": "get_time", "description": "The time", "parameters": {"type": "object", "properties": {}}},
}


def call(name, arguments, id=None):
    c = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"id": id, **c} if id else c


def message(role, content, **more):
    return {"role": role, "content": content, **more}


SYSTEM = message("system", "You are a pirate.\nAnswer shortly.")
HELLO = message("user", "Hello, <|im_start|>how are you?  ")
FINE = message("assistant", "  Fine & \"you\"? ")
LAST = message("user", "Tell me 日本 → ‘news’ {{ x }}\n")
PARTS = message("user", [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}])
IMAGE = message("user", [{"type": "image", "image": "a.png"}, {"type": "text", "text": "Describe it."}])
ASK = message("user", "Weather in Paris and Rome?")
DICT_ARGS = message("assistant", "", tool_calls=[
    call("get_weather", {"city": "Paris", "unit": "celsius", "days": 2, "points": [1.5, 1e20, -3], "x": None, "ok": True}, "abcdef123")])
TEXT_ARGS = message("assistant", "Let me see.", tool_calls=[
    call("get_weather", '{"city": "Paris"}', "call00001"), call("get_time", "{}", "call00002")])
NULL_CALL = message("assistant", None, tool_calls=[call("get_time", {}, "call00003")])
RESULT = message("tool", '{"t": 21.5}', tool_call_id="abcdef123", name="get_weather")
RESULT2 = message("tool", "noon", tool_call_id="call00002", name="get_time")
THOUGHT = message("assistant", "It is 42.", reasoning_content="Let me think.\nHm.")
INLINE = message("assistant", "<think>\nI wonder.\n</think>\n\nIt is 43.")

CASES = {
    "user": ([HELLO], {}, True),
    "user without prompt": ([HELLO], {}, False),
    "system": ([SYSTEM, HELLO], {}, True),
    "turns": ([HELLO, FINE, LAST], {}, True),
    "system and turns": ([SYSTEM, HELLO, FINE, LAST, FINE], {}, False),
    "parts": ([SYSTEM, PARTS], {}, True),
    "image": ([IMAGE, FINE, LAST], {}, True),
    "tools": ([SYSTEM, ASK], {"tools": [WEATHER, CLOCK]}, True),
    "tools without system": ([ASK], {"tools": [WEATHER]}, True),
    "call": ([SYSTEM, ASK, DICT_ARGS, RESULT], {"tools": [WEATHER, CLOCK]}, True),
    "call answered": ([ASK, DICT_ARGS, RESULT, message("assistant", "21.5 °C"), LAST], {"tools": [WEATHER]}, True),
    "calls as text": ([ASK, TEXT_ARGS, RESULT, RESULT2], {"tools": [WEATHER, CLOCK]}, True),
    "null content": ([ASK, NULL_CALL, RESULT2, FINE], {"tools": [CLOCK]}, False),
    "reasoning": ([HELLO, THOUGHT, LAST], {}, True),
    "reasoning last": ([HELLO, THOUGHT], {}, False),
    "inline reasoning": ([HELLO, INLINE, LAST, INLINE], {}, False),
    "thinking on": ([SYSTEM, HELLO], {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}, True),
    "thinking off": ([HELLO, INLINE, LAST], {"enable_thinking": False, "thinking": False}, True),
    "documents": ([HELLO], {"documents": [{"title": "A & B", "text": "Text of <A>.", "doc_id": 1}]}, True),
    "empty": ([], {}, True),
    "two users": ([HELLO, LAST], {}, True),
    "odd role": ([message("narrator", "Once."), HELLO], {}, True),
    "developer": ([message("developer", "Be kind."), HELLO], {}, True),
    "continue": ([SYSTEM, HELLO, message("assistant", "Once upon ")], {"continue_final_message": True}, False),
    "continue parts": ([HELLO, message("assistant", [{"type": "text", "text": "Well"}])], {"continue_final_message": True}, False),
    "named": ([message("user", "Hi", name="Ann"), message("assistant", "Hi", name="Bot", prefix=True)], {}, True),
}

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def render(template, case):
    messages, extra, prompt = CASES[case]
    options = dict(extra)
    request = {"messages": messages, "tools": options.pop("tools", None), "documents": options.pop("documents", None),
               "add_generation_prompt": prompt}
    cont = options.pop("continue_final_message", False)
    request.update(options)
    request.update(TOKENS)
    out = {"case": case, "continue": cont, "request": request}
    args = json.loads(json.dumps(request))
    try:
        texts, _ = chat.render_jinja_template([args.pop("messages")], chat_template=template, continue_final_message=cont, **args)
        out["text"] = texts[0]
    except Exception as e:
        out["error"] = {"class": type(e).__name__, "text": str(e)}
    return out


def main():
    args = argparse.ArgumentParser()
    args.add_argument("folders", nargs="*", default=[os.path.join(HERE, "templates")])
    args.add_argument("--out", default=os.path.join(HERE, "goldens.json.gz"))
    args = args.parse_args()
    goldens = []
    for folder in args.folders:
        for path in sorted(glob.glob(os.path.join(folder, "**", "*.jinja"), recursive=True)):
            with open(path, encoding="utf-8", newline="") as f:
                template = f.read()
            for case in CASES:
                goldens.append({"template": os.path.relpath(path, folder), **render(template, case)})
    rendered = os.path.join(HERE, "rendered.json")
    python = {}
    for c in json.load(open(rendered, encoding="utf-8")):
        python[c["name"]] = chat._compile_jinja_template(c["template"]).render(**c["data"])
    result = {"goldens": goldens, "rendered": python}
    with open(args.out, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as f:
        f.write(json.dumps(result, ensure_ascii=False).encode())
    failed = sum("error" in g for g in goldens)
    print(f"{len(goldens)} renderings, {failed} of them errors, {len({g['template'] for g in goldens})} templates")


if __name__ == "__main__":
    main()
