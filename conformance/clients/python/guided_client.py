"""guidance and outlines: texts that are held to grammars, by the models that they have for TGI, vLLM and OpenAI."""

import re
from typing import Literal

import guidance
import huggingface_hub
import openai
import outlines
from guidance.models.experimental import VLLMModel
from outlines.types import CFG, Regex
from pydantic import BaseModel, ConfigDict, Field

from checks import *

client = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
tgi = outlines.from_tgi(huggingface_hub.InferenceClient(URL))
vllm = outlines.from_vllm(client, "tgi")
plain = outlines.from_openai(client, "tgi")
DATE = r"(19|20)[0-9]{2}-[01][0-9]"


class Place(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=20)
    kind: Literal["house", "mill"]


@check("outlines: text of each model")
def _():
    holds(tgi(PROMPT, max_new_tokens=50, return_full_text=False), ANSWER)
    for model in (vllm, plain):
        holds(model(QUESTION, temperature=0, max_tokens=50), ANSWER)


@check("outlines: a stream of each model")
def _():
    holds("".join(tgi.stream(PROMPT, max_new_tokens=50)), ANSWER)
    for model in (vllm, plain):
        holds("".join(model.stream(QUESTION, temperature=0, max_tokens=50)), ANSWER)


@check("outlines: a type by each model")
def _():
    for text in (tgi(PROMPT, Place, max_new_tokens=400, do_sample=True, temperature=1.0, seed=1, return_full_text=False),
                 vllm(QUESTION, Place, temperature=1, seed=2, max_tokens=400),
                 plain(QUESTION, Place, temperature=1, seed=3, max_tokens=400)):
        Place.model_validate_json(text)


@check("outlines: a choice")
def _():
    assert vllm(QUESTION, Literal["mill", "house"], temperature=1, max_tokens=20) in ("mill", "house")
    assert tgi(PROMPT, Literal["mill", "house"], max_new_tokens=20, return_full_text=False) in ("mill", "house")


@check("outlines: a regular expression")
def _():
    for text in (tgi(PROMPT, Regex(DATE), max_new_tokens=20, do_sample=True, seed=1, return_full_text=False),
                 vllm(QUESTION, Regex(DATE), temperature=1, max_tokens=20)):
        assert re.fullmatch(DATE, text), text


@check("outlines: a grammar")
def _():
    text = vllm(QUESTION, CFG('start: "(" start ")" | WORD\nWORD: /[a-z]{1,3}/'), temperature=1, seed=4, max_tokens=60)
    assert re.fullmatch(r"\(*[a-z]{1,3}\)*", text) and text.count("(") == text.count(")"), text


def ask(*parts):
    lm = VLLMModel("tgi", base_url=URL + "/v1", api_key="any")
    with guidance.user():
        lm += QUESTION
    with guidance.assistant():
        for p in parts:
            lm += p
    return lm


@check("guidance: a choice")
def _():
    assert ask(guidance.select(["mill", "house"], name="kind"))["kind"] in ("mill", "house")


@check("guidance: a regular expression")
def _():
    got = ask(guidance.gen(name="date", regex=DATE))["date"]
    assert re.fullmatch(DATE, got), got


@check("guidance: text and captures in one grammar")
def _():
    got = ask("It was in " + guidance.gen(name="when", regex=DATE) + ", in a " + guidance.select(["mill", "house"], name="where") + ".")
    assert re.fullmatch(DATE, got["when"]) and got["where"] in ("mill", "house"), str(got)


@check("guidance: a type")
def _():
    # The white space that the server allows: guidance reads the text again, by its own grammar.
    got = ask(guidance.json(name="place", schema=Place, whitespace_flexible=True))["place"]
    Place.model_validate_json(got)


run()
