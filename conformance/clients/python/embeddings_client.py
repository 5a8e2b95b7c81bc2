"""Vectors and ranks through openai, langchain-openai, llama-index, huggingface_hub and cohere."""

import math

import cohere
from checks import check, run
from huggingface_hub import InferenceClient
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai import OpenAIEmbedding
from openai import BadRequestError, OpenAI, UnprocessableEntityError
from texts import DOCUMENTS, QUERY, TEXTS, URL, VECTORS, golden, like, ranked

openai = OpenAI(base_url=URL + "/v1", api_key="-", max_retries=0)


@check("openai: vectors, by default in base64")
def _():
    r = openai.embeddings.create(model="roberta", input=TEXTS)
    assert [d.index for d in r.data] == [0, 1, 2] and r.usage.prompt_tokens > 3 and r.model == "roberta", r
    for d, want in zip(r.data, VECTORS, strict=True):
        like(d.embedding, want)


@check("openai: floats are the same numbers")
def _():
    floats = openai.embeddings.create(model="roberta", input=TEXTS[0], encoding_format="float").data[0].embedding
    coded = openai.embeddings.create(model="roberta", input=TEXTS[0]).data[0].embedding
    assert max(abs(a - b) for a, b in zip(floats, coded, strict=True)) < 1e-7


@check("openai: dimensions")
def _():
    v = openai.embeddings.create(model="roberta", input=TEXTS[0], dimensions=8).data[0].embedding
    like(v, VECTORS[0][:8])
    assert abs(sum(x * x for x in v) - 1) < 1e-5


@check("openai: errors have param and code")
def _():
    for request, param in (({"input": "a", "dimensions": 99}, "dimensions"), ({"input": []}, "input")):
        try:
            openai.embeddings.create(model="roberta", **request)
        except (BadRequestError, UnprocessableEntityError) as e:
            assert e.param == param, e
        else:
            raise AssertionError(request)


@check("langchain-openai")
def _():
    e = OpenAIEmbeddings(base_url=URL + "/v1", api_key="-", model="roberta", check_embedding_ctx_length=False)
    for got, want in zip(e.embed_documents(TEXTS), VECTORS, strict=True):
        like(got, want)
    like(e.embed_query(TEXTS[1]), VECTORS[1])


@check("llama-index")
def _():
    e = OpenAIEmbedding(api_base=URL + "/v1", api_key="-", model_name="roberta")
    for got, want in zip(e.get_text_embedding_batch(TEXTS), VECTORS, strict=True):
        like(got, want)
    like(e.get_query_embedding(TEXTS[1]), VECTORS[1])


def hub(model):
    return InferenceClient(model=URL + "/?model=" + model)


@check("huggingface_hub: feature_extraction")
def _():
    got = hub("roberta").feature_extraction(TEXTS[0], normalize=False)
    like([float(x) for x in got.flatten()], VECTORS[0])


@check("huggingface_hub: sentence_similarity")
def _():
    got = hub("roberta").sentence_similarity(TEXTS[0], other_sentences=TEXTS)
    assert abs(got[0] - 1) < 1e-5 and len(got) == 3 and max(got[1:]) < 0.999, got


@check("huggingface_hub: text_classification")
def _():
    g = golden("distilbert-labels")
    scores = g["single"][0]
    total = sum(math.exp(s) for s in scores)
    want = dict(zip(("anger", "joy", "fear"), (math.exp(s) / total for s in scores)))
    got = hub("distilbert-labels").text_classification(g["texts"][0])
    assert {e.label for e in got} == set(want), got
    for e in got:
        assert abs(e.score - want[e.label]) < 1e-4, (e, want)


@check("cohere: rerank, both versions")
def _():
    request = {"model": "bert-rank", "query": QUERY, "documents": DOCUMENTS, "top_n": 3}
    new = cohere.ClientV2(api_key="-", base_url=URL).rerank(**request).results
    old = cohere.Client(api_key="-", base_url=URL).rerank(**request, return_documents=True).results
    for results in (new, old):
        ranked(((r.index, r.relevance_score) for r in results), among=range(len(DOCUMENTS)))
    assert all(r.document.text == DOCUMENTS[r.index] for r in old)


run()
