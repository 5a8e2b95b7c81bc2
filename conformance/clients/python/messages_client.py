"""anthropic: messages, whole and streamed, tools, counts, errors; every reply and event held to the package's types;
Claude Code's request shapes."""

import json
import urllib.request

import anthropic
import pydantic
from anthropic import types

from checks import *
from strict import events, held, transcripts

client = anthropic.Anthropic(base_url=URL, api_key="any", max_retries=0)
keyed = anthropic.Anthropic(base_url=KEYED_URL, api_key=KEY, max_retries=0)

WEATHER = {"name": "get_weather", "description": "Get the weather of a city", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def create(c=client, **settings):
    body = {"temperature": 0, **settings.pop("extra_body", {})}  # which the package has no argument for any more
    return c.messages.create(**{"model": "tgi", "max_tokens": 60, "messages": MESSAGES, "extra_body": body, **settings})


def raw(body, path="/v1/messages"):
    """Sends a request without the package and returns the reply's bytes."""
    headers = {"Content-Type": "application/json", "anthropic-version": "2023-06-01"}
    with urllib.request.urlopen(urllib.request.Request(URL + path, json.dumps(body).encode(), headers)) as r:
        return r.read().decode()


def strict_stream(text):
    kinds = []
    for name, data in events(text.splitlines()):
        same(name, data["type"])
        kinds.append(name)
        if name == "error":
            held(data, anthropic.types.shared.ErrorResponse)
        elif name != "ping":
            held(data, types.RawMessageStreamEvent)
    same(kinds[0], "message_start")
    return kinds


@check("create")
def _():
    m = create()
    holds(m.content[0].text, ANSWER)
    same((m.role, m.type, m.stop_reason), ("assistant", "message", "end_turn"))
    assert m._request_id and m.usage.output_tokens > 1, m


@check("every reply and event fits the package's types")
def _():
    asked = {"model": "tgi", "max_tokens": 20, "messages": MESSAGES, "temperature": 0}
    for more in ({}, {"tools": [WEATHER], "tool_choice": {"type": "any"}, "max_tokens": 80}, {"stop_sequences": ["i"]},
                 {"thinking": {"type": "adaptive"}}):
        held(json.loads(raw({**asked, **more})), types.Message)
        same(strict_stream(raw({**asked, **more, "stream": True}))[-1], "message_stop")


@check("the server's own transcripts fit them")
def _():
    for file, line, status, body in transcripts("messages"):
        try:
            if status != 200:
                held(json.loads(body), anthropic.types.shared.ErrorResponse)
            elif body.startswith("event: "):
                strict_stream(body)
            else:
                held(json.loads(body), types.MessageTokensCount if "count_tokens" in line else types.Message)
        except (AssertionError, pydantic.ValidationError) as e:
            raise AssertionError(f"{file}, {line}: {e}")


@check("stream")
def _():
    whole = create()
    with client.messages.stream(model="tgi", max_tokens=60, messages=MESSAGES, extra_body={"temperature": 0}) as s:
        text = "".join(s.text_stream)
        final = s.get_final_message()
    same(text, whole.content[0].text)
    same(final.usage.output_tokens, whole.usage.output_tokens)


@check("tools: a streaming loop")
def _():
    said = [{"role": "user", "content": "What is the weather in Paris?"}]
    with client.messages.stream(model="tgi", max_tokens=200, messages=said, tools=[WEATHER], extra_body={"temperature": 0},
                                tool_choice={"type": "tool", "name": "get_weather"}) as s:
        partial = "".join(e.partial_json for e in s if e.type == "input_json")
        m = s.get_final_message()
    same(m.stop_reason, "tool_use")
    call = next(b for b in m.content if b.type == "tool_use")
    same(json.loads(partial), call.input)
    said += [{"role": "assistant", "content": m.content}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "Sunny"}]}]}]
    assert create(messages=said, tools=[WEATHER], max_tokens=10).usage.input_tokens > 0


@check("a prefix that is sent again is read from the cache")
def _():
    system = [{"type": "text", "text": "Answer in words. " * 20, "cache_control": {"type": "ephemeral"}}]
    one, two = create(system=system), create(system=system)
    total = one.usage.input_tokens + one.usage.cache_read_input_tokens
    assert two.usage.cache_read_input_tokens > 0, two.usage
    same(two.usage.input_tokens + two.usage.cache_read_input_tokens, total)
    same(client.messages.count_tokens(model="tgi", system=system, messages=MESSAGES).input_tokens, total)


@check("stop sequences, and a turn that is continued")
def _():
    m = create(stop_sequences=["old"])
    same((m.stop_reason, m.stop_sequence), ("stop_sequence", "old"))
    whole = create().content[0].text
    begun = whole[:whole.index("old")].rstrip()
    m = create(messages=MESSAGES + [{"role": "assistant", "content": begun}])
    holds(begun + m.content[0].text, ANSWER)


@check("more tokens than the context has room for")
def _():
    m = create(max_tokens=16_000)
    same(m.stop_reason, "end_turn")


@check("a schema holds the answer")
def _():
    schema = {"type": "object", "properties": {"old": {"type": "boolean"}}, "required": ["old"],
              "additionalProperties": False}
    m = create(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert isinstance(json.loads(m.content[0].text)["old"], bool), m


@check("errors and keys")
def _():
    e = raises(anthropic.BadRequestError, lambda: create(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
               "web_search_20250305")
    same(e.body["error"]["type"], "invalid_request_error")
    assert e.request_id == e.body["request_id"], e.request_id
    raises(anthropic.BadRequestError, lambda: create(extra_body={"temperature": -1}), "`temperature`")
    raises(anthropic.AuthenticationError, lambda: create(anthropic.Anthropic(base_url=KEYED_URL, api_key="x")))
    holds(create(keyed).content[0].text, ANSWER)
    bearer = anthropic.Anthropic(base_url=KEYED_URL, api_key=None, auth_token=KEY)
    holds(create(bearer).content[0].text, ANSWER)


@check("models")
def _():
    page = client.models.list()
    held(json.loads(page.model_dump_json()), type(page))
    one = page.data[0]
    same(client.models.retrieve(one.id).id, one.id)
    same((one.type, page.has_more, page.first_id), ("model", False, one.id))


@check("leaving a stream ends it")
def _():
    def leave():
        s = create(stream=True, max_tokens=LONG_TOKENS, extra_body={"logit_bias": {"0": -100, "2": -100}})
        next(iter(s))
        s.close()

    stops(leave)


@check("async")
async def _():
    c = anthropic.AsyncAnthropic(base_url=URL, api_key="any")
    holds((await create(c)).content[0].text, ANSWER)


@check("Claude Code's request")
def _():
    # as @anthropic-ai/claude-code 2.1.197 sends it, which was captured: POST /v1/messages?beta=true
    body = {"model": "tgi", "max_tokens": 32000, "stream": True,
            "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197"},
                       {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
                       {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
            "tools": [{"name": "Bash", "description": "Runs a command", "input_schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": False}},
                {"name": "mcp__" + "a" * 80, "description": "", "input_schema": {"type": "object"}}],
            "metadata": {"user_id": "user_x_account__session_y"}, "thinking": {"type": "adaptive"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "medium"},
            "messages": [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"},
                                                      {"type": "text", "text": QUESTION}]},
                         {"role": "system", "content": "Available agent types: claude"},
                         {"role": "assistant", "content": [
                             {"type": "thinking", "thinking": "hm", "signature": "s"},
                             {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True,
                                                       "content": "Exit code 1", "cache_control": {"type": "ephemeral"}}]}]}
    same(strict_stream(raw(body, "/v1/messages?beta=true"))[-1], "message_stop")
    del body["max_tokens"], body["stream"]
    held(json.loads(raw(body, "/v1/messages/count_tokens?beta=true")), types.MessageTokensCount)


run()
