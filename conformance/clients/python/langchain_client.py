"""langchain: HuggingFaceEndpoint, HuggingFaceTextGenInference, ChatOpenAI."""

from langchain_core.messages import ToolMessage
from langchain_community.llms import HuggingFaceTextGenInference
from langchain_huggingface import HuggingFaceEndpoint
from langchain_openai import ChatOpenAI

from checks import *

endpoint = HuggingFaceEndpoint(endpoint_url=URL + "/", max_new_tokens=50, temperature=0.01, repetition_penalty=1.03, top_k=10,
                               top_p=0.95, typical_p=0.95)
legacy = HuggingFaceTextGenInference(inference_server_url=URL + "/", max_new_tokens=50, temperature=0.01, top_k=10,
                                     repetition_penalty=1.03)
openai = ChatOpenAI(base_url=URL + "/v1", api_key="any", model="tgi", temperature=0)


@check("HuggingFaceEndpoint: invoke")
def _():
    holds(endpoint.invoke(PROMPT), ANSWER)


@check("HuggingFaceEndpoint: stop")
def _():
    text = endpoint.invoke(PROMPT, stop=["old"])
    assert text.endswith("the ") or text.endswith("the"), text


@check("HuggingFaceEndpoint: stream")
def _():
    holds("".join(endpoint.stream(PROMPT)), ANSWER)


@check("HuggingFaceEndpoint: ainvoke, astream")
async def _():
    holds(await endpoint.ainvoke(PROMPT), ANSWER)
    holds("".join([p async for p in endpoint.astream(PROMPT)]), ANSWER)


@check("HuggingFaceEndpoint: batch")
def _():
    same(len(set(endpoint.batch([PROMPT] * 4))), 1)


@check("HuggingFaceEndpoint: errors")
def _():
    from huggingface_hub.errors import ValidationError

    raises(ValidationError, lambda: endpoint.invoke(PROMPT, max_new_tokens=100_000), "Input validation error")
    raises(ValidationError, lambda: list(endpoint.stream(PROMPT, max_new_tokens=100_000)), "Input validation error")


@check("HuggingFaceEndpoint: leaving a stream ends its request")
def _():
    def leave():
        stream = endpoint.stream(PROMPT, max_new_tokens=LONG_TOKENS, temperature=100.0, seed=1, do_sample=True, top_k=None,
                                 top_p=None, typical_p=None)
        next(stream)
        stream.close()

    stops(leave)


@check("HuggingFaceTextGenInference: invoke")
def _():
    holds(legacy.invoke(PROMPT), ANSWER)


@check("HuggingFaceTextGenInference: stream")
def _():
    holds("".join(legacy.stream(PROMPT)), ANSWER)


@check("HuggingFaceTextGenInference: ainvoke, astream")
async def _():
    holds(await legacy.ainvoke(PROMPT), ANSWER)
    holds("".join([p async for p in legacy.astream(PROMPT)]), ANSWER)


@check("HuggingFaceTextGenInference: errors")
def _():
    from text_generation.errors import ValidationError

    raises(ValidationError, lambda: legacy.invoke(PROMPT, max_new_tokens=100_000), "Input validation error")


@check("HuggingFaceTextGenInference: leaving a stream ends its request")
def _():
    def leave():
        stream = legacy.stream(PROMPT, max_new_tokens=LONG_TOKENS, temperature=100.0, seed=1, do_sample=True, top_k=None,
                               top_p=None, typical_p=None)
        next(stream)
        stream.close()

    stops(leave)


@check("ChatOpenAI: invoke, stream, usage")
def _():
    r = openai.invoke([("user", QUESTION)])
    holds(r.content, ANSWER)
    assert r.usage_metadata["output_tokens"] > 1, r.usage_metadata
    holds("".join(c.content for c in openai.stream([("user", QUESTION)])), ANSWER)


@check("ChatOpenAI: bind_tools, and the result of a call")
def _():
    def get_weather(city: str) -> str:
        """Get the weather of a city"""

    ask = [("user", "What is the weather in Paris?")]
    bound = openai.bind_tools([get_weather])
    called = bound.invoke(ask)
    same([(c["name"], c["args"]) for c in called.tool_calls], [("get_weather", {"city": "Paris"})])
    chunks = list(bound.stream(ask))
    whole = chunks[0]
    for c in chunks[1:]:
        whole += c
    same([(c["name"], c["args"]) for c in whole.tool_calls], [("get_weather", {"city": "Paris"})])
    result = ToolMessage('{"city": "Paris", "weather": "sunny"}', tool_call_id=called.tool_calls[0]["id"])
    holds(bound.invoke([*ask, called, result]).content, "sunny")


@check("ChatOpenAI: responses, invoke, stream and the result of a call")
def _():
    model = ChatOpenAI(base_url=URL + "/v1", api_key="any", model="tgi", temperature=0, use_responses_api=True)
    whole = model.invoke(QUESTION)
    holds(whole.text, ANSWER)
    same("".join(c.text for c in model.stream(QUESTION)), whole.text)
    assert whole.usage_metadata["total_tokens"] > 0, whole.usage_metadata


run()
