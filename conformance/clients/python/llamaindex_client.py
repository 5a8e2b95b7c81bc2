"""llama-index: TextGenerationInference and HuggingFaceInferenceAPI.

The first one's streams are left out: the client below it is the one of
legacy_client.py, with the same fault.
"""

from llama_index.core.llms import ChatMessage
from llama_index.llms.huggingface_api import HuggingFaceInferenceAPI
from llama_index.llms.text_generation_inference import TextGenerationInference

from checks import *

tgi = TextGenerationInference(model_url=URL, temperature=0, max_tokens=50)
hub = HuggingFaceInferenceAPI(model=URL, provider="hf-inference", temperature=0.01, num_output=50)
plain = HuggingFaceInferenceAPI(model=URL, provider="hf-inference", temperature=0.01, num_output=50, task="text-generation")
messages = [ChatMessage(role="user", content=QUESTION)]


@check("TextGenerationInference: what /info says")
def _():
    same((tgi.metadata.context_window, tgi.metadata.model_name), (1024, "tgi-demo"))


@check("TextGenerationInference: chat")
def _():
    holds(tgi.chat(messages).message.content, ANSWER)


@check("TextGenerationInference: complete")
def _():
    holds(tgi.complete(QUESTION).text, ANSWER)


@check("TextGenerationInference: achat, acomplete")
async def _():
    holds((await tgi.achat(messages)).message.content, ANSWER)
    holds((await tgi.acomplete(QUESTION)).text, ANSWER)


@check("TextGenerationInference: errors")
def _():
    from tgi.errors import ValidationError

    raises(ValidationError, lambda: tgi.chat(messages, max_tokens=100_000), "max")


@check("HuggingFaceInferenceAPI: chat, complete")
def _():
    holds(hub.chat(messages).message.content, ANSWER)
    holds(hub.complete(QUESTION).text, ANSWER)


@check("HuggingFaceInferenceAPI: stream_chat, stream_complete")
def _():
    holds(list(hub.stream_chat(messages))[-1].message.content, ANSWER)
    holds(list(hub.stream_complete(QUESTION))[-1].text, ANSWER)


@check("HuggingFaceInferenceAPI: achat, astream_chat")
async def _():
    holds((await hub.achat(messages)).message.content, ANSWER)
    last = None
    async for r in await hub.astream_chat(messages):
        last = r
    holds(last.message.content, ANSWER)


@check("HuggingFaceInferenceAPI: context window from /info")
def _():
    same(hub.metadata.context_window, 1023)


@check("HuggingFaceInferenceAPI: text generation")
def _():
    holds(plain.complete(PROMPT, formatted=True).text, ANSWER)


@check("HuggingFaceInferenceAPI: errors")
def _():
    from huggingface_hub.errors import HfHubHTTPError

    raises(HfHubHTTPError, lambda: hub.chat(messages, max_tokens=100_000))


@check("HuggingFaceInferenceAPI: leaving a stream ends its request")
def _():
    def leave():
        stream = hub.stream_chat(messages, max_tokens=LONG_TOKENS, **LONG)
        next(stream)
        stream.close()

    stops(leave)


run()
