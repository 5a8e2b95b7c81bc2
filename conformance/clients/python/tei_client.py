"""Vectors and ranks through the clients of text-embeddings-inference, Infinity, Cohere and Jina: those of LangChain,
LlamaIndex and Haystack, and packages of their own."""

import cohere
from checks import check, run
from haystack import Document
from haystack.utils import Secret
from haystack_integrations.components.embedders.huggingface_api import (HuggingFaceAPIDocumentEmbedder,
                                                                        HuggingFaceAPITextEmbedder)
from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker
from huggingface_hub import AsyncInferenceClient, InferenceClient
from infinity_client import Client as InfinityClient
from infinity_client.api.default import embeddings as infinity_embeddings
from infinity_client.models import OpenAIEmbeddingInputText
from infinity_client.types import UNSET
from langchain_cohere import CohereEmbeddings, CohereRerank
from langchain_core.documents import Document as LangChainDocument
from langchain_huggingface import HuggingFaceEndpointEmbeddings
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.embeddings.huggingface_api import HuggingFaceInferenceAPIEmbedding
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.postprocessor.cohere_rerank import CohereRerank as LlamaCohereRerank
from llama_index.postprocessor.jinaai_rerank import JinaRerank
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference as TEIRerank
from texts import DOCUMENTS, FULL, QUERY, TEXTS, URL, VECTORS, all_like, like, ranked


def endpoint():
    """It takes no address any more, but a client that has one."""
    e = HuggingFaceEndpointEmbeddings(model="roberta", huggingfacehub_api_token="-")
    e.client, e.async_client = InferenceClient(URL + "/?model=roberta"), AsyncInferenceClient(URL + "/?model=roberta")
    return e


@check("langchain-huggingface: HuggingFaceEndpointEmbeddings")
def _():
    e = endpoint()
    all_like(e.embed_documents(TEXTS))
    like(e.embed_query(TEXTS[1]), VECTORS[1])


@check("langchain-huggingface: asynchronous")
async def _():
    e = endpoint()
    all_like(await e.aembed_documents(TEXTS))


@check("llama-index-embeddings-text-embeddings-inference")
def _():
    e = TextEmbeddingsInference(model_name="roberta", base_url=URL, timeout=60)
    all_like(e.get_text_embedding_batch(TEXTS))
    like(e.get_query_embedding(TEXTS[1]), VECTORS[1])


@check("llama-index-embeddings-huggingface-api")
def _():
    e = HuggingFaceInferenceAPIEmbedding(model_name=URL + "/?model=roberta")
    all_like(e.get_text_embedding_batch(TEXTS))


def nodes():
    return [NodeWithScore(node=TextNode(text=d, id_=str(i))) for i, d in FULL.items()]


def of_nodes(found):
    return [(int(n.node.node_id), n.score) for n in found]


@check("llama-index-postprocessor-tei-rerank")
def _():
    r = TEIRerank(base_url=URL, model_name="bert-rank", top_n=3, timeout=60)
    ranked(of_nodes(r.postprocess_nodes(nodes(), query_bundle=QueryBundle(QUERY))))


@check("llama-index-postprocessor-cohere-rerank")
def _():
    r = LlamaCohereRerank(api_key="-", model="bert-rank", top_n=3, base_url=URL)
    ranked(of_nodes(r.postprocess_nodes(nodes(), query_bundle=QueryBundle(QUERY))))


@check("llama-index-postprocessor-jinaai-rerank")
def _():
    r = JinaRerank(api_key="-", model="bert-rank", top_n=3, base_url=URL + "/v1")
    ranked(of_nodes(r.postprocess_nodes(nodes(), query_bundle=QueryBundle(QUERY))))


@check("huggingface-api-haystack: embedders")
def _():
    settings = {"api_type": "text_embeddings_inference", "api_params": {"url": URL + "/?model=roberta"},
                "token": Secret.from_token("-")}
    like(HuggingFaceAPITextEmbedder(**settings).run(TEXTS[1])["embedding"], VECTORS[1])
    found = HuggingFaceAPIDocumentEmbedder(**settings, progress_bar=False).run([Document(content=t) for t in TEXTS])
    all_like([d.embedding for d in found["documents"]])


@check("huggingface-api-haystack: HuggingFaceTEIRanker")
def _():
    r = HuggingFaceTEIRanker(url=URL, top_k=3, token=Secret.from_token("-"))
    found = r.run(query=QUERY, documents=[Document(id=str(i), content=d) for i, d in FULL.items()])
    ranked((int(d.id), d.score) for d in found["documents"])


@check("langchain-cohere: CohereRerank")
def _():
    r = CohereRerank(client=cohere.ClientV2(api_key="-", base_url=URL), model="bert-rank", top_n=3)
    found = r.rerank(DOCUMENTS, QUERY)
    ranked(((d["index"], d["relevance_score"]) for d in found), among=range(len(DOCUMENTS)))
    whole = r.compress_documents([LangChainDocument(d, metadata={"i": i}) for i, d in FULL.items()], QUERY)
    ranked((d.metadata["i"], d.metadata["relevance_score"]) for d in whole)


@check("infinity-client")
def _():
    c = InfinityClient(URL)
    # it sends 0 dimensions unless it is told not to
    body = OpenAIEmbeddingInputText(input_=TEXTS, model="roberta", dimensions=UNSET)
    got = infinity_embeddings.sync(client=c, body=body)
    all_like([d.embedding for d in got.data])


run()
