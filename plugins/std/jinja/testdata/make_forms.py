"""Finds by Python's transformers how each template shows conversations whose content and arguments can be
written in several forms, and writes forms.json.gz: a list of {template, case, request, text | refused}.

A conversation is rendered with every form of the content of each role (a string, a list of parts, a list of one
part), of content that is null (null, missing, ""), and of arguments (an object, the client's text). What counts is
the rendering that shows most of what was said, not as Python or JSON writes a list, and without a None; of
equals that with the fewest changes. No rendering at all means that the conversation is refused.

Run: pip install -r testdata/requirements.txt && python3 testdata/make_forms.py
"""

import argparse
import copy
import glob
import gzip
import itertools
import json
import os
import re

import make_goldens
from make_goldens import HERE, chat

TOOL = {"type": "function", "function": {"name": "lookup", "description": "Looks up a word", "parameters": {
    "type": "object", "properties": {"q": {"type": "string", "description": "The word"}}, "required": ["q"]}}}
ARGS = '{"q" :"w5005",  "n": 2}'
OBJECT = json.loads(ARGS)


def parts(*words):
    return [{"type": "text", "text": w} for w in words]


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def calling(arguments, **content):
    call = {"id": "abcdef123", "type": "function", "function": {"name": "lookup", "arguments": arguments}}
    return {"role": "assistant", **content, "tool_calls": [call]}


USER, SYSTEM, ANSWER, MORE = message("user", "w1001"), message("system", "w2002"), message("assistant", "w3003"), message("user", "w1009")
RESULT = message("tool", "w6006", tool_call_id="abcdef123", name="lookup")
RESULT_PARTS = {**RESULT, "content": parts("w6006", "w6007")}
DOCUMENTS = [{"title": "w7007", "text": "w7008", "content": ["w7009"]}]

CASES = {
    "user": ([USER], {}),
    "user parts": ([message("user", parts("w1001", "w1002"))], {}),
    "system": ([SYSTEM, USER], {}),
    "system parts": ([message("system", parts("w2002", "w2003")), USER], {}),
    "turns": ([USER, ANSWER, MORE], {}),
    "assistant parts": ([USER, message("assistant", parts("w3003", "w3004")), MORE], {}),
    "tools": ([USER], {"tools": [TOOL]}),
    "null, object": ([USER, calling(OBJECT, content=None), RESULT], {"tools": [TOOL]}),
    "null, text": ([USER, calling(ARGS, content=None), RESULT], {"tools": [TOOL]}),
    "empty, text": ([USER, calling(ARGS, content=""), RESULT], {"tools": [TOOL]}),
    "missing, object": ([USER, calling(OBJECT), RESULT], {"tools": [TOOL]}),
    "missing, text": ([USER, calling(ARGS), RESULT], {"tools": [TOOL]}),
    "said, text": ([USER, calling(ARGS, content="w3005"), RESULT], {"tools": [TOOL]}),
    "result parts": ([message("user", parts("w1001", "w1002")), calling(ARGS, content=None), RESULT_PARTS], {"tools": [TOOL]}),
    "loop": ([SYSTEM, USER, calling(ARGS, content=None), RESULT, ANSWER, MORE], {"tools": [TOOL]}),
    "documents": ([USER], {"documents": DOCUMENTS}),
}


def contents(role, given, own):
    """The forms of a content, with what each costs."""
    if isinstance(given, str) and given not in ("", "missing"):
        return [(0, given), (1, parts(given))]
    if isinstance(given, list):
        texts = "\n".join(p["text"] for p in given)
        return [(0, given), (1, texts), (1.1, parts(texts))]
    if role != "assistant":
        return [(0, given)]
    others = [c for c in (None, "missing", "", parts("")) if c != given]
    return [(0, given)] + [(0.5 + i / 10, c) for i, c in enumerate(others)]


def variants(messages):
    """The conversation in all forms, cheapest first: one form for each role, as a template reads a role one way."""
    keys, choices = [], []
    for m in messages:
        given = m.get("content", "missing")
        key = (m["role"], type(given).__name__ if given not in ("", "missing", None) else str(given))
        if key in keys:
            continue
        keys.append(key)
        choices.append([(cost, i) for i, (cost, _) in enumerate(contents(m["role"], given, m))])
    calls = [c for m in messages for c in m.get("tool_calls", [])]
    keys.append("arguments")
    choices.append([(0, "given"), (0.05, "other")] if calls else [(0, "given")])
    out = []
    for chosen in itertools.product(*choices):
        form = dict(zip(keys, (c[1] for c in chosen)))
        changed = copy.deepcopy(messages)
        for m in changed:
            given = m.get("content", "missing")
            key = (m["role"], type(given).__name__ if given not in ("", "missing", None) else str(given))
            content = contents(m["role"], given, m)[form[key]][1]
            m.pop("content", None)
            if content != "missing":
                m["content"] = content
            for c in m.get("tool_calls", []):
                f = c["function"]
                if form["arguments"] == "other":
                    f["arguments"] = OBJECT if isinstance(f["arguments"], str) else json.dumps(f["arguments"])
        out.append((sum(c[0] for c in chosen), changed))
    return sorted(out, key=lambda v: v[0])


def contract(messages):
    """The conversation as the server hands it to a template plugin: text of arguments beside their object."""
    messages = copy.deepcopy(messages)
    for c in (c["function"] for m in messages for c in m.get("tool_calls", [])):
        if isinstance(c["arguments"], str):
            c["arguments"], c["arguments_text"] = json.loads(c["arguments"]), c["arguments"]
    return messages


def words(messages):
    found = []
    for m in messages:
        found += re.findall(r"w\d{4}", json.dumps(m.get("content")))
        found += ["w5005"] if "tool_calls" in m else []
    return found


def score(text, messages):
    """What a rendering is worth: words that are shown as they should be, then the absence of None."""
    shown = 0
    for w in words(messages):
        at = text.lower().find(w)
        dumped = re.search(r"""text\\?["']\s*:\s*\\?["']$""", text[:max(at, 0)])
        quoted = w == "w5005" and re.search(r"""(\\"|'\{.q.[ :]*")$""", text[:max(at, 0)])
        shown += at >= 0 and not dumped and not quoted
    return shown, -text.count("None")


def render(template, messages, extra):
    args = {"tools": None, "documents": None, **copy.deepcopy(extra), **make_goldens.TOKENS}
    texts, _ = chat.render_jinja_template([copy.deepcopy(messages)], chat_template=template, add_generation_prompt=True, **args)
    return texts[0]


def best(template, case):
    messages, extra = CASES[case]
    chosen, value = None, None
    for _, variant in variants(messages):
        try:
            text = render(template, variant, extra)
        except Exception:
            continue
        worth = score(text, messages)
        if value is None or worth > value:
            chosen, value = text, worth
        if worth == (len(words(messages)), 0):
            break
    request = {"messages": contract(messages), "add_generation_prompt": True, **extra}
    return {"case": case, "request": request, **({"text": chosen} if chosen is not None else {"refused": True})}


def main():
    args = argparse.ArgumentParser()
    args.add_argument("folders", nargs="*", default=[os.path.join(HERE, "templates"), os.path.join(HERE, "shapes")])
    args.add_argument("--out", default=os.path.join(HERE, "forms.json.gz"))
    args = args.parse_args()
    out = []
    for folder in args.folders:
        for path in sorted(glob.glob(os.path.join(folder, "**", "*.jinja"), recursive=True)):
            with open(path, encoding="utf-8", newline="") as f:
                template = f.read()
            out += [{"template": os.path.relpath(path, os.path.dirname(folder)), **best(template, case)} for case in CASES]
    with open(args.out, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as f:
        f.write(json.dumps(out, ensure_ascii=False).encode())
    print(f"{len(out)} conversations, {sum('refused' in o for o in out)} of them refused")


if __name__ == "__main__":
    main()
