"""LiteLLM: chat, completions, responses, messages, vectors and ranks, by each of its providers that can be given an
address."""

import http.server
import json
import os
import threading

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched

import litellm
from litellm.llms.huggingface.embedding import handler

from checks import *
from texts import DOCUMENTS, QUERY, TEXTS, all_like, ranked
from texts import URL as TEXTS_URL

litellm.telemetry = False
litellm.suppress_debug_info = True
SERVER = {"api_base": URL + "/v1", "api_key": "any", "num_retries": 0}
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
DIGIT = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}},
         "required": ["n"], "additionalProperties": False}


def chat(**settings):
    return litellm.completion(**{"model": "openai/tgi", "messages": MESSAGES, "temperature": 0, **SERVER, **settings})


@check("chat")
def _():
    r = chat()
    holds(r.choices[0].message.content, ANSWER)
    same(r.choices[0].finish_reason, "stop")
    assert r.usage.completion_tokens > 1, r.usage


@check("chat: stream")
def _():
    text = "".join(c.choices[0].delta.content or "" for c in chat(stream=True))
    same(text, chat().choices[0].message.content)


@check("chat: asynchronous")
async def _():
    r = await litellm.acompletion(model="openai/tgi", messages=MESSAGES, temperature=0, **SERVER)
    holds(r.choices[0].message.content, ANSWER)


@check("chat: hosted_vllm and its guided_json")
def _():
    r = chat(model="hosted_vllm/tgi", temperature=1, max_tokens=200, extra_body={"guided_json": DIGIT})
    assert 1 <= json.loads(r.choices[0].message.content)["n"] <= 9


@check("chat: response_format with a schema")
def _():
    named = {"name": "n", "strict": True, "schema": DIGIT}
    r = chat(temperature=1, max_tokens=200, response_format={"type": "json_schema", "json_schema": named})
    assert 1 <= json.loads(r.choices[0].message.content)["n"] <= 9


@check("chat: a tool is called, and its result answered in the second turn")
def _():
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    r = chat(messages=messages, tools=TOOLS)
    same(r.choices[0].finish_reason, "tool_calls")
    call = r.choices[0].message.tool_calls[0]
    same((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Paris"}))
    messages += [r.choices[0].message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "It is sunny."}]
    assert chat(messages=messages, tools=TOOLS).choices[0].message.content


@check("chat: tool_choice required")
def _():
    for seed in range(3):
        r = chat(tools=TOOLS, tool_choice="required", temperature=1, seed=seed, max_tokens=400)
        same(r.choices[0].message.tool_calls[0].function.name, "get_weather")


@check("text completion and its stream")
def _():
    whole = litellm.text_completion(model="text-completion-openai/tgi", prompt=PROMPT, temperature=0, max_tokens=50, **SERVER)
    holds(whole.choices[0].text, ANSWER)
    parts = litellm.text_completion(model="text-completion-openai/tgi", prompt=PROMPT, temperature=0, max_tokens=50, stream=True, **SERVER)
    same("".join(c.choices[0].text or "" for c in parts), whole.choices[0].text)


@check("huggingface: TGI's own address")
def _():
    r = litellm.completion(model="huggingface/tgi", messages=MESSAGES, temperature=0, api_base=URL, api_key="any")
    holds(r.choices[0].message.content, ANSWER)


@check("errors are those of its classes")
def _():
    raises(litellm.AuthenticationError, lambda: chat(api_base=KEYED_URL + "/v1", api_key="wrong"))
    raises(litellm.BadRequestError, lambda: chat(top_p=7))


@check("responses")
def _():
    r = litellm.responses(model="openai/tgi", input="Where does Mira live?", temperature=0, **SERVER)
    holds(r.output[0].content[0].text, ANSWER)
    kinds = [e.type.value for e in litellm.responses(model="openai/tgi", input="Where does Mira live?", temperature=0,
                                                     stream=True, **SERVER)]
    same(kinds[-1], "response.completed")


@check("Anthropic's messages")
def _():
    server = {"api_base": URL, "api_key": "any", "num_retries": 0}
    asked = {"model": "anthropic/tgi", "messages": MESSAGES, "temperature": 0, "max_tokens": 60}
    r = litellm.completion(**asked, **server)
    holds(r.choices[0].message.content, ANSWER)
    text = "".join(c.choices[0].delta.content or "" for c in litellm.completion(**asked, stream=True, **server))
    same(text, r.choices[0].message.content)


# The hub is asked what a model is for before vectors of huggingface/: it cannot be reached here, so this stands in.
class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"pipeline_tag": "feature-extraction"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def vectors(model, base, texts=TEXTS, **more):
    r = litellm.embedding(model=model, input=texts, api_base=base, api_key="any", num_retries=0, **more)
    return [d["embedding"] for d in r.data]


@check("embeddings: openai and hosted_vllm")
def _():
    all_like(vectors("openai/roberta", TEXTS_URL + "/v1"))
    all_like(vectors("hosted_vllm/roberta", TEXTS_URL + "/v1"))


@check("embeddings: openai, dimensions")
def _():
    for v in vectors("openai/roberta", TEXTS_URL + "/v1", dimensions=8, allowed_openai_params=["dimensions"]):
        same(len(v), 8)


@check("embeddings: jina_ai and infinity")
def _():
    all_like(vectors("jina_ai/roberta", TEXTS_URL + "/v1"))
    all_like(vectors("infinity/roberta", TEXTS_URL))


@check("embeddings: huggingface, TEI's routes")
def _():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        handler.HF_HUB_URL = f"http://127.0.0.1:{hub.server_address[1]}"
        all_like(vectors("huggingface/roberta", TEXTS_URL + "/embed"))
        all_like(vectors("huggingface/roberta", TEXTS_URL + "/?model=roberta"))
        hub.shutdown()


@check("embeddings: ollama")
def _():
    all_like(vectors("ollama/roberta", TEXTS_URL))


@check("embeddings: asynchronous")
async def _():
    r = await litellm.aembedding(model="openai/roberta", input=TEXTS, api_base=TEXTS_URL + "/v1", api_key="any")
    all_like([d["embedding"] for d in r.data])


def ranks(model, base, **more):
    r = litellm.rerank(model=model, query=QUERY, documents=DOCUMENTS, top_n=3, api_base=base, api_key="any", **more)
    found = [(x["index"], x["relevance_score"]) for x in r.results]
    if model.startswith("huggingface/"):  # TEI's API has no top_n
        same(len(found), len(DOCUMENTS))
        found = found[:3]
    ranked(found, among=range(len(DOCUMENTS)))


@check("rerank: cohere, jina_ai, infinity")
def _():
    ranks("cohere/bert-rank", TEXTS_URL)
    ranks("jina_ai/bert-rank", TEXTS_URL)
    ranks("infinity/bert-rank", TEXTS_URL, return_documents=False)  # it would want documents that are plain texts


@check("rerank: hosted_vllm, by both addresses")
def _():
    ranks("hosted_vllm/bert-rank", TEXTS_URL)
    ranks("hosted_vllm/bert-rank", TEXTS_URL + "/v1")


@check("rerank: huggingface, TEI's route")
def _():
    ranks("huggingface/bert-rank", TEXTS_URL)


@check("chat: ollama, ollama_chat and their streams")
def _():
    for model in ("ollama/tgi-demo", "ollama_chat/tgi-demo"):
        asked = {"model": model, "messages": MESSAGES, "temperature": 0, "api_base": URL}
        whole = litellm.completion(**asked).choices[0].message.content
        holds(whole, ANSWER)
        same("".join(c.choices[0].delta.content or "" for c in litellm.completion(**asked, stream=True)), whole)


run()
