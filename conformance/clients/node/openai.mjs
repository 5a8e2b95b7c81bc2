// openai: chat, completions, models, errors, leaving a stream.

import OpenAI from "openai";

import { all, answer, check, dialects, endless, holds, key, keyedURL, longTokens, messages, prompt, raises, run, same, stops, url } from "./checks.mjs";

const client = new OpenAI({ baseURL: url + "/v1", apiKey: "any" });
const keyed = new OpenAI({ baseURL: keyedURL + "/v1", apiKey: key });
const chat = (settings, c = client, options) =>
  c.chat.completions.create({ model: "tgi", messages, temperature: 0, ...settings }, options);
const text = (chunks) => chunks.map((c) => c.choices[0]?.delta.content ?? "").join("");

check("chat", async () => {
  const r = await chat();
  holds(r.choices[0].message.content, answer);
  same([r.object, r.choices[0].message.role, r.choices[0].finish_reason], ["chat.completion", "assistant", "stop"]);
  same(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
});

check("chat: stream", async () => {
  const whole = await chat();
  const chunks = await all(await chat({ stream: true }));
  same(chunks[0].choices[0].delta.role, "assistant");
  same(text(chunks), whole.choices[0].message.content);
  same(chunks.map((c) => c.choices[0].finish_reason).filter(Boolean), ["stop"]);
});

check("chat: usage at the end of a stream", async () => {
  const whole = await chat();
  const chunks = await all(await chat({ stream: true, stream_options: { include_usage: true } }));
  same(chunks.at(-1).choices, []);
  same(chunks.at(-1).usage, whole.usage);
});

check("chat: stream helper", async () => {
  const stream = client.chat.completions.stream({ model: "tgi", messages, temperature: 0 });
  let heard = "";
  stream.on("content", (delta) => (heard += delta));
  holds(await stream.finalContent(), answer);
  same(heard, await stream.finalContent());
});

check("chat: n choices, logprobs, stop, logit_bias", async () => {
  const r = await chat({ n: 2, temperature: 1, seed: 7, max_tokens: 5, logprobs: true, top_logprobs: 2 });
  same(r.choices.map((c) => c.index), [0, 1]);
  same(r.choices.map((c) => c.logprobs.content.length), [5, 5]);
  const stopped = await chat({ stop: answer });
  same(stopped.choices[0].message.content.includes(answer), false);
  same(stopped.choices[0].finish_reason, "stop");
  same((await chat({ logit_bias: { 2: 100 } })).choices[0].message.content, "");
});

const tool = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const ask = [{ role: "user", content: "What is the weather in Paris?" }];

check("tools: a call and its result", async () => {
  const { finish_reason, message } = (await chat({ messages: ask, tools: [tool] })).choices[0];
  same([finish_reason, message.content, message.tool_calls.length], ["tool_calls", null, 1]);
  const call = message.tool_calls[0];
  same([call.type, call.function.name, JSON.parse(call.function.arguments)], ["function", "get_weather", { city: "Paris" }]);
  const result = { role: "tool", tool_call_id: call.id, content: '{"city": "Paris", "weather": "sunny"}' };
  holds((await chat({ messages: [...ask, message, result], tools: [tool] })).choices[0].message.content, "sunny");
});

check("tools: the client runs them", async () => {
  const asked = [];
  const runner = client.chat.completions.runTools({
    model: "tgi", messages: ask, temperature: 0, stream: true,
    tools: [{ type: "function", function: { ...tool.function, parse: JSON.parse, function: ({ city }) => (asked.push(city), { city, weather: "sunny" }) } }],
  });
  holds(await runner.finalContent(), "sunny");
  same(asked, ["Paris"]);
});

check("completions", async () => {
  const r = await client.completions.create({ model: "tgi", prompt, temperature: 0, max_tokens: 50 });
  holds(r.choices[0].text, answer);
  const chunks = await all(await client.completions.create({ model: "tgi", prompt, temperature: 0, max_tokens: 50, stream: true }));
  same(chunks.map((c) => c.choices[0]?.text ?? "").join(""), r.choices[0].text);
});

check("models", async () => {
  const models = await all(client.models.list());
  same([...new Set(models.map((m) => m.object))], ["model"]);
  same(models[0].id, (await client.models.retrieve("tgi")).id); // the default one is first
  for (const m of models) same((await client.models.retrieve(m.id)).id, m.id);
});

check("errors", async () => {
  const e = await raises(OpenAI.UnprocessableEntityError, () => chat({ max_tokens: 100000 }), "max");
  same(e.status, 422);
  await raises(OpenAI.APIError, async () => all(await chat({ max_tokens: 100000, stream: true })), "max");
  await raises(OpenAI.NotFoundError, () => client.models.retrieve("no-such-model"));
});

check("every dialect", async () => {
  for (const dialect of dialects) {
    const options = { headers: { "X-TGI-Dialect": dialect } };
    const whole = (await chat({ max_tokens: 50 }, client, options)).choices[0].message.content;
    holds(whole, answer);
    same(text(await all(await chat({ max_tokens: 50, stream: true }, client, options))), whole);
  }
});

check("keys: the right and a wrong one", async () => {
  holds((await chat({}, keyed)).choices[0].message.content, answer);
  await raises(OpenAI.AuthenticationError, () => chat({}, keyed.withOptions({ apiKey: "wrong" })));
});

check("overload: 429, and the client's own retries get through", async () => {
  const crowd = (maxRetries) =>
    Promise.allSettled(Array.from({ length: 8 }, () => chat({ max_tokens: 200, logit_bias: endless }, keyed, { maxRetries })));
  const refused = (await crowd(0)).filter((r) => r.status === "rejected");
  same([refused.length > 0, refused.every((r) => r.reason instanceof OpenAI.RateLimitError)], [true, true]);
  same((await crowd(20)).filter((r) => r.status === "rejected").length, 0);
});

check("leaving a stream ends its request", () =>
  stops(async () => {
    for await (const _ of await chat({ stream: true, max_tokens: longTokens, logit_bias: endless })) break;
  }));

check("aborting a whole reply ends its request", () =>
  stops(async () => {
    const control = new AbortController();
    setTimeout(() => control.abort(), 50);
    await raises(OpenAI.APIUserAbortError, () => chat({ max_tokens: longTokens, logit_bias: endless }, client, { signal: control.signal }));
  }));

await run();
