"""ollama, langchain-ollama, llama-index and LiteLLM over Ollama's API: chat, generate, embed, tools, formats, models."""

import base64
import json
import os

import litellm
import ollama
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM
from llama_index.core.llms import ChatMessage
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.llms.ollama import Ollama
from pydantic import BaseModel, Field

from checks import *

MODEL = "tgi-demo"
TEXTS_URL = os.environ["TGI_TEXTS_URL"]
GREEDY = {"temperature": 0}

client = ollama.Client(URL)
texts = ollama.Client(TEXTS_URL)
keyed = ollama.Client(KEYED_URL, headers={"Authorization": "Bearer " + KEY})


class City(BaseModel, extra="forbid"):
    name: str = Field(max_length=20)
    people: int


def get_weather(city: str) -> str:
    """Get the weather of a city.

    Args:
      city: The city
    """
    return f"It rains in {city}."


@check("chat")
def _():
    r = client.chat(MODEL, MESSAGES, options=GREEDY)
    holds(r.message.content, ANSWER)
    same((r.model, r.done, r.done_reason, r.message.role), (MODEL, True, "stop", "assistant"))
    assert r.eval_count > 1 and r.prompt_eval_count > 1 and r.total_duration >= r.eval_duration > 0, r
    assert r.prompt_eval_duration > 0 and r.load_duration > 0 and r.created_at.endswith("Z"), r
    same(client.chat(MODEL + ":latest", MESSAGES, options=GREEDY).message.content, r.message.content)


@check("chat: stream")
def _():
    parts = list(client.chat(MODEL, MESSAGES, options=GREEDY, stream=True))
    same("".join(p.message.content for p in parts), client.chat(MODEL, MESSAGES, options=GREEDY).message.content)
    same([p.done for p in parts], [False] * (len(parts) - 1) + [True])
    assert len(parts) > 3, parts


@check("chat: options")
def _():
    r = client.chat(MODEL, MESSAGES, options={**GREEDY, "num_predict": 3, "num_ctx": 512, "stop": ["never"]})
    same((r.done_reason, r.eval_count), ("length", 3))
    r = client.chat(MODEL, MESSAGES, options=ollama.Options(temperature=0, stop=["mill"], seed=1, top_k=5))
    same(r.done_reason, "stop")
    assert "mill" not in r.message.content, r
    a, b = (client.chat(MODEL, MESSAGES, options={"temperature": 2, "seed": 7}).message.content for _ in range(2))
    same(a, b)


@check("chat: tools")
def _():
    asked = [{"role": "user", "content": "What is the weather in Paris?"}]
    schema = ollama._utils.convert_function_to_tool(get_weather)
    schema.function.parameters.properties["city"].enum = ["Paris"]
    for stream in (False, True):
        # a demand is plain in the prompt alone: Ollama's API has no tool_choice
        got = client.chat(MODEL, asked, tools=[get_weather], options=GREEDY, stream=stream)
        parts = list(got) if stream else [got]
        calls = [c for p in parts for c in p.message.tool_calls or []]
        if calls:
            same(calls[0].function.name, "get_weather")
            assert isinstance(calls[0].function.arguments, dict), calls
        same(parts[-1].done_reason, "stop")
    history = [*asked, {"role": "assistant", "content": "", "tool_calls": [{"function": {
        "name": "get_weather", "arguments": {"city": "Paris"}}}]},
        {"role": "tool", "tool_name": "get_weather", "content": "It rains."}]
    assert client.chat(MODEL, history, tools=[get_weather], options=GREEDY).done


@check("format: a schema, and json")
def _():
    r = client.chat(MODEL, MESSAGES, format=City.model_json_schema(), options={**GREEDY, "num_predict": 200})
    City.model_validate_json(r.message.content)
    r = client.generate(MODEL, "A city as JSON", format=City.model_json_schema(), options={**GREEDY, "num_predict": 200})
    City.model_validate_json(r.response)
    r = client.generate(MODEL, "JSON, please", format="json", options={**GREEDY, "num_predict": 300})
    if r.done_reason == "stop":
        assert isinstance(json.loads(r.response), dict), r


@check("generate")
def _():
    r = client.generate(MODEL, QUESTION, options=GREEDY)
    holds(r.response, ANSWER)
    same("".join(p.response for p in client.generate(MODEL, QUESTION, options=GREEDY, stream=True)), r.response)
    raw = client.generate(MODEL, PROMPT, raw=True, options=GREEDY)
    same((raw.response, raw.context), (r.response, None))
    again = client.generate(MODEL, QUESTION, context=r.context, options=GREEDY)
    assert len(again.context) > len(r.context) and list(again.context[:len(r.context)]) == list(r.context), again
    assert client.generate(MODEL, QUESTION, system="Be brief.", options=GREEDY).prompt_eval_count > r.prompt_eval_count


@check("log-probabilities")
def _():
    r = client.generate(MODEL, QUESTION, options=GREEDY, logprobs=True, top_logprobs=2)
    same("".join(t.token for t in r.logprobs), r.response)
    assert all(len(t.top_logprobs) == 2 and t.logprob <= 0 for t in r.logprobs), r.logprobs


@check("load and unload")
def _():
    same(client.generate(MODEL, "").done_reason, "load")
    same(client.chat(MODEL, []).done_reason, "load")
    same([m.model for m in client.ps().models], [MODEL + ":latest"])
    same(client.generate(MODEL, "", keep_alive=0).done_reason, "unload")
    for _ in range(100):
        if not client.ps().models:
            break
        time.sleep(0.05)
    same(client.ps().models, [])
    holds(client.chat(MODEL, MESSAGES, options=GREEDY).message.content, ANSWER)  # which loads it again


@check("models")
def _():
    m = client.list().models[0]
    same((m.model, m.details.family, m.details.format), (MODEL + ":latest", "llama", "safetensors"))
    assert len(m.digest) == 64 and m.size > 1000 and m.modified_at.year > 2020, m
    s = client.show(MODEL)
    same((s.modelinfo["general.architecture"], s.modelinfo["llama.context_length"]), ("llama", 1024))
    assert "completion" in s.capabilities and "messages" in s.template, s
    assert client.ps().models[0].context_length == 1024


@check("errors")
def _():
    e = raises(ollama.ResponseError, lambda: texts.chat("none", MESSAGES), "model 'none' not found")
    same(e.status_code, 404)
    e = raises(ollama.ResponseError, lambda: client.chat(MODEL, MESSAGES, options={"temperature": -1}),
               "`options.temperature` must be >= 0")
    same(e.status_code, 400)
    raises(ollama.ResponseError, lambda: client.chat(MODEL, MESSAGES, think=True), "does not support thinking")
    raises(ollama.ResponseError, lambda: client.generate(MODEL, "a", suffix="b"), "does not support insert")
    raises(ollama.ResponseError, lambda: client.copy(MODEL, "b"), "`/api/copy` is not supported")
    raises(ollama.ResponseError, lambda: client.create("b", from_=MODEL), "`/api/create` is not supported")
    raises(ollama.ResponseError, lambda: list(client.push(MODEL, stream=True)), "`/api/push` is not supported")
    same(raises(ollama.ResponseError, lambda: client.pull("org/name")).status_code, 403)
    same(raises(ollama.ResponseError, lambda: client.delete(MODEL)).status_code, 403)
    same(raises(ollama.ResponseError, lambda: client.chat(MODEL, [{"role": "user", "content": "?", "images": [
        base64.b64encode(b"x").decode()]}])).status_code, 400)
    same(raises(ollama.ResponseError, lambda: ollama.Client(KEYED_URL).list()).status_code, 401)
    raises(ollama.ResponseError, lambda: keyed.chat(MODEL, [], keep_alive=0), "needs a key with the scope `admin`")
    holds(keyed.chat(MODEL, MESSAGES, options=GREEDY, keep_alive=0).message.content, ANSWER)  # which is passed over


@check("leaving a stream")
def _():
    def leave():
        for _ in client.chat(MODEL, MESSAGES, stream=True, options={**LONG, "num_predict": LONG_TOKENS, "top_k": 0,
                                                                    "top_p": 1}):
            break

    stops(leave)


@check("the asynchronous client")
async def _():
    c = ollama.AsyncClient(URL)
    text = ""
    async for p in await c.chat(MODEL, MESSAGES, options=GREEDY, stream=True):
        text += p.message.content
    holds(text, ANSWER)


def unit(v):
    assert abs(sum(x * x for x in v) - 1) < 1e-5, v


@check("embed, embeddings")
def _():
    r = texts.embed("roberta", ["a text", "another"])
    same(len(r.embeddings), 2)
    unit(r.embeddings[0])
    assert r.prompt_eval_count > 2 and r.total_duration > 0, r
    one = texts.embed("roberta:latest", "a text")
    assert max(abs(a - b) for a, b in zip(one.embeddings[0], r.embeddings[0], strict=True)) < 1e-6
    unit(texts.embed("roberta", "a text", dimensions=8).embeddings[0])
    same(len(texts.embed("roberta", "a text", dimensions=8).embeddings[0]), 8)
    old = texts.embeddings("roberta", "a text").embedding
    scale = sum(x * x for x in old) ** 0.5
    assert max(abs(a / scale - b) for a, b in zip(old, r.embeddings[0], strict=True)) < 1e-5
    raises(ollama.ResponseError, lambda: texts.embed(MODEL, "a"), "generates text")
    same(texts.show("roberta").capabilities, ["embedding"])
    assert texts.embed("roberta", "word " * 5000).embeddings
    raises(ollama.ResponseError, lambda: texts.embed("roberta", "word " * 5000, truncate=False), "at most")


@check("langchain-ollama: ChatOllama")
def _():
    llm = ChatOllama(model=MODEL, base_url=URL, temperature=0, num_predict=200)
    holds(llm.invoke(QUESTION).content, ANSWER)
    same("".join(c.content for c in llm.stream(QUESTION)), llm.invoke(QUESTION).content)
    City.model_validate(llm.with_structured_output(City).invoke("A city").model_dump())
    reply = llm.bind_tools([tool(get_weather, parse_docstring=True)]).invoke("What is the weather in Paris?")
    assert reply.tool_calls or reply.content, reply
    same(reply.response_metadata["done_reason"], "stop")


@check("langchain-ollama: OllamaLLM, OllamaEmbeddings")
def _():
    holds(OllamaLLM(model=MODEL, base_url=URL, temperature=0).invoke(QUESTION), ANSWER)
    for v in OllamaEmbeddings(model="roberta", base_url=TEXTS_URL).embed_documents(["a", "b"]):
        unit(v)


@check("llama-index: Ollama, OllamaEmbedding")
def _():
    llm = Ollama(model=MODEL, base_url=URL, temperature=0.0, request_timeout=60, context_window=1000)
    holds(llm.complete(QUESTION).text, ANSWER)
    holds(llm.chat([ChatMessage(role="user", content=QUESTION)]).message.content, ANSWER)
    holds([p.text for p in llm.stream_complete(QUESTION)][-1], ANSWER)
    unit(OllamaEmbedding(model_name="roberta", base_url=TEXTS_URL).get_text_embedding("a text"))


@check("LiteLLM: ollama, ollama_chat")
def _():
    for provider in ("ollama", "ollama_chat"):
        asked = dict(model=f"{provider}/{MODEL}", messages=MESSAGES, api_base=URL, temperature=0)
        holds(litellm.completion(**asked).choices[0].message.content, ANSWER)
        parts = list(litellm.completion(stream=True, **asked))
        holds("".join(p.choices[0].delta.content or "" for p in parts), ANSWER)
    unit(litellm.embedding(model="ollama/roberta", input=["a text"], api_base=TEXTS_URL).data[0]["embedding"])


run()
