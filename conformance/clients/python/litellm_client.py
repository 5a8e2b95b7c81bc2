"""LiteLLM: chat and completions of a server of OpenAI's API, streams, tools, errors."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched

import litellm

from checks import *

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


run()
