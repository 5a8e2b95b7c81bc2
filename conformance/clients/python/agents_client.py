"""instructor, pydantic-ai and openai-agents: typed answers and loops of tool calls over chat completions."""

from contextlib import asynccontextmanager
from typing import Literal

import instructor
import openai
from agents import (Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool,
                    set_tracing_disabled)
from agents.agent_output import AgentOutputSchema
from pydantic import BaseModel, ConfigDict, Field
from pydantic_ai import Agent as TypedAgent
from pydantic_ai import NativeOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from checks import *

set_tracing_disabled(True)
client = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
WEATHER = "What is the weather in Paris?"


class Place(BaseModel):
    """Where somebody lives."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=20)
    kind: Literal["house", "mill", "boat"]
    rooms: int = Field(ge=1, le=9)


def _typed(mode, **settings):
    one = instructor.from_openai(client, mode=mode)
    return one.chat.completions.create(
        model="tgi", messages=MESSAGES, response_model=Place, max_retries=0, temperature=1, max_tokens=400, **settings)


for _mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):

    @check(f"instructor: {_mode.value}")
    def _(mode=_mode):
        for seed in range(3):
            assert isinstance(_typed(mode, seed=seed), Place)


@check("instructor: a stream of partial objects")
def _():
    one = instructor.from_openai(client, mode=instructor.Mode.TOOLS_STRICT)
    parts = list(one.chat.completions.create_partial(
        model="tgi", messages=MESSAGES, response_model=Place, max_retries=0, temperature=1, seed=2, max_tokens=400))
    assert parts and 1 <= parts[-1].rooms <= 9, parts


@asynccontextmanager
async def _connected(url=URL, key="any"):
    """A client of this event loop, closed before the loop is."""
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key=key, max_retries=0) as connection:
        yield connection


@asynccontextmanager
async def _model(url=URL, key="any"):
    async with _connected(url, key) as connection:
        yield OpenAIChatModel("tgi", provider=OpenAIProvider(openai_client=connection))


@check("pydantic-ai: text")
async def _():
    async with _model() as model:
        r = await TypedAgent(model).run(QUESTION, model_settings={"temperature": 0})
    holds(r.output, ANSWER)
    assert r.usage.output_tokens > 1, r.usage


@check("pydantic-ai: a stream of text")
async def _():
    async with _model() as model, TypedAgent(model).run_stream(QUESTION, model_settings={"temperature": 0}) as s:
        text = "".join([piece async for piece in s.stream_text(delta=True)])
    holds(text, ANSWER)


@check("pydantic-ai: typed output by a schema and by a tool")
async def _():
    async with _model() as model:
        for output in (NativeOutput(Place), ToolOutput(Place)):
            r = await TypedAgent(model, output_type=output, retries=0).run(
                QUESTION, model_settings={"temperature": 1, "seed": 3, "max_tokens": 400})
            assert isinstance(r.output, Place), r.output


@check("pydantic-ai: a tool is called and its result answered")
async def _():
    asked = []

    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        asked.append(city)
        return "It is sunny, 21 degrees."

    async with _model() as model:
        r = await TypedAgent(model, tools=[get_weather]).run(WEATHER, model_settings={"temperature": 0})
    same(asked, ["Paris"])
    assert isinstance(r.output, str) and r.output, r.output


@check("pydantic-ai: an error has its status")
async def _():
    async with _model(KEYED_URL, "wrong") as model:
        e = await raises_async(ModelHTTPError, TypedAgent(model).run(QUESTION))
    same(e.status_code, 401)


@asynccontextmanager
async def _agent(settings=ModelSettings(temperature=0), **more):
    async with _connected() as connection:
        yield Agent(name="Guide", model=OpenAIChatCompletionsModel(model="tgi", openai_client=connection), model_settings=settings, **more)


@check("openai-agents: text")
async def _():
    async with _agent() as agent:
        r = await Runner.run(agent, QUESTION)
    holds(r.final_output, ANSWER)


@check("openai-agents: a tool is called and its result answered")
async def _():
    asked = []

    @function_tool
    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        asked.append(city)
        return "It is sunny, 21 degrees."

    async with _agent(tools=[get_weather]) as agent:
        r = await Runner.run(agent, WEATHER)
    same(asked, ["Paris"])
    assert r.final_output, r


@check("openai-agents: a typed answer")
async def _():
    async with _agent(output_type=AgentOutputSchema(Place), settings=ModelSettings(temperature=1, max_tokens=400)) as agent:
        r = await Runner.run(agent, QUESTION)
    assert isinstance(r.final_output, Place), r.final_output


@check("openai-agents: a stream")
async def _():
    async with _agent() as agent:
        s = Runner.run_streamed(agent, QUESTION)
        kinds = {e.type async for e in s.stream_events()}
    assert "raw_response_event" in kinds, kinds
    holds(s.final_output, ANSWER)


@check("openai-agents: responses, its default, with a loop of a tool")
async def _():
    asked = []

    @function_tool
    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        asked.append(city)
        return "Sunny"

    c = openai.AsyncOpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
    model = OpenAIResponsesModel(model="tgi", openai_client=c)
    agent = Agent(name="a", model=model, tools=[get_weather], model_settings=ModelSettings(temperature=0))
    r = await Runner.run(agent, WEATHER, max_turns=3)
    same(len(asked), 1)
    assert r.final_output, r
    s = Runner.run_streamed(Agent(name="b", model=model, model_settings=ModelSettings(temperature=0)),
                            "Where does Mira live?")
    kinds = [e.type async for e in s.stream_events()]
    assert "raw_response_event" in kinds, kinds
    holds(s.final_output, ANSWER)


run()
