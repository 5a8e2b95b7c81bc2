"""text-generation: TGI's own client, deprecated and still in use.

Its streams of chat are left out: it wants tool_calls in the delta of each chunk
(types.py, ChoiceDelta), which TGI sends with calls of tools alone.
"""

from text_generation import AsyncClient, Client
from text_generation.errors import NotFoundError, OverloadedError, ValidationError
from text_generation.types import Message

from checks import *

client = Client(URL)
keyed = Client(KEYED_URL, headers={"Authorization": f"Bearer {KEY}"})
messages = [Message(role="user", content=QUESTION)]


@check("generate")
def _():
    for c in (client, keyed):
        r = c.generate(PROMPT, max_new_tokens=50)
        holds(r.generated_text, ANSWER)
        same(r.details.finish_reason.value, "eos_token")
        same(len(r.details.tokens), r.details.generated_tokens)
        same(r.details.seed, None)


@check("generate: one token")
def _():
    r = client.generate("test", max_new_tokens=1, decoder_input_details=True)
    same((r.details.generated_tokens, len(r.details.tokens)), (1, 1))
    assert r.details.prefill and r.details.prefill[0].logprob is None, r.details.prefill


@check("generate: best_of")
def _():
    r = client.generate(PROMPT, max_new_tokens=1, best_of=2, do_sample=True)
    assert r.details.seed is not None
    same(len(r.details.best_of_sequences), 1)
    assert r.details.best_of_sequences[0].seed is not None


@check("generate: every setting")
def _():
    r = client.generate(
        PROMPT, do_sample=True, max_new_tokens=5, repetition_penalty=1.1, frequency_penalty=0.1, return_full_text=True, seed=3,
        stop_sequences=["zzz"], temperature=0.5, top_k=10, top_p=0.9, truncate=6, typical_p=0.9, watermark=True,
        decoder_input_details=True, top_n_tokens=2)
    same((r.details.generated_tokens, r.details.finish_reason.value, r.details.seed), (5, "length", 3))
    assert r.generated_text.startswith(PROMPT), r.generated_text
    # Tokens that top_k and top_p forbid are no alternatives.
    assert all(1 <= len(top) <= 2 for top in r.details.top_tokens), r.details.top_tokens


@check("generate_stream")
def _():
    whole = client.generate(PROMPT, max_new_tokens=50)
    events = list(client.generate_stream(PROMPT, max_new_tokens=50))
    same("".join(e.token.text for e in events if not e.token.special), whole.generated_text)
    same([e.generated_text for e in events], [None] * (len(events) - 1) + [whole.generated_text])
    same(events[-1].details.generated_tokens, whole.details.generated_tokens)


@check("chat")
def _():
    r = client.chat(messages, max_tokens=50, temperature=0)
    holds(r.choices[0].message.content, ANSWER)
    assert r.usage["completion_tokens"] > 1, r.usage


@check("every dialect")
def _():
    for dialect in DIALECTS:
        c = Client(URL, headers={"X-TGI-Dialect": dialect})
        whole = c.generate(PROMPT, max_new_tokens=50)
        holds(whole.generated_text, ANSWER)
        same("".join(e.token.text for e in c.generate_stream(PROMPT, max_new_tokens=50) if not e.token.special),
             whole.generated_text)
        holds(c.chat(messages, max_tokens=50, temperature=0).choices[0].message.content, ANSWER)
        raises(ValidationError, lambda: list(c.generate_stream("test", max_new_tokens=10_000)))


@check("errors")
def _():
    raises(ValidationError, lambda: client.generate("test", max_new_tokens=10_000), "Input validation error")
    raises(ValidationError, lambda: list(client.generate_stream("test", max_new_tokens=10_000)), "Input validation error")
    raises(ValidationError, lambda: client.chat(messages, max_tokens=10_000))


@check("errors: overload")
async def _():
    c = AsyncClient(KEYED_URL, headers={"Authorization": f"Bearer {KEY}"})
    got = await asyncio.gather(*(c.generate(PROMPT, max_new_tokens=300, do_sample=True, **LONG) for _ in range(8)),
                               return_exceptions=True)
    refused = [r for r in got if isinstance(r, Exception)]
    assert refused and all(isinstance(r, OverloadedError) for r in refused), refused


@check("leaving a stream ends its request")
def _():
    def leave():
        stream = client.generate_stream(PROMPT, max_new_tokens=LONG_TOKENS, do_sample=True, **LONG)
        next(stream)
        stream.close()
        del stream

    stops(leave)


@check("async: generate, generate_stream, chat")
async def _():
    c = AsyncClient(URL)
    whole = await c.generate(PROMPT, max_new_tokens=50)
    holds(whole.generated_text, ANSWER)
    text = ""
    async for e in c.generate_stream(PROMPT, max_new_tokens=50):
        text += "" if e.token.special else e.token.text
    same(text, whole.generated_text)
    same((await c.chat(messages, temperature=0)).choices[0].message.content, whole.generated_text)
    await raises_async(ValidationError, c.generate("test", max_new_tokens=10_000))


run()
