"""huggingface_hub: InferenceClient and AsyncInferenceClient on a server's address."""

import json

from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError, OverloadedError, ValidationError

from checks import *

client = InferenceClient(URL)
slash = InferenceClient(URL + "/")
END = "<|im_end|>"
keyed = InferenceClient(KEYED_URL, token=KEY)


@check("text_generation")
def _():
    for c in (client, slash, keyed):
        text = c.text_generation(PROMPT, max_new_tokens=50, return_full_text=False)
        holds(text, ANSWER)


@check("text_generation: the full text is the default of POST /")
def _():
    text = client.text_generation(PROMPT, max_new_tokens=50)
    assert text.startswith(PROMPT), text


@check("text_generation: details")
def _():
    r = client.text_generation(
        PROMPT, max_new_tokens=50, details=True, decoder_input_details=True, top_n_tokens=2, return_full_text=False)
    holds(r.generated_text, ANSWER)
    d = r.details
    same(d.finish_reason, "eos_token")
    same(len(d.tokens), d.generated_tokens)
    same("".join(t.text for t in d.tokens if not t.special), r.generated_text)
    same(d.seed, None)
    same([len(top) for top in d.top_tokens], [2] * len(d.tokens))
    same("".join(t.text for t in d.prefill), PROMPT)
    same(d.prefill[0].logprob, None)


@check("text_generation: best_of")
def _():
    r = client.text_generation(PROMPT, max_new_tokens=5, details=True, best_of=2, do_sample=True)
    same(len(r.details.best_of_sequences), 1)
    assert r.details.seed is not None, "no seed"


@check("text_generation: every setting")
def _():
    r = client.text_generation(
        PROMPT, max_new_tokens=5, details=True, do_sample=True, frequency_penalty=0.1, repetition_penalty=1.1, seed=3,
        stop=["zzz"], temperature=0.5, top_k=10, top_p=0.9, truncate=6, typical_p=0.9, watermark=True)
    same((r.details.generated_tokens, r.details.finish_reason, r.details.seed), (5, "length", 3))


@check("text_generation: stop text stays in the text")
def _():
    r = client.text_generation(PROMPT, max_new_tokens=50, details=True, stop=["the old"], return_full_text=False)
    same(r.details.finish_reason, "stop_sequence")
    assert r.generated_text.endswith("the old"), r.generated_text


@check("text_generation: stream")
def _():
    whole = client.text_generation(PROMPT, max_new_tokens=50, return_full_text=False)
    # Without details the client hands on the text of special tokens too.
    same("".join(client.text_generation(PROMPT, max_new_tokens=50, stream=True)), whole + END)


@check("text_generation: stream with details")
def _():
    events = list(client.text_generation(PROMPT, max_new_tokens=50, stream=True, details=True, return_full_text=False))
    same([e.index for e in events], list(range(1, len(events) + 1)))
    assert all(e.generated_text is None and e.details is None for e in events[:-1]), "an early end"
    last = events[-1]
    holds(last.generated_text, ANSWER)
    same((last.details.finish_reason, last.details.generated_tokens), ("eos_token", len(events)))
    assert last.details.input_length > 3, last.details
    same("".join(e.token.text for e in events if not e.token.special), last.generated_text)


@check("text_generation: errors have their types")
def _():
    raises(ValidationError, lambda: client.text_generation(PROMPT, max_new_tokens=100_000), "Input validation error")
    raises(ValidationError, lambda: client.text_generation(PROMPT, top_p=1.0), "`top_p` must be > 0.0 and < 1.0")
    raises(ValidationError, lambda: list(client.text_generation(PROMPT, temperature=-1.0, stream=True)), "`temperature`")


@check("text_generation: overload has its type")
async def _():
    async with AsyncInferenceClient(KEYED_URL, token=KEY) as c:
        got = await asyncio.gather(*(c.text_generation(PROMPT, max_new_tokens=300, do_sample=True, **LONG) for _ in range(8)),
                                   return_exceptions=True)
    refused = [r for r in got if isinstance(r, Exception)]
    assert refused and all(isinstance(r, OverloadedError) for r in refused), refused


@check("chat_completion")
def _():
    for c in (client, slash, keyed, InferenceClient(base_url=URL), InferenceClient(base_url=URL + "/v1")):
        r = c.chat_completion(MESSAGES, max_tokens=50, temperature=0)
        holds(r.choices[0].message.content, ANSWER)
        same(r.choices[0].finish_reason, "stop")
    same(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens)


@check("chat_completion: every setting")
def _():
    r = client.chat.completions.create(
        messages=MESSAGES, model="tgi", max_tokens=5, frequency_penalty=0.1, presence_penalty=0.1, logprobs=True,
        top_logprobs=2, n=1, seed=3, stop=["zzz"], temperature=0.5, top_p=0.9)
    same((r.usage.completion_tokens, r.choices[0].finish_reason), (5, "length"))
    same([len(t.top_logprobs) for t in r.choices[0].logprobs.content], [2] * 5)


@check("chat_completion: stream, with usage")
def _():
    whole = client.chat_completion(MESSAGES, max_tokens=50, temperature=0)
    chunks = list(client.chat_completion(
        MESSAGES, max_tokens=50, temperature=0, stream=True, stream_options={"include_usage": True}))
    same("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole.choices[0].message.content)
    same(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)


@check("chat_completion: tools")
def _():
    ask = [{"role": "user", "content": "What is the weather in Paris?"}]
    tool = {"type": "function", "function": {
        "name": "get_weather", "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
    for choice in ("auto", "required", "get_weather"):
        if choice == "get_weather":
            choice = {"type": "function", "function": {"name": choice}}
        r = client.chat_completion(ask, tools=[tool], tool_choice=choice, temperature=0, max_tokens=60).choices[0]
        same((r.finish_reason, len(r.message.tool_calls)), ("tool_calls", 1))
        call = r.message.tool_calls[0]
        same((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Paris"}))
    deltas = [d for k in client.chat_completion(ask, tools=[tool], temperature=0, max_tokens=60, stream=True)
              for d in k.choices[0].delta.tool_calls or []]
    same(json.loads("".join(d.function.arguments for d in deltas)), {"city": "Paris"})


@check("chat_completion: errors")
def _():
    e = raises(HfHubHTTPError, lambda: client.chat_completion(MESSAGES, max_tokens=100_000))
    same(e.response.status_code, 422)
    holds(str(e), "max")


@check("every dialect")
def _():
    for dialect in DIALECTS:
        c = InferenceClient(URL, headers={"X-TGI-Dialect": dialect})
        whole = c.text_generation(PROMPT, max_new_tokens=50, return_full_text=False)
        holds(whole, ANSWER)
        same("".join(c.text_generation(PROMPT, max_new_tokens=50, stream=True)), whole + END)
        raises(ValidationError, lambda: list(c.text_generation(PROMPT, top_p=1.0, stream=True)))
        same(c.chat_completion(MESSAGES, max_tokens=50, temperature=0).choices[0].message.content, whole)
        chunks = c.chat_completion(MESSAGES, max_tokens=50, temperature=0, stream=True)
        same("".join(k.choices[0].delta.content or "" for k in chunks), whole)


@check("keys: a wrong one")
def _():
    wrong = InferenceClient(KEYED_URL, token="wrong")
    for call in (lambda: wrong.text_generation(PROMPT), lambda: wrong.chat_completion(MESSAGES)):
        same(raises(HfHubHTTPError, call).response.status_code, 401)


@check("get_endpoint_info, health_check")
def _():
    c = InferenceClient(URL, provider="hf-inference")  # the methods want this name
    info = c.get_endpoint_info()
    same((info["model_pipeline_tag"], info["max_total_tokens"], info["router"]), ("text-generation", 1024, "text-generation-router"))
    same(c.health_check(), True)


@check("leaving a stream ends its request")
def _():
    def leave():
        stream = client.text_generation(PROMPT, max_new_tokens=LONG_TOKENS, do_sample=True, stream=True, **LONG)
        next(stream)
        stream.close()
        # Before 1.0 the generator does not close the connection, the garbage collector does.
        del stream

    stops(leave)


@check("leaving a whole reply ends its request")
def _():
    def leave():
        impatient = InferenceClient(URL, timeout=0.05)
        # Which error a timeout is differs between versions.
        raises(Exception, lambda: impatient.text_generation(
            PROMPT, max_new_tokens=LONG_TOKENS, do_sample=True, **LONG), "timed out")

    stops(leave)


@check("async: text_generation and chat_completion, whole and streamed")
async def _():
    async with AsyncInferenceClient(URL) as c:
        whole = await c.text_generation(PROMPT, max_new_tokens=50, return_full_text=False)
        text = ""
        async for piece in await c.text_generation(PROMPT, max_new_tokens=50, stream=True):
            text += piece
        same(text, whole + END)
        same((await c.chat_completion(MESSAGES, temperature=0)).choices[0].message.content, whole)
        text = ""
        async for k in await c.chat_completion(MESSAGES, temperature=0, stream=True):
            text += k.choices[0].delta.content or ""
        same(text, whole)
        await raises_async(ValidationError, c.text_generation(PROMPT, top_p=1.0), "`top_p`")


run()
