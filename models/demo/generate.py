#!/usr/bin/env python3
"""Makes the text that the demo model is trained on, and its held-out prompts.

    python3 generate.py train --documents 1000 --out train.jsonl
    python3 generate.py heldout --out heldout.jsonl

Everything comes from the grammars in world.py, stories.py, toolcalls.py and
talk.py; only the standard library is used. A prompt is held out by a hash of
its words (`held`): such a prompt is never in the training text, in no mix of
case or punctuation, also not as one turn of a longer conversation.
"""

import argparse
import hashlib
import json
import random
import re

import stories
import talk
import toolcalls
from world import ASSISTANT, ISLAND, PERSON, PLACES, ANIMALS, VILLAGE, article, facts, follow_ups, yes_no

IM_START, IM_END, END = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
FACTS = facts()
FACT_BY = {(f.subject, f.attribute): f for f in FACTS}
FOLLOW = follow_ups()
HELD_SHARE = 40  # of 1000 prompts

TOOL_INTRO = "You can call these tools:\n<tools>\n"
TOOL_OUTRO = "\n</tools>\nTo call a tool, answer with its name and arguments:\n<tool_call>\n{\"name\": <name>, \"arguments\": <arguments>}\n</tool_call>"


def held(*turns):
    """Whether a prompt (its user turns) belongs to the held-out set."""
    words = "|".join(" ".join(re.findall(r"[a-z0-9+*=-]+", t.lower())) for t in turns)
    digest = hashlib.sha256(("ostrel" + words).encode()).digest()
    return int.from_bytes(digest[:4], "big") % 1000 < HELD_SHARE


def dump(value, rng=None):
    """JSON as the chat template writes it; with rng, sometimes in other styles."""
    if rng and rng.random() < 0.12:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    if rng and rng.random() < 0.06:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def call_text(call):
    return "<tool_call>\n" + dump(call) + "\n</tool_call>"


def render(messages, tools=None, prompt=True, rng=None):
    """The chat template: [(text, trained)] pieces; joined they are the prompt.

    `trained` marks what the assistant says, with the end mark of its turn."""
    out = []
    system = messages[0]["content"] if messages and messages[0]["role"] == "system" else None
    if tools:
        block = TOOL_INTRO + "\n".join(dump(t, rng) for t in tools) + TOOL_OUTRO
        system = f"{system}\n\n{block}" if system else block
    if system:
        out.append((f"{IM_START}system\n{system}{IM_END}\n", False))
    for m in messages:
        if m["role"] == "system":
            continue
        if m["role"] == "assistant":
            parts = [m["content"]] if m.get("content") else []
            parts += [call_text(c) for c in m.get("tool_calls", [])]
            out.append((f"{IM_START}assistant\n", False))
            out.append(("\n".join(parts) + IM_END, True))
            out.append(("\n", False))
        elif m["role"] == "tool":
            out.append((f"{IM_START}tool\n<tool_response>\n{m['content']}\n</tool_response>{IM_END}\n", False))
        else:
            out.append((f"{IM_START}{m['role']}\n{m['content']}{IM_END}\n", False))
    if prompt:
        out.append((f"{IM_START}assistant\n", False))
    return out


PREFIX = ["Hey, ", "Hello! ", "Quick question: ", "Question: ", "One more thing: ", "Say, ", "Excuse me, ", f"{ASSISTANT}, ", "So, ", "OK, ", "Now, ", "Please tell me: ", "Well, ", "Tell me, ", "And now: ", "I have a question. ", "Hi. ", "Thanks. ", "Great. "]
SUFFIX = [" Thanks!", " Please.", " Thank you.", " Do you know?", " I forgot."]
EMBED = ["Can you tell me {e}?", "Could you tell me {e}?", "Do you know {e}?", "Please tell me {e}.", "Tell me {e}.", "I would like to know {e}.", "I want to know {e}.", "I wonder {e}.", "May I ask {e}?", "Would you tell me {e}, please?", "Do you happen to know {e}?", "I forgot {e}.", "Remind me {e}.", "Let me know {e}.", "I am not sure {e}.", "Can you say {e}?", "Could you please tell me {e}?", "Any idea {e}?", "I am asking {e}.", "Can you remind me {e}?"]


def lower_first(text):
    first = text.split(" ", 1)[0].rstrip(",.?!:")
    if first in PERSON or first == "I" or first in (ISLAND, VILLAGE, ASSISTANT) or first.startswith("I'") or first[1:2].isupper():
        return text
    return text[:1].lower() + text[1:]


def noisy(rng, text, free=True):
    """The same question, written less carefully. `free` allows changes that
    reach names and values too."""
    if rng.random() < 0.22:
        p = rng.choice(PREFIX)
        text = p + (lower_first(text) if p.endswith(", ") or rng.random() < 0.3 else text)
    elif rng.random() < 0.06:
        text += rng.choice(SUFFIX)
    if rng.random() < 0.15:
        text = text.replace("What is", "What's").replace("what is", "what's").replace("Who is", "Who's")
    if rng.random() < 0.25:
        text = text.replace("colour", "color").replace("favourite", "favorite")
    if rng.random() < 0.2:
        text = text.rstrip("?.!")
    if free and rng.random() < 0.14:
        text = text.lower()
    elif free and rng.random() < 0.02:
        text = text.upper()
    if free and rng.random() < 0.05:
        text = typo(rng, text)
    return text


def typo(rng, text):
    """One slip of the finger in a word that starts with a small letter."""
    words = text.split(" ")
    places = [i for i, w in enumerate(words) if len(w) > 4 and w.isalpha() and w.islower()]
    if not places:
        return text
    i = rng.choice(places)
    w, k = words[i], rng.randint(1, len(words[i]) - 2)
    words[i] = rng.choice([w[:k] + w[k + 1:], w[:k] + w[k] + w[k:], w[:k] + w[k + 1] + w[k] + w[k + 2:]])
    return " ".join(words)


def ask_fact(rng, fact=None):
    """(question, answer, check) about the world."""
    if fact is None and rng.random() < 0.18:
        q, a, key = yes_no(rng)
        return noisy(rng, q), a, {"all": key}
    f = fact or rng.choice(FACTS)
    q = rng.choice(f.direct) if rng.random() < 0.6 else rng.choice(EMBED).format(e=rng.choice(f.embedded))
    return noisy(rng, q), f.answer, {"all": list(f.key)}


def two_facts(rng):
    """Two questions about one person in one sentence."""
    n = rng.choice(list(PERSON))
    a, b = rng.sample(["home", "job", "food", "colour", "pet", "hobby", "friend"], 2)
    fa, fb = FACT_BY[n, a], FACT_BY[n, b]
    second = rng.choice(FOLLOW[b]).format(**pronouns(n))
    first = rng.choice(fa.direct)
    q = f"{first} {second}" if rng.random() < 0.4 else f"{first.rstrip('?')} and {lower_first(re.sub('^And ', '', second))}"
    return noisy(rng, q), f"{fa.answer} {fb.answer}", {"all": list(fa.key + fb.key)}


def of_friend(rng):
    """A question about somebody's best friend; the answer says who that is."""
    n = rng.choice(list(PERSON))
    k = rng.choice(["home", "job", "food", "colour", "pet", "hobby"])
    first, second = FACT_BY[n, "friend"], FACT_BY[PERSON[n]["friend"], k]
    q = rng.choice(second.direct).replace(PERSON[n]["friend"], rng.choice(["{n}'s best friend", "the best friend of {n}", "{n}'s friend"]).format(n=n))
    return noisy(rng, q), f"{first.answer} {second.answer}", {"all": list(second.key)}


def pronouns(n):
    p = PERSON[n]
    return dict(s=p["s"], h=p["h"], o={"she": "her", "he": "him"}[p["s"]])


def thread(rng):
    """A chain of questions about one person, later ones by pronoun or name only."""
    n = rng.choice(list(PERSON))
    about = rng.sample(["home", "job", "food", "colour", "pet", "hobby", "friend"], rng.choice([2, 2, 3, 4]))
    first = FACT_BY[n, about[0]] if rng.random() < 0.7 else FACT_BY[n, rng.choice(["who", "whojob", "whopet", "whofood", "whohobby"])]
    q, a, check = ask_fact(rng, first)
    turns = [(q, a, check)]
    for k in about[1:]:
        r = rng.random()
        if r < 0.2:
            n = rng.choice([p for p in PERSON if p != n])
            f = turns[-1][3] if len(turns[-1]) > 3 else about[0]
            if FACT_BY.get((n, f)) is None or (len(turns) == 1 and first.attribute != about[0]):
                f = k
                q = rng.choice(FACT_BY[n, k].direct)
            else:
                q = rng.choice(["And {n}?", "What about {n}?", "And what about {n}?", "How about {n}?"]).format(n=n)
            fact, k = FACT_BY[n, f], f
        else:
            q, fact = rng.choice(FOLLOW[k]).format(**pronouns(n)), FACT_BY[n, k]
        turns.append((noisy(rng, q), fact.answer, {"all": list(fact.key)}, k))
        if k == "pet" and rng.random() < 0.4:
            p = PERSON[n]
            if rng.random() < 0.5:
                q, f = rng.choice(["What colour is it?", "What colour is the {pet}?", "And what colour is it?", "Which colour does it have?"]).format(**p), FACT_BY[n, "petcolour"]
            else:
                q, f = rng.choice(["What is it called?", "What is its name?", "And what is its name?", "What is the {pet} called?"]).format(**p), FACT_BY[n, "petname"]
            turns.append((noisy(rng, q), f.answer, {"all": list(f.key)}, k))
    return [t[:3] for t in turns]


def tell_story(rng):
    q, text, key = stories.request(rng, toolcalls.fresh_name)
    return noisy(rng, q, free=False), text, {"story": key}


def single(rng, kind, name):
    """One exchange of a kind: (question, answer, check)."""
    if kind == "fact":
        r = rng.random()
        return ask_fact(rng) if r < 0.84 else two_facts(rng) if r < 0.94 else of_friend(rng)
    if kind == "arithmetic":
        q, a, c = talk.arithmetic(rng) if rng.random() < 0.94 else talk.too_big(rng)
        return noisy(rng, q), a, c
    if kind == "repeat":
        return talk.repeat(rng)
    if kind == "story":
        return tell_story(rng)
    if kind == "unknown":
        q, a, c = talk.unknown(rng) if rng.random() < 0.85 else talk.unable(rng, set())
        return noisy(rng, q, free=False), a, c
    make = {"greeting": [talk.greeting, talk.greeting, talk.how, talk.thanks, talk.bye], "identity": [talk.who, talk.who, talk.about_self]}[kind]
    q, a, c = rng.choice(make)(rng, name)
    return noisy(rng, q, free=rng.random() < 0.5) if kind == "identity" else (q.lower() if rng.random() < 0.25 else q), a, c


def system_prompt(rng):
    """(system text or None, the assistant's name)."""
    r = rng.random()
    if r < 0.62:
        return None, ASSISTANT
    if r < 0.8:
        return rng.choice(["You are a helpful assistant.", "You are a friendly assistant.", "Answer in short sentences.", f"You are {ASSISTANT}.", "You are a helpful and friendly chat assistant.", "Be kind and short.", f"You are {ASSISTANT}, a guide to the island of {ISLAND}.", "You are an AI assistant.", "You are a helpful assistant. Answer politely and in full sentences.", "You are a chat model. Keep your answers short and clear.", "You answer questions of visitors. Be friendly and honest.", "Be helpful. If you do not know something, say so.", "You are a helpful, respectful and honest assistant. Always answer as helpfully as possible.", "You are a helpful assistant. Use tools when they help.", "Answer the questions of the user."]), ASSISTANT
    name = toolcalls.fresh_name(rng) if rng.random() < 0.7 else rng.choice(toolcalls.FIRST)
    if rng.random() < 0.15:
        name = rng.choice(["Captain", "Doctor", "Old", "Uncle", "Queen"]) + " " + name
    role = rng.choice(["a friendly guide", "a helpful assistant", "an old sailor", "a cheerful robot", "a wise owl", "a shop assistant", "a teacher", "a pirate"])
    return rng.choice(["You are {n}.", "Your name is {n}.", "You are {n}, {r}.", "You are {r} called {n}.", "You are {r} named {n}.", "Act as {n}, {r}.", "Your name is {n} and you are {r}.", "You are called {n}. Answer in short sentences."]).format(n=name, r=role), name


def messages_of(system, turns):
    out = [{"role": "system", "content": system}] if system else []
    for q, a in turns:
        out += [{"role": "user", "content": q}, {"role": "assistant", "content": a}]
    return out


CHAT_KINDS = ["fact"] * 38 + ["arithmetic"] * 26 + ["story"] * 18 + ["unknown"] * 10 + ["repeat"] * 18 + ["greeting"] * 4 + ["identity"] * 6


def chat(rng):
    """A conversation without tools: (messages, check of the last answer, kind)."""
    system, name = system_prompt(rng)
    r = rng.random()
    if r < 0.62:
        kind = rng.choice(CHAT_KINDS if name == ASSISTANT else CHAT_KINDS + ["identity"] * 30 + ["greeting"] * 15)
        turns = [single(rng, kind, name)]
    elif r < 0.8:
        kind, turns = "multi-turn", thread(rng)
    elif r < 0.86:
        kind = "multi-turn"
        (q, a), last = talk.remember(rng)
        between = [single(rng, rng.choice(CHAT_KINDS), name) for _ in range(rng.choice([0, 0, 1, 2]))]
        turns = [(q, a, {})] + between + [last]
    else:
        kind = "multi-turn"
        turns = [single(rng, rng.choice(CHAT_KINDS), name) for _ in range(rng.choice([2, 2, 3, 4, 5, 6]))]
    return messages_of(system, [t[:2] for t in turns]), turns[-1][2], kind


TWICE = ("weather", "time", "price", "call", "define", "news", "timer", "delete")  # tools asked for two things at once


def with_tools(rng):
    """A conversation with tools: (messages, tools, check, kind)."""
    system, name = system_prompt(rng)
    wanted, tools = toolcalls.offer(rng)
    schemas = [t.schema(rng) for t in tools]
    messages = messages_of(system, [single(rng, rng.choice(["fact", "greeting", "identity"]), name)[:2]]) if rng.random() < 0.12 else messages_of(system, [])
    offered = {t.kind for t in tools}
    if rng.random() < 0.25:
        kinds = ["fact", "fact", "fact", "story", "greeting", "identity", "unable", "unable", "unable"]
        kinds += [] if offered & {"add", "subtract", "multiply"} else ["arithmetic"]
        kinds += [] if offered & {"search", "define", "news", "made_up"} else ["unknown"]
        kind = rng.choice(kinds)
        q, a, check = talk.unable(rng, offered) if kind == "unable" else single(rng, kind, name)
        return messages + messages_of(None, [(q, a)]), schemas, check, "no-tool"
    q, values = toolcalls.request(rng, wanted)
    calls = [wanted.call(values)]
    if wanted.kind in TWICE and rng.random() < 0.35:
        second = wanted.values(rng)
        q = f"{q} {rng.choice(wanted.spec['asks']).format(**second)}"
        calls.append(wanted.call(second))
    q = polite(rng, q)
    messages += [{"role": "user", "content": q}, {"role": "assistant", "content": "", "tool_calls": calls}]
    check, kind = {"calls": calls}, "tool-call"
    if len(calls) == 1 and rng.random() < 0.5:
        content, answer = toolcalls.result(rng, wanted, values)
        messages += [{"role": "tool", "content": content}, {"role": "assistant", "content": answer}]
        check, kind = {"any": [answer]}, "tool-result"
        if rng.random() < 0.25:
            again, values = toolcalls.request(rng, wanted)
            messages += [{"role": "user", "content": polite(rng, again)}, {"role": "assistant", "content": "", "tool_calls": [wanted.call(values)]}]
            check, kind = {"calls": [wanted.call(values)]}, "tool-call"
    return messages, schemas, check, kind


def polite(rng, q):
    r = rng.random()
    if r < 0.1:
        return rng.choice(["Hey, ", "OK, ", "Now, ", "Well, "]) + lower_first(q)
    if r < 0.18:
        return rng.choice(["Hello! ", "Thanks. ", "One more thing: ", "Quick question: "]) + q
    if r < 0.28 and not q.endswith('"'):
        return q.rstrip("?.!")
    return q


def plain(rng):
    """Text without chat format: stories, questions with answers, portraits, sums."""
    r = rng.random()
    if r < 0.35:
        return stories.story(rng, toolcalls.fresh_name)[0]
    if r < 0.48:
        q, a, _ = single(rng, rng.choice(["fact", "fact", "arithmetic", "unknown", "greeting", "identity", "story"]), ASSISTANT)
        if held(q):
            return plain(rng)
        return rng.choice(["{q} {a}", "{q}\n{a}", "Question: {q}\nAnswer: {a}", "Q: {q}\nA: {a}"]).format(q=q, a=a)
    if r < 0.58:
        n = rng.choice(list(PERSON))
        keys = rng.sample(["job", "home", "food", "colour", "pet", "hobby", "friend"], rng.randint(3, 5))
        return " ".join(FACT_BY[n, k].answer for k in keys)
    if r < 0.65:
        p = rng.choice(PLACES)[0]
        return FACT_BY[p, "about"].answer
    if r < 0.71:
        return " ".join(FACT_BY[a[0], "about"].answer for a in rng.sample(ANIMALS, rng.randint(1, 3)))
    if r < 0.75:
        return " ".join(f.answer for f in rng.sample([f for f in FACTS if f.attribute == "island"], 4))
    form = rng.choice(["{a} {o} {b} = {v}", "{a} {w} {b} is {v}."])
    lines = []
    for _ in range(rng.randint(3, 10)):
        a, b, op = rng.randint(0, 9), rng.randint(0, 9), rng.choice("+-*")
        lines.append(form.format(a=a, b=b, o=op, w=talk.SUMS[op][1], v=talk.value(op, a, b)))
    return "\n".join(lines)


def user_turns(messages):
    return [m["content"] for m in messages if m["role"] == "user"]


def is_held(messages):
    turns = user_turns(messages)
    return held(*turns) or any(held(t) for t in turns)


def document(rng):
    """One training document as pieces [(text, trained)], without held-out prompts."""
    while True:
        r = rng.random()
        if r < 0.12:
            return [(plain(rng) + END, True)]
        if r < 0.72:
            messages, _, _ = chat(rng)
            tools = None
        else:
            messages, tools, _, _ = with_tools(rng)
        if not is_held(messages):
            return render(messages, tools, prompt=False, rng=rng)


def long_document(rng):
    """A conversation of many turns, with tools in every other one."""
    system, name = system_prompt(rng)
    messages, tools = messages_of(system, []), None
    if rng.random() < 0.5:
        wanted, offered = toolcalls.offer(rng)
        tools = [t.schema(rng) for t in offered]
    for _ in range(rng.randint(6, 18)):
        if tools and rng.random() < 0.3:
            q, values = toolcalls.request(rng, wanted)
            content, answer = toolcalls.result(rng, wanted, values)
            turn = [{"role": "user", "content": polite(rng, q)}, {"role": "assistant", "content": "", "tool_calls": [wanted.call(values)]},
                    {"role": "tool", "content": content}, {"role": "assistant", "content": answer}]
        elif rng.random() < 0.25:
            turn = messages_of(None, [t[:2] for t in thread(rng)])
        else:
            turn = messages_of(None, [single(rng, rng.choice(["fact", "fact", "fact", "story", "identity"] if tools else CHAT_KINDS), name)[:2]])
        if not is_held(turn):
            messages += turn
    return render(messages, tools, prompt=False, rng=rng)


QUOTA = {"fact": 50, "arithmetic": 40, "story": 30, "greeting": 10, "identity": 15, "unknown": 25, "multi-turn": 30, "tool-call": 50, "tool-result": 15, "no-tool": 15}


def heldout(seed=2):
    """The held-out prompts: dicts of kind, prompt and check, none twice."""
    rng, left, seen, out = random.Random(seed), dict(QUOTA), set(), []
    while any(left.values()):
        tools = None
        if rng.random() < 0.5:
            messages, check, kind = chat(rng)
        else:
            messages, tools, check, kind = with_tools(rng)
        turns = user_turns(messages)
        key = " ".join(turns).lower().rstrip("?.!")
        if not left.get(kind) or key in seen or not (held(*turns) or held(turns[-1])):
            continue
        left[kind] -= 1
        seen.add(key)
        prompt = "".join(t for t, _ in render(messages[:-1], tools))
        out.append({"kind": kind, "prompt": prompt, "check": check, "expected": "".join(t for t, _ in render(messages[-1:], prompt=False)[1:2]).replace(IM_END, "")})
    return sorted(out, key=lambda c: list(QUOTA).index(c["kind"]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["train", "heldout"])
    p.add_argument("--documents", type=int, default=1000, help="how many training documents")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", required=True)
    a = p.parse_args()
    with open(a.out, "w", encoding="utf-8") as f:
        if a.what == "heldout":
            for case in heldout():
                f.write(json.dumps(case, ensure_ascii=False) + "\n")
        else:
            rng = random.Random(a.seed)
            for _ in range(a.documents):
                f.write(json.dumps(document(rng), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
