"""openai: chat, completions, models, errors, leaving a stream; both of its clients."""

import json

import openai

from checks import *

client = openai.OpenAI(base_url=URL + "/v1", api_key="any")
keyed = openai.OpenAI(base_url=KEYED_URL + "/v1", api_key=KEY)
hasty = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
model = client.models.list().data[0].id

# No token that ends a text.
ENDLESS = {"0": -100, "2": -100}


def chat(c=client, **settings):
    return c.chat.completions.create(**{"model": "tgi", "messages": MESSAGES, "temperature": 0, **settings})


@check("chat")
def _():
    r = chat()
    holds(r.choices[0].message.content, ANSWER)
    same(r.choices[0].message.role, "assistant")
    same(r.choices[0].finish_reason, "stop")
    same(r.object, "chat.completion")
    same(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens)
    assert r.usage.completion_tokens > 1, r.usage
    assert r.id and r.id != chat().id, f"ids {r.id!r} must differ"
    assert r._request_id, "no x-request-id"


@check("chat: names of models that mean the default")
def _():
    for name in ("tgi", "dummy", "", model):
        holds(chat(model=name).choices[0].message.content, ANSWER)


@check("chat: a conversation of several turns with content in parts")
def _():
    r = chat(messages=[
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": [{"type": "text", "text": "What pet does Tomas have?"}]},
        {"role": "assistant", "content": "Tomas has a cat."},
        {"role": "user", "content": QUESTION},
    ])
    holds(r.choices[0].message.content, ANSWER)


@check("chat: stream")
def _():
    whole = chat()
    chunks = list(chat(stream=True))
    same(chunks[0].choices[0].delta.role, "assistant")
    same("".join(c.choices[0].delta.content or "" for c in chunks), whole.choices[0].message.content)
    same([c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason], ["stop"])
    same(len({c.id for c in chunks}), 1)
    same({c.object for c in chunks}, {"chat.completion.chunk"})
    assert all(c.usage is None for c in chunks), "usage that nobody asked for"


@check("chat: usage at the end of a stream")
def _():
    whole = chat()
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    same(chunks[-1].choices, [])
    same(chunks[-1].usage.model_dump(), whole.usage.model_dump())
    assert all(c.usage is None and c.choices for c in chunks[:-1]), "usage or no choices before the last chunk"


@check("chat: stream helper")
def _():
    with client.chat.completions.stream(model="tgi", messages=MESSAGES, temperature=0) as s:
        kinds = {e.type for e in s}
        final = s.get_final_completion()
    holds(final.choices[0].message.content, ANSWER)
    assert {"chunk", "content.delta", "content.done"} <= kinds, kinds


@check("chat: n choices")
def _():
    r = chat(n=2, temperature=1, seed=7, max_tokens=5)
    same([c.index for c in r.choices], [0, 1])
    chunks = list(chat(n=2, temperature=1, seed=7, max_tokens=5, stream=True))
    for i in range(2):
        text = "".join(c.delta.content or "" for k in chunks for c in k.choices if c.index == i)
        same(text, r.choices[i].message.content)


@check("chat: logprobs")
def _():
    r = chat(logprobs=True, top_logprobs=3)
    content = r.choices[0].logprobs.content
    assert content and all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in content), content
    # Greedy: the token that was taken is the likeliest.
    assert all(t.token == t.top_logprobs[0].token for t in content), content
    same(b"".join(bytes(t.bytes) for t in content if t.bytes).decode(), r.choices[0].message.content)


@check("chat: seed")
def _():
    a, b = (chat(temperature=1.5, seed=11, max_tokens=20).choices[0].message.content for _ in range(2))
    same(a, b)


@check("chat: max_tokens and max_completion_tokens")
def _():
    for name in ("max_tokens", "max_completion_tokens"):
        r = chat(**{name: 3})
        same(r.usage.completion_tokens, 3)
        same(r.choices[0].finish_reason, "length")


@check("chat: stop as text and as list")
def _():
    for stop in (ANSWER, [ANSWER]):
        r = chat(stop=stop)
        assert ANSWER not in r.choices[0].message.content, r.choices[0].message.content
        same(r.choices[0].finish_reason, "stop")
        text = "".join(c.choices[0].delta.content or "" for c in chat(stop=stop, stream=True))
        same(text, r.choices[0].message.content)


@check("chat: logit_bias, top_p 1, penalties")
def _():
    r = chat(logit_bias={"2": 100}, top_p=1, presence_penalty=0, frequency_penalty=0)
    same((r.choices[0].message.content, r.usage.completion_tokens), ("", 1))  # 2 ends a turn


TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
SUNNY = '{"city": "Paris", "weather": "sunny"}'


@check("tools: a call and its result")
def _():
    r = chat(messages=ASK, tools=[TOOL])
    message = r.choices[0].message
    same((r.choices[0].finish_reason, message.content, len(message.tool_calls)), ("tool_calls", None, 1))
    call = message.tool_calls[0]
    same((call.type, call.function.name, json.loads(call.function.arguments)), ("function", "get_weather", {"city": "Paris"}))
    r = chat(messages=[*ASK, message, {"role": "tool", "tool_call_id": call.id, "content": SUNNY}], tools=[TOOL])
    holds(r.choices[0].message.content, "sunny")
    same((r.choices[0].finish_reason, r.choices[0].message.tool_calls), ("stop", None))


@check("tools: stream")
def _():
    whole = chat(messages=ASK, tools=[TOOL]).choices[0].message.tool_calls[0]
    chunks = list(chat(messages=ASK, tools=[TOOL], stream=True))
    deltas = [d for c in chunks for d in c.choices[0].delta.tool_calls or []]
    same([(d.index, d.type, d.function.name) for d in deltas if d.id], [(0, "function", "get_weather")])
    assert len(deltas) > 2 and all(d.index == 0 and d.function.arguments is not None for d in deltas), deltas
    same("".join(d.function.arguments for d in deltas), whole.function.arguments)
    same([c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason], ["tool_calls"])
    same("".join(c.choices[0].delta.content or "" for c in chunks), "")


@check("tools: stream helper")
def _():
    with client.chat.completions.stream(model="tgi", messages=ASK, tools=[TOOL], temperature=0) as s:
        kinds = {e.type for e in s}
        call = s.get_final_completion().choices[0].message.tool_calls[0]
    same(json.loads(call.function.arguments), {"city": "Paris"})
    assert "tool_calls.function.arguments.done" in kinds, kinds


@check("tools: none, required, by name")
def _():
    r = chat(messages=ASK, tools=[TOOL], tool_choice="none")
    same((r.choices[0].finish_reason, r.choices[0].message.tool_calls), ("stop", None))
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        r = chat(messages=ASK, tools=[TOOL], tool_choice=choice)
        same((r.choices[0].finish_reason, r.choices[0].message.tool_calls[0].function.name), ("tool_calls", "get_weather"))
    raises(openai.UnprocessableEntityError, lambda: chat(
        messages=ASK, tools=[TOOL], tool_choice={"type": "function", "function": {"name": "nothing"}}), "nothing")


@check("tools: a call that the length limit cut has what came of it, whole and in a stream")
def _():
    r = chat(messages=ASK, tools=[TOOL]).choices[0].message.tool_calls[0].function
    named = 0
    for most in range(1, 24):
        whole = chat(messages=ASK, tools=[TOOL], max_tokens=most).choices[0]
        if whole.finish_reason != "length":
            break
        name, arguments = "", ""
        for c in chat(messages=ASK, tools=[TOOL], max_tokens=most, stream=True):
            for call in c.choices[0].delta.tool_calls or []:
                name += call.function.name or ""
                arguments += call.function.arguments or ""
        calls = whole.message.tool_calls or []
        same("".join(c.function.name for c in calls), name)
        same("".join(c.function.arguments for c in calls), arguments)
        if calls:
            named += 1
            same(name, r.name)
            holds(r.arguments, arguments)
    same(named > 3, True)


@check("chat: raw response has the request's id")
def _():
    r = client.chat.completions.with_raw_response.create(
        model="tgi", messages=MESSAGES, max_tokens=1, extra_headers={"x-request-id": "mine-1"})
    same(r.headers["x-request-id"], "mine-1")
    same(r.parse().usage.completion_tokens, 1)


@check("completions")
def _():
    r = client.completions.create(model="tgi", prompt=PROMPT, temperature=0, max_tokens=50)
    holds(r.choices[0].text, ANSWER)
    same(r.object, "text_completion")
    same(r.choices[0].finish_reason, "stop")
    text = "".join(c.choices[0].text for c in client.completions.create(
        model="tgi", prompt=PROMPT, temperature=0, max_tokens=50, stream=True) if c.choices)
    same(text, r.choices[0].text)


@check("completions: several prompts")
def _():
    prompts = [PROMPT, "Once upon a time", PROMPT]
    r = client.completions.create(model="tgi", prompt=prompts, temperature=0, max_tokens=8)
    same([c.index for c in r.choices], [0, 1, 2])
    same(r.choices[0].text, r.choices[2].text)
    same(r.usage.completion_tokens, 24)
    texts = ["", "", ""]
    for c in client.completions.create(model="tgi", prompt=prompts, temperature=0, max_tokens=8, stream=True):
        for k in c.choices:
            texts[k.index] += k.text
    same(texts, [c.text for c in r.choices])


@check("models")
def _():
    r = client.models.list()
    same({m.object for m in r.data}, {"model"})
    same(r.data[0].id, client.models.retrieve("tgi").id)  # the default one is first


@check("models: one of them")
def _():
    for m in client.models.list().data:
        same(client.models.retrieve(m.id).id, m.id)
    raises(openai.NotFoundError, lambda: client.models.retrieve("no-such-model"))


@check("errors: 422 with the server's words")
def _():
    e = raises(openai.UnprocessableEntityError, lambda: chat(max_tokens=100_000), "max")
    same(e.status_code, 422)
    assert e.body and isinstance(e.message, str), e.body


@check("errors: in a stream")
def _():
    raises(openai.APIError, lambda: list(chat(max_tokens=100_000, stream=True)), "max")


@check("errors: 404")
def _():
    raises(openai.NotFoundError, lambda: openai.OpenAI(base_url=URL + "/nowhere", api_key="any").models.list())


@check("errors: empty conversation")
def _():
    raises(openai.APIStatusError, lambda: hasty.chat.completions.create(model="tgi", messages=[]))


@check("every dialect")
def _():
    for dialect in DIALECTS:
        c = client.with_options(default_headers={"X-TGI-Dialect": dialect})
        whole = chat(c, max_tokens=50).choices[0].message.content
        holds(whole, ANSWER)
        same("".join(k.choices[0].delta.content or "" for k in chat(c, max_tokens=50, stream=True)), whole)
        holds(str(raises(openai.UnprocessableEntityError, lambda: chat(c, max_tokens=100_000)).body), "max")
        raises(openai.APIError, lambda: list(chat(c, max_tokens=100_000, stream=True)))


@check("keys: the right and a wrong one")
def _():
    holds(chat(keyed).choices[0].message.content, ANSWER)
    wrong = openai.OpenAI(base_url=KEYED_URL + "/v1", api_key="wrong")
    raises(openai.AuthenticationError, lambda: chat(wrong))
    raises(openai.AuthenticationError, lambda: list(chat(wrong, stream=True)))


@check("overload: 429, and the client's own retries get through")
async def _():
    async def crowd(retries):
        async with openai.AsyncOpenAI(base_url=KEYED_URL + "/v1", api_key=KEY, max_retries=retries) as c:
            return await asyncio.gather(*(c.chat.completions.create(
                model="tgi", messages=MESSAGES, temperature=0, max_tokens=200, logit_bias=ENDLESS)
                for _ in range(8)), return_exceptions=True)

    refused = [r for r in await crowd(0) if isinstance(r, Exception)]
    assert refused and all(isinstance(r, openai.RateLimitError) for r in refused), refused
    assert all(int(r.response.headers["retry-after"]) >= 1 for r in refused), refused
    assert not [r for r in await crowd(20) if isinstance(r, Exception)], "a request failed although it was tried again"


@check("leaving a stream ends its request")
def _():
    def leave():
        with chat(hasty, stream=True, max_tokens=LONG_TOKENS, logit_bias=ENDLESS) as s:
            next(iter(s))

    stops(leave)


@check("leaving a whole reply ends its request")
def _():
    def leave():
        impatient = hasty.with_options(timeout=0.05)
        raises(openai.APITimeoutError, lambda: chat(impatient, max_tokens=LONG_TOKENS, logit_bias=ENDLESS))

    stops(leave)


@check("async: chat and stream")
async def _():
    async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="any") as c:
        replies = await asyncio.gather(*(c.chat.completions.create(
            model="tgi", messages=MESSAGES, temperature=0) for _ in range(8)))
        same(len({r.choices[0].message.content for r in replies}), 1)
        text = ""
        async for k in await c.chat.completions.create(model="tgi", messages=MESSAGES, temperature=0, stream=True):
            text += k.choices[0].delta.content or ""
        same(text, replies[0].choices[0].message.content)


run()
