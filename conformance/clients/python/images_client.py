"""openai, huggingface_hub and langchain send images: as data: URIs, and as addresses that the server fetches."""

import os

import openai
from huggingface_hub import InferenceClient
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from checks import *

SEEING = os.environ["TGI_SEEING_URL"]  # a server with a tiny model that reads images
PICTURES = [json.loads(os.environ["TGI_PICTURES"])[kind] for kind in ("data", "address")]  # two pictures, in both forms
IMAGE_TOKENS = int(os.environ["TGI_IMAGE_TOKENS"])  # of one picture

openai_client = openai.OpenAI(base_url=SEEING + "/v1", api_key="any", max_retries=0)
hub = InferenceClient(SEEING)
langchain = ChatOpenAI(base_url=SEEING + "/v1", api_key="any", model="tgi", temperature=0, max_tokens=16)


def parts(*urls):
    return [{"type": "text", "text": "What is it?"}] + [{"type": "image_url", "image_url": {"url": u}} for u in urls]


def chat(client, *urls, **more):
    return client.chat.completions.create(model="tgi", messages=[{"role": "user", "content": parts(*urls)}],
                                          max_tokens=16, temperature=0, **more)


def text(reply):
    return reply.choices[0].message.content


def distinct(answer):
    """Both forms of a picture give the same answer, and another picture gives another one."""
    first, second = ([answer(form[i]) for form in PICTURES] for i in range(2))
    same(first[0], first[1])
    same(second[0], second[1])
    assert first[0] and first != second, f"two pictures give {first[0]!r}"
    return first[0]


EXPECTED = []


@check("openai: data: URI and address")
def _():
    EXPECTED.append(distinct(lambda url: text(chat(openai_client, url))))


@check("openai: two images in a message, and their tokens in usage")
def _():
    data, addresses = (chat(openai_client, *form) for form in PICTURES)
    same(text(data), text(addresses))
    same(data.usage.prompt_tokens_details.image_tokens, 2 * IMAGE_TOKENS)


@check("openai: stream")
def _():
    chunks = chat(openai_client, PICTURES[0][0], stream=True)
    same("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), EXPECTED[0])


@check("openai: a host that is not allowed, and what is no picture")
def _():
    raises(openai.UnprocessableEntityError, lambda: chat(openai_client, "https://example.com/a.png"), "images.hosts")
    raises(openai.UnprocessableEntityError, lambda: chat(openai_client, "data:image/png;base64,AAAA"),
           "messages[0].content[1]")


@check("openai: a model of text refuses images")
def _():
    blind = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
    raises(openai.UnprocessableEntityError, lambda: chat(blind, PICTURES[0][0]), "this model reads text only")


@check("huggingface_hub: chat_completion")
def _():
    def ask(url):
        return text(hub.chat_completion([{"role": "user", "content": parts(url)}], max_tokens=16, temperature=0.0))

    same(distinct(ask), EXPECTED[0])


@check("huggingface_hub: text_generation with ![](url)")
def _():
    distinct(lambda url: hub.text_generation(f"![]({url})What is it?", max_new_tokens=16, return_full_text=False))


@check("langchain: ChatOpenAI, invoke and stream")
def _():
    same(distinct(lambda url: langchain.invoke([HumanMessage(parts(url))]).content), EXPECTED[0])
    same("".join(c.content for c in langchain.stream([HumanMessage(parts(PICTURES[1][0]))])), EXPECTED[0])


run()
