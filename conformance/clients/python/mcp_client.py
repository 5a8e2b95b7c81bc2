"""openai, anthropic: tools of MCP servers that the server calls: the official SDK's examples, over stdio and HTTP."""

import json

import anthropic
import openai

from checks import *

client = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
SERVERS = ("hello", "everything")
claude = anthropic.Anthropic(base_url=URL, api_key="any", max_retries=0)


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


@check("mcp: messages, whole, streamed and sent again")
def _():
    settings = dict(model="tgi", max_tokens=200, extra_body={"temperature": 0},
                    messages=[{"role": "user", "content": "Say hi."}],
                    tools=[{"type": "mcp_toolset", "mcp_server_name": "hello"}], tool_choice={"type": "any"},
                    betas=["mcp-client-2025-11-20"])
    m = claude.beta.messages.create(**settings)
    same([b.type for b in m.content][:2], ["mcp_tool_use", "mcp_tool_result"])
    use, result = m.content[:2]
    same((use.name, use.server_name, result.tool_use_id, result.is_error), ("greet", "hello", use.id, False))
    same(result.content[0].text, "Hi " + use.input["name"])
    same(m.stop_reason, "end_turn")
    with claude.beta.messages.stream(**settings) as s:
        final = s.get_final_message()
    same([b.type for b in final.content], [b.type for b in m.content])
    same(final.content[0].input, use.input)
    again = settings["messages"] + [{"role": "assistant", "content": m.content}, {"role": "user", "content": "And?"}]
    m = claude.beta.messages.create(**{**settings, "messages": again, "tool_choice": {"type": "none"}})
    same(m.content[0].type, "text")
    try:
        claude.beta.messages.create(**settings, mcp_servers=[{"type": "url", "name": "x", "url": "http://127.0.0.1:1"}])
        raise AssertionError("mcp_servers was taken")
    except anthropic.BadRequestError as e:
        holds(str(e), "mcp_servers")


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
