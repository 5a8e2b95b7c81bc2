#!/usr/bin/env python3
"""Asks the held-out prompts of the demo model and prints a table by kind.

    python3 eval.py --url http://127.0.0.1:3000      # a running tgi server
    python3 eval.py --checkpoint checkpoint          # transformers, no server

Prompts are in heldout.jsonl, already in chat format; answers are greedy. The
first form needs the standard library only. --show N prints N failures of each
kind, --json FILE writes every answer.
"""

import argparse
import concurrent.futures
import json
import os
import random
import re
import sys
import urllib.request

import stories
from world import PERSON

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 200


def vocabulary():
    """Every word that a story may use, apart from names."""
    rng = random.Random(5)
    words = set()
    for _ in range(6000):
        words |= set(re.findall(r"[a-z]+", stories.story(rng, lambda r: "Name")[0].lower()))
    return words


def words_of(text):
    return re.findall(r"[a-z]+", text.lower())


def story_ok(text, mention, words):
    """3 to 8 sentences, each ended and begun properly, about the asked, in the
    world's words; two invented names are free; nobody is named twice in a sentence."""
    if not text or text != text.strip() or text[-1] not in ".!?":
        return False
    sentences = re.split(r"(?<=[.!?]) ", text)
    if not 3 <= len(sentences) <= 8 or len(set(sentences)) != len(sentences):
        return False
    if not all(s[0].isupper() and s[-1] in ".!?" for s in sentences):
        return False
    known = words | {w for m in mention for w in words_of(m)} | {"s"}
    names = {w.lower() for w in re.findall(r"\b[A-Z][a-z]+", text)} - known
    if len(names) > 2 or not all(w in known | names for w in words_of(text)) or not all(stories.mentions(text, m) for m in mention):
        return False
    cast = [f"[Tt]he {k}" for k in stories.KINDS] + sorted(set(PERSON) | {n.capitalize() for n in names} | {m for m in mention if m[0].isupper()})
    return not any(len(re.findall(rf"\b{c}\b", s)) > 1 for s in sentences for c in cast)


CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>\n?", re.S)


def calls_of(text):
    """The tool calls of an answer, or None when it is anything else."""
    if CALL.sub("", text) != "":
        return None
    try:
        return [json.loads(c) for c in CALL.findall(text)]
    except ValueError:
        return None


def passes(case, text, words):
    """Whether an answer is right. Keys of a check: `all` / `any` strings that
    must be in it, `number` that must be its last number, `start` its beginning,
    `story` what a story must mention, `calls` the tool calls it must equal."""
    check = case["check"]
    if "calls" in check:
        return calls_of(text) == check["calls"]
    if "<tool_call>" in text:
        return False
    if "story" in check:
        return story_ok(text, check["story"], words)
    lower = text.lower()
    if "number" in check:
        found = re.findall(r"-?\d+", text)
        return bool(found) and int(found[-1]) == check["number"]
    if "start" in check:
        return text.startswith(check["start"])
    ok = all(re.search(r"(?<!\w)" + re.escape(k.lower()) + r"(?!\w)", lower) for k in check.get("all", []))
    return ok and (not check.get("any") or any(k.lower() in lower for k in check["any"]))


def ask_server(url, prompt, timeout):
    """(text, whether it ended by itself) from POST /generate."""
    body = {"inputs": prompt, "parameters": {"max_new_tokens": LIMIT, "do_sample": False, "details": True}}
    request = urllib.request.Request(url.rstrip("/") + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        got = json.load(reply)
    got = got[0] if isinstance(got, list) else got
    text = got["generated_text"].replace("<|im_end|>", "")
    return text, got["details"]["finish_reason"] == "eos_token"


def from_server(url, cases, timeout, streams):
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        return list(pool.map(lambda c: ask_server(url, c["prompt"], timeout), cases))


def from_checkpoint(folder, cases):
    """The same answers made by transformers in fp32, one by one."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    out = []
    for case in cases:
        ids = tokenizer(case["prompt"], return_tensors="pt", add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=LIMIT, do_sample=False)[0, ids.shape[1]:].tolist()
        ended = bool(got) and got[-1] in (0, 2)
        out.append((tokenizer.decode(got[:-1] if ended else got), ended))
    return out


def table(cases, answers, right):
    """The result as a Markdown table."""
    kinds = list(dict.fromkeys(c["kind"] for c in cases))
    lines = ["| kind | prompts | pass | share |", "|---|---:|---:|---:|"]

    def row(name, marks):
        lines.append(f"| {name} | {len(marks)} | {sum(marks)} | {100 * sum(marks) / len(marks):.1f} % |")
    for kind in kinds:
        row(kind, [r for c, r in zip(cases, right) if c["kind"] == kind])
    row("**all**", right)
    row("ends with EOS", [ended for _, ended in answers])
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = p.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="address of a tgi server")
    where.add_argument("--checkpoint", help="Hugging Face folder, run with transformers")
    p.add_argument("--prompts", default=os.path.join(HERE, "heldout.jsonl"))
    p.add_argument("--show", type=int, default=0, help="failures to print of each kind")
    p.add_argument("--json", help="file for every answer")
    p.add_argument("--timeout", type=float, default=120)
    p.add_argument("--streams", type=int, default=4, help="requests at a time")
    p.add_argument("--min", type=float, default=0, help="exit 1 when less than this share passes")
    a = p.parse_args()
    with open(a.prompts, encoding="utf-8") as f:
        cases = [json.loads(line) for line in f]
    answers = from_server(a.url, cases, a.timeout, a.streams) if a.url else from_checkpoint(a.checkpoint, cases)
    words = vocabulary()
    right = [passes(c, text, words) for c, (text, _) in zip(cases, answers)]
    shown = {}
    for c, (text, _), ok in zip(cases, answers, right):
        shown[c["kind"]] = shown.get(c["kind"], 0) + (not ok)
        if not ok and shown[c["kind"]] <= a.show:
            print(f"--- {c['kind']}\n{c['prompt'][-300:]}{text}\nexpected: {c['expected']}\n", file=sys.stderr)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            for c, (text, ended), ok in zip(cases, answers, right):
                f.write(json.dumps({**c, "answer": text, "ended": ended, "pass": ok}, ensure_ascii=False) + "\n")
    print(table(cases, answers, right))
    sys.exit(1 if sum(right) < a.min * len(right) else 0)


if __name__ == "__main__":
    main()
