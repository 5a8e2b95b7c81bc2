// ollama (npm): chat, generate, streams, formats, models, errors, leaving.

import { Ollama } from "ollama";

import { all, answer, check, holds, key, keyedURL, longTokens, messages, question, raises, run, same, stops, url } from "./checks.mjs";

const model = "tgi-demo";
const options = { temperature: 0 };
const ollama = new Ollama({ host: url });

check("chat", async () => {
  const r = await ollama.chat({ model, messages, options });
  holds(r.message.content, answer);
  same([r.done, r.done_reason, r.model], [true, "stop", model]);
  const parts = await all(await ollama.chat({ model, messages, options, stream: true }));
  same(parts.map((p) => p.message.content).join(""), r.message.content);
  same(parts.at(-1).eval_count, r.eval_count);
});

check("generate", async () => {
  const r = await ollama.generate({ model, prompt: question, options });
  holds(r.response, answer);
  const parts = await all(await ollama.generate({ model, prompt: question, options, stream: true }));
  same(parts.map((p) => p.response).join(""), r.response);
  same((await ollama.generate({ model, prompt: question, options: { ...options, num_predict: 2 } })).done_reason, "length");
});

check("format", async () => {
  const format = { type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false };
  const r = await ollama.chat({ model, messages, format, options: { ...options, num_predict: 100 } });
  same(Number.isInteger(JSON.parse(r.message.content).n), true);
});

check("models", async () => {
  same((await ollama.list()).models[0].name, model + ":latest");
  same((await ollama.show({ model })).model_info["llama.context_length"], 1024);
  same((await ollama.ps()).models[0].context_length, 1024);
  same((await ollama.version()).version.split(".").length, 3);
});

check("errors", async () => {
  const e = await raises(Error, () => ollama.chat({ model, messages, options: { top_p: 2 } }), "`options.top_p` must be >= 0.0 and <= 1.0");
  same(e.status_code, 400);
  await raises(Error, () => ollama.copy({ source: model, destination: "b" }), "`/api/copy` is not supported");
  await raises(Error, () => ollama.pull({ model: "org/name" }), "administrators");
  const none = new Ollama({ host: keyedURL });
  await raises(Error, () => none.list(), "no key given");
  const keyed = new Ollama({ host: keyedURL, headers: { Authorization: "Bearer " + key } });
  holds((await keyed.chat({ model, messages, options })).message.content, answer);
});

check("leaving a stream", async () => {
  await stops(async () => {
    const client = new Ollama({ host: url });
    const stream = await client.chat({
      model, messages, stream: true, options: { temperature: 100, seed: 1, top_k: 0, top_p: 1, num_predict: longTokens },
    });
    for await (const _ of stream) break;
    client.abort();
  });
});

await run();
