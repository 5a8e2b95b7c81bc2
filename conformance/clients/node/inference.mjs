// @huggingface/inference: InferenceClient on a server's address. Its text generation speaks to
// /v1/completions, its chat to /v1/chat/completions; both name the address as the model.

import { InferenceClient, InferenceClientProviderApiError as ApiError } from "@huggingface/inference";

import { all, answer, check, dialects, endless, holds, key, keyedURL, longTokens, messages, prompt, raises, run, same, stops, url } from "./checks.mjs";

const client = new InferenceClient(undefined, { endpointUrl: url });
const keyed = new InferenceClient(key, { endpointUrl: keyedURL });
const text = (chunks) => chunks.map((c) => c.choices[0]?.delta.content ?? "").join("");

check("chatCompletion", async () => {
  for (const c of [client, keyed, client.endpoint(url + "/"), client.endpoint(url + "/v1")]) {
    const r = await c.chatCompletion({ messages, temperature: 0, max_tokens: 50 });
    holds(r.choices[0].message.content, answer);
    same(r.choices[0].finish_reason, "stop");
  }
});

check("chatCompletion: named models", async () => {
  for (const model of ["tgi", "dummy", "tgi-demo"]) {
    holds((await client.chatCompletion({ model, messages, temperature: 0 })).choices[0].message.content, answer);
  }
});

check("chatCompletionStream", async () => {
  const whole = await client.chatCompletion({ messages, temperature: 0 });
  same(text(await all(client.chatCompletionStream({ messages, temperature: 0 }))), whole.choices[0].message.content);
});

check("textGeneration", async () => {
  const r = await client.textGeneration({ inputs: prompt, parameters: { max_new_tokens: 50, temperature: 0.01 } });
  holds(r.generated_text, answer);
});

check("textGenerationStream", async () => {
  const chunks = await all(client.textGenerationStream({ inputs: prompt, parameters: { max_new_tokens: 50, temperature: 0.01 } }));
  holds(chunks.map((c) => c.choices?.[0]?.text ?? "").join(""), answer);
});

check("errors", async () => {
  const e = await raises(ApiError, () => client.chatCompletion({ messages, max_tokens: 100000 }));
  same(e.httpResponse.status, 422);
  holds(e.httpResponse.body.error.message, "max");
  same(e.httpResponse.requestId.length > 0, true);
  await raises(ApiError, () => client.textGeneration({ inputs: prompt, parameters: { max_new_tokens: 100000 } }));
  await raises(ApiError, () => all(client.chatCompletionStream({ messages, max_tokens: 100000 })), "max");
});

check("keys: a wrong one", async () => {
  const wrong = new InferenceClient("wrong", { endpointUrl: keyedURL });
  same((await raises(ApiError, () => wrong.chatCompletion({ messages }))).httpResponse.status, 401);
});

check("every dialect", async () => {
  for (const dialect of dialects) {
    const options = { fetch: (u, init) => fetch(u, { ...init, headers: { ...init.headers, "X-TGI-Dialect": dialect } }) };
    const whole = await client.chatCompletion({ messages, temperature: 0 }, options);
    holds(whole.choices[0].message.content, answer);
    same(text(await all(client.chatCompletionStream({ messages, temperature: 0 }, options))), whole.choices[0].message.content);
  }
});

check("leaving a stream ends its request", () =>
  stops(async () => {
    const control = new AbortController();
    const settings = { messages, max_tokens: longTokens, logit_bias: endless };
    try {
      for await (const _ of client.chatCompletionStream(settings, { signal: control.signal })) control.abort();
    } catch (e) {
      if (e.name !== "AbortError") throw e;
    }
  }));

await run();
