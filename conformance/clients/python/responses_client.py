"""openai: responses, whole, streamed and in the background, with tools and formats; every reply and event held to the
package's types; Codex's request shapes."""

import asyncio
import json
import time
import urllib.request

import openai
import pydantic
from openai.types import conversations as types_of_conversations
from openai.types import responses as types

from checks import *
from strict import events, held, transcripts

client = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
keyed = openai.OpenAI(base_url=KEYED_URL + "/v1", api_key=KEY, max_retries=0)

WEATHER = {"type": "function", "name": "get_weather", "description": "Get the weather of a city", "strict": True,
           "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
                          "required": ["city"], "additionalProperties": False}}
ENDLESS = {"logit_bias": {"0": -100, "2": -100}}


def create(c=client, **settings):
    return c.responses.create(**{"model": "tgi", "input": QUESTION, "temperature": 0, **settings})


def raw(method, path, body=None, key=None):
    """Sends a request without the package and returns the reply's bytes."""
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = "Bearer " + key
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method)) as r:
        return r.read().decode()


def strict_reply(text):
    return held(json.loads(text), types.Response)


def strict_stream(text):
    all = [held(data, types.ResponseStreamEvent) for _, data in events(text.splitlines())]
    for (name, data), n in zip(events(text.splitlines()), range(len(all))):
        same(name, data["type"])
        same(data["sequence_number"] - next(events(text.splitlines()))[1]["sequence_number"], n)
    return all


@check("create")
def _():
    r = create(metadata={"a": "b"}, instructions="Answer.")
    holds(create().output_text, ANSWER)
    same((r.status, r.object, r.metadata, r.instructions), ("completed", "response", {"a": "b"}, "Answer."))
    assert r.usage.total_tokens == r.usage.input_tokens + r.usage.output_tokens, r.usage


@check("every reply and event fits the package's types")
def _():
    asked = {"model": "tgi", "input": QUESTION, "max_output_tokens": 12, "temperature": 0}
    for more in ({}, {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
                 {"tools": [WEATHER], "tool_choice": "required"}, {"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}},
                 {"tools": [{"type": "custom", "name": "run"}], "tool_choice": {"type": "custom", "name": "run"},
                  "max_output_tokens": 100}):
        try:
            strict_reply(raw("POST", "/v1/responses", {**asked, **more}))
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{more}: {e.read()}")
        strict_stream(raw("POST", "/v1/responses", {**asked, **more, "stream": True}))


@check("the server's own transcripts fit them")
def _():
    n = 0
    for file, line, status, body in transcripts("responses"):
        try:
            if status != 200:
                held(json.loads(body)["error"], openai.types.shared.ErrorObject)
            elif body.startswith("event: "):
                n += len(strict_stream(body))
            elif line.startswith("DELETE"):
                same(json.loads(body)["deleted"], True)
            elif "input_items" in line:
                held(json.loads(body), types.ResponseItemList)
            elif "input_tokens" in line:
                held(json.loads(body), types.InputTokenCountResponse)
            else:
                strict_reply(body)
        except (AssertionError, pydantic.ValidationError) as e:
            raise AssertionError(f"{file}, {line}: {e}")
    assert n > 100, n


@check("stream")
def _():
    whole, text, kinds = create(), "", []
    for e in create(stream=True):
        kinds.append(e.type)
        if e.type == "response.output_text.delta":
            text += e.delta
    same(text, whole.output_text)
    same((kinds[0], kinds[-1]), ("response.created", "response.completed"))
    with client.responses.stream(model="tgi", input=QUESTION, temperature=0) as s:
        same(s.get_final_response().output_text, text)


@check("parse: an object of a class")
def _():
    class Place(pydantic.BaseModel):
        old: bool

    r = client.responses.parse(model="tgi", input=QUESTION, text_format=Place, max_output_tokens=60,
                               extra_body={"seed": 1, "plugins": []})
    assert isinstance(r.output_parsed, Place), r


@check("tools: a loop, with the context sent again and with previous_response_id")
def _():
    for kept in (False, True):
        r = create(tools=[WEATHER], tool_choice="required", input="What is the weather in Paris?")
        call = next(i for i in r.output if i.type == "function_call")
        same(call.name, "get_weather")
        assert json.loads(call.arguments)["city"] in ("Paris", "Rome"), call
        done = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"}
        if kept:
            r = create(previous_response_id=r.id, input=[done], tools=[WEATHER], max_output_tokens=20)
        else:
            said = [{"role": "user", "content": "What is the weather in Paris?"}]
            r = create(input=said + [i.model_dump(exclude_none=True) for i in r.output] + [done], tools=[WEATHER],
                       max_output_tokens=20)
        assert r.status in ("completed", "incomplete"), r.status


@check("kept: retrieve, list, follow, delete")
def _():
    r = create()
    same(client.responses.retrieve(r.id).output_text, r.output_text)
    items = list(client.responses.input_items.list(r.id, order="asc"))
    same([i.content[0].text for i in items], [QUESTION])
    more = create(previous_response_id=r.id, input="And who else?", max_output_tokens=5)
    same(len(list(client.responses.input_items.list(more.id))), 3)
    by_name = create(input=[{"type": "item_reference", "id": r.output[0].id}, {"role": "user", "content": "Why?"}],
                     max_output_tokens=5)
    assert by_name.usage.input_tokens > 10, by_name.usage
    client.responses.delete(r.id)
    raises(openai.NotFoundError, lambda: client.responses.retrieve(r.id), "not found")
    e = raises(openai.BadRequestError, lambda: create(previous_response_id=r.id), "not found")
    same(e.code, "previous_response_not_found")


@check("kept: for a key; without keys all clients are one, whatever they show")
def _():
    r = create(keyed, max_output_tokens=2)
    same(keyed.responses.retrieve(r.id).id, r.id)
    one, two = (openai.OpenAI(base_url=URL + "/v1", api_key=k, max_retries=0) for k in ("one", "two"))
    mine = create(one, max_output_tokens=2)
    same(two.responses.retrieve(mine.id).id, mine.id)
    raises(openai.NotFoundError, lambda: create(store=False, max_output_tokens=2) and two.responses.retrieve("resp_x"))


@check("background: asked for until it is over, and its stream resumed")
def _():
    r = create(background=True, max_output_tokens=20)
    assert r.status in ("queued", "in_progress"), r.status
    while r.status in ("queued", "in_progress"):
        time.sleep(0.05)
        r = client.responses.retrieve(r.id)
    holds(r.output_text, ANSWER)
    seen = []
    s = create(background=True, stream=True)
    for e in s:
        seen.append(e)
        if len(seen) == 5:
            break
    s.close()
    seen += list(client.responses.retrieve(seen[0].response.id, stream=True, starting_after=seen[-1].sequence_number))
    same([e.sequence_number for e in seen], list(range(len(seen))))
    holds(seen[-1].response.output_text, ANSWER)


@check("background: cancel")
def _():
    r = create(background=True, max_output_tokens=LONG_TOKENS, extra_body=ENDLESS)
    same(client.responses.cancel(r.id).status, "cancelled")
    same(client.responses.retrieve(r.id).status, "cancelled")
    raises(openai.BadRequestError, lambda: client.responses.cancel(create(max_output_tokens=2).id), "background")


@check("input_tokens")
def _():
    n = client.responses.input_tokens.count(model="tgi", input=QUESTION).input_tokens
    same(create(max_output_tokens=2).usage.input_tokens, n)


@check("errors")
def _():
    e = raises(openai.BadRequestError, lambda: create(tools=[{"type": "web_search"}]), "web_search")
    same((e.type, e.param), ("invalid_request_error", "tools"))
    e = raises(openai.BadRequestError, lambda: create(input="word " * 9000), "must be <=")
    same(e.code, "context_length_exceeded")
    raises(openai.AuthenticationError, lambda: create(openai.OpenAI(base_url=KEYED_URL + "/v1", api_key="x")))


@check("leaving a stream ends it")
def _():
    def leave():
        s = create(stream=True, max_output_tokens=LONG_TOKENS, extra_body=ENDLESS)
        next(iter(s))
        s.close()

    stops(leave)


@check("async")
async def _():
    c = openai.AsyncOpenAI(base_url=URL + "/v1", api_key="any")
    r = await asyncio.gather(*[c.responses.create(model="tgi", input=QUESTION, temperature=0) for _ in range(3)])
    for one in r:
        holds(one.output_text, ANSWER)


@check("conversations")
def _():
    c = client.conversations.create(items=[{"role": "user", "content": "My name is Mira."}], metadata={"a": "b"})
    held(c.model_dump(), types_of_conversations.Conversation)
    r = client.responses.create(model="tgi", input=QUESTION, conversation=c.id, temperature=0, max_output_tokens=20)
    same(r.conversation.id, c.id)
    list(client.responses.create(model="tgi", input="And now?", conversation={"id": c.id}, stream=True,
                                 max_output_tokens=5))
    items = list(client.conversations.items.list(c.id, order="asc", limit=2))
    same([i.role for i in items], ["user", "user", "assistant", "user", "assistant"])
    same(items[2].content[0].text, r.output_text)
    added = client.conversations.items.create(c.id, items=[{"role": "user", "content": "More"}])
    one = client.conversations.items.retrieve(added.data[0].id, conversation_id=c.id)
    same(one.content[0].text, "More")
    client.conversations.items.delete(one.id, conversation_id=c.id)
    same(client.conversations.update(c.id, metadata={"c": "d"}).metadata, {"c": "d"})
    raises(openai.BadRequestError, lambda: client.responses.create(
        model="tgi", input="x", conversation=c.id, previous_response_id=r.id), "exclude each other")
    same(client.conversations.delete(c.id).deleted, True)
    raises(openai.NotFoundError, lambda: client.conversations.retrieve(c.id), "not found")
    raises(openai.NotFoundError, lambda: client.responses.compact(model="tgi", input="x"), "not compacted here")


@check("Codex's request")
def _():
    # What the npm package @openai/codex sends to a provider of the wire API "responses", as it was captured; and the
    # fields of codex-rs/codex-api/src/common.rs that it may send besides.
    agents = {"type": "namespace", "name": "multi_agent_v1", "description": "Agents", "tools": [
        {"type": "function", "name": "close_agent", "description": "Closes one", "strict": False,
         "parameters": {"type": "object", "properties": {"target": {"type": "string"}}}}]}
    shell = {"type": "function", "name": "shell", "description": "Runs a shell command", "strict": False,
             "parameters": {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}},
                            "required": ["command"], "additionalProperties": False}}
    patch = {"type": "custom", "name": "apply_patch", "description": "Edits files",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\" /(.|\\n)+/"}}
    said = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox: read-only"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]}]
    body = {"model": "tgi", "instructions": "You are a coding agent.", "input": said, "tools": [shell, patch, agents],
            "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": {"effort": "medium", "summary": "auto"},
            "store": False, "stream": True, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "t-1",
            "client_metadata": {"a": "b"}, "service_tier": "auto",
            "text": {"verbosity": "medium"}, "temperature": 0, "max_output_tokens": 40}
    all = strict_stream(raw("POST", "/v1/responses", body))
    done = [e for e in all if e.type == "response.output_item.done"]
    assert done and all[-1].type in ("response.completed", "response.incomplete"), all[-1]
    assert all[-1].response.usage.total_tokens > 0, all[-1]
    body["input"] = said + [e.item.model_dump(exclude_none=True, exclude={"status"}) for e in done] + [
        {"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "call_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "{\"output\":\"a.txt\"}"},
        {"type": "custom_tool_call", "status": "completed", "call_id": "call_2", "name": "apply_patch", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done"},
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAAA"}]
    strict_stream(raw("POST", "/v1/responses", body))


run()
