// Vectors and ranks: openai, @huggingface/inference, the Vercel AI SDK with OpenAI's and Cohere's providers, cohere-ai,
// @langchain/openai and @langchain/cohere. See python/texts.py for the models.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import { createCohere } from "@ai-sdk/cohere";
import { createOpenAI } from "@ai-sdk/openai";
import { InferenceClient } from "@huggingface/inference";
import { CohereRerank } from "@langchain/cohere";
import { OpenAIEmbeddings } from "@langchain/openai";
import { embed, embedMany, rerank } from "ai";
import { CohereClient, CohereClientV2 } from "cohere-ai";
import OpenAI from "openai";

import { check, run, same } from "./checks.mjs";

const url = process.env.TGI_TEXTS_URL;
const golden = (name) => JSON.parse(gunzipSync(readFileSync(join(process.env.TGI_TEXTS, name, "golden.json.gz"))));

const roberta = golden("roberta");
const texts = [roberta.texts[0], roberta.texts[4], "a"];
const vectors = [0, 4, 2].map((i) => roberta.prompts[""][i]);
const { query, texts: documents, pairs } = golden("bert-rank");
const probability = (i) => 1 / (1 + Math.exp(-pairs[i][0]));
const best = documents.map((_, i) => i).sort((a, b) => probability(b) - probability(a)).slice(0, 3);

// like holds that two vectors point the same way.
function like(got, want) {
  const product = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  same(got.length, want.length);
  const cosine = product(got, want) / Math.sqrt(product(got, got) * product(want, want));
  if (!(cosine > 0.99999)) throw new Error(`cosine ${cosine}`);
}

const allLike = (got) => {
  same(got.length, vectors.length);
  got.forEach((v, i) => like(v, vectors[i]));
};

function ranked(results) {
  same(results.map((r) => r.index), best);
  for (const { index, score } of results) {
    if (!(Math.abs(score - probability(index)) < 1e-4)) throw new Error(`${index}: ${score}, want ${probability(index)}`);
  }
}

check("openai: vectors, by default in base64", async () => {
  const client = new OpenAI({ baseURL: url + "/v1", apiKey: "-" });
  allLike((await client.embeddings.create({ model: "roberta", input: texts })).data.map((d) => d.embedding));
});

check("@huggingface/inference: featureExtraction", async () => {
  const client = new InferenceClient(undefined, { endpointUrl: url + "/?model=roberta" });
  like((await client.featureExtraction({ inputs: texts[0] })).flat(), vectors[0]);
});

check("ai: embed and embedMany with @ai-sdk/openai", async () => {
  const model = createOpenAI({ baseURL: url + "/v1", apiKey: "-" }).embedding("roberta");
  like((await embed({ model, value: texts[0] })).embedding, vectors[0]);
  allLike((await embedMany({ model, values: texts })).embeddings);
});

check("ai: rerank with @ai-sdk/cohere", async () => {
  const model = createCohere({ baseURL: url + "/v2", apiKey: "-" }).reranking("bert-rank");
  const { ranking } = await rerank({ model, query, documents, topN: 3 });
  ranked(ranking.map((r) => ({ index: r.originalIndex, score: r.score })));
});

check("cohere-ai: rerank, both versions", async () => {
  for (const kind of [CohereClient, CohereClientV2]) {
    const client = new kind({ token: "-", environment: url });
    const { results } = await client.rerank({ model: "bert-rank", query, documents, topN: 3 });
    ranked(results.map((r) => ({ index: r.index, score: r.relevanceScore })));
  }
});

check("@langchain/openai: OpenAIEmbeddings", async () => {
  const e = new OpenAIEmbeddings({ model: "roberta", apiKey: "-", configuration: { baseURL: url + "/v1" } });
  allLike(await e.embedDocuments(texts));
  like(await e.embedQuery(texts[1]), vectors[1]);
});

check("@langchain/cohere: CohereRerank", async () => {
  const client = new CohereClient({ token: "-", environment: url });
  const r = new CohereRerank({ client, model: "bert-rank", topN: 3 });
  ranked((await r.rerank(documents, query)).map((d) => ({ index: d.index, score: d.relevanceScore })));
});

await run();
