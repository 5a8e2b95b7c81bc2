"""openai: tools of MCP servers (the official SDK's examples, over stdio and streamable HTTP) that the server calls."""

import json

import openai

from checks import *

client = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
SERVERS = ("hello", "everything")


def tool(label, **more):
    return {"type": "mcp", "server_label": label, "require_approval": "never", **more}


def ask(label="hello", **settings):
    return client.responses.create(**{"model": "tgi", "input": "Say hi.", "temperature": 0, "max_output_tokens": 200,
                                      "tools": [tool(label)], "tool_choice": "required", **settings})


@check("mcp: a response calls a tool and goes on with what it said")
def _():
    for label in SERVERS:
        r = ask(label)
        same([one.type for one in r.output][:2], ["mcp_list_tools", "mcp_call"])
        listed, call = r.output[:2]
        same((listed.server_label, [t.name for t in listed.tools]), (label, ["greet"]))
        same((call.server_label, call.name, call.status, call.error), (label, "greet", "completed", None))
        same(call.output.split()[0].lower(), "hi")
        assert call.output.endswith(json.loads(call.arguments)["name"]), call
        same(r.output[-1].type, "message")


@check("mcp: the events of a stream are the response")
def _():
    whole = ask()
    with client.responses.stream(model="tgi", input="Say hi.", temperature=0, max_output_tokens=200,
                                 tools=[tool("hello")], tool_choice="required") as s:
        kinds = [e.type for e in s]
        final = s.get_final_response()
    same([one.type for one in final.output], [one.type for one in whole.output])
    same(final.output[1].output, whole.output[1].output)
    for kind in ("response.mcp_list_tools.completed", "response.mcp_call.completed",
                 "response.mcp_call_arguments.done", "response.completed"):
        assert kind in kinds, kinds


@check("mcp: the next response knows what the tool said")
def _():
    first = ask()
    second = client.responses.create(model="tgi", input="And?", temperature=0, max_output_tokens=8,
                                     previous_response_id=first.id)
    plain = client.responses.create(model="tgi", temperature=0, max_output_tokens=8, input=[
        {"role": "user", "content": "Say hi."}, {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "And?"}])
    said = len(first.output[1].output)  # bytes: a token of the demo model has one to four of them
    assert second.usage.input_tokens >= plain.usage.input_tokens + said // 4, (second.usage, plain.usage)
    same(second.output[-1].type, "message")


@check("mcp: chat")
def _():
    r = client.chat.completions.create(model="tgi", messages=[{"role": "user", "content": "Say hi."}], temperature=0,
                                       max_tokens=200, tools=[tool("hello")], tool_choice="required")
    m = r.choices[0].message
    same(m.model_extra["mcp_calls"][0]["name"], "greet")
    same(m.tool_calls, None)
    same(r.choices[0].finish_reason, "stop")


@check("mcp: what a client may not choose is refused")
def _():
    for settings, text in (({"server_url": "http://127.0.0.1:1"}, "server_url"),
                           ({"require_approval": "always"}, "require_approval")):
        try:
            ask(tools=[tool("hello", **settings)])
            raise AssertionError(f"{settings} was taken")
        except openai.BadRequestError as e:
            holds(e.message, text)
    try:
        ask("nobody")
        raise AssertionError("a server that is not configured was taken")
    except openai.APIStatusError as e:
        holds(e.message, "nobody")


run()
