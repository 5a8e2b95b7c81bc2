// openai's responses and @anthropic-ai/sdk's messages: whole, streamed, in the background, loops of tool calls; the AI
// SDK's default model, which speaks to /v1/responses.

import Anthropic from "@anthropic-ai/sdk";
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

import { all, answer, check, endless, holds, key, keyedURL, longTokens, messages, question, raises, run, same, stops, url } from "./checks.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const openai = new OpenAI({ baseURL: url + "/v1", apiKey: "any", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey: "any", maxRetries: 0 });
const model = createOpenAI({ baseURL: url + "/v1", apiKey: "any" })("tgi");
const asked = { model: "tgi", input: question, temperature: 0 };
const weather = {
  type: "function", name: "get_weather", description: "Get the weather of a city", strict: true,
  parameters: { type: "object", properties: { city: { type: "string", enum: ["Paris"] } }, required: ["city"], additionalProperties: false },
};

check("openai: create and retrieve", async () => {
  const r = await openai.responses.create(asked);
  holds(r.output_text, answer);
  same(r.status, "completed");
  same((await openai.responses.retrieve(r.id)).output_text, r.output_text);
  const items = await openai.responses.inputItems.list(r.id);
  same(items.data[0].content[0].text, question);
  await openai.responses.delete(r.id);
  const e = await raises(OpenAI.NotFoundError, () => openai.responses.retrieve(r.id));
  same(e.status, 404);
});

check("openai: stream", async () => {
  const whole = await openai.responses.create(asked);
  let text = "";
  const numbers = [];
  for await (const e of await openai.responses.create({ ...asked, stream: true })) {
    numbers.push(e.sequence_number);
    if (e.type === "response.output_text.delta") text += e.delta;
  }
  same(text, whole.output_text);
  same(numbers, numbers.map((_, i) => i));
  const s = openai.responses.stream(asked);
  same((await s.finalResponse()).output_text, text);
});

check("openai: a call and its result", async () => {
  const r = await openai.responses.create({ ...asked, tools: [weather], tool_choice: "required" });
  const call = r.output.find((i) => i.type === "function_call");
  same([call.name, JSON.parse(call.arguments)], ["get_weather", { city: "Paris" }]);
  const next = await openai.responses.create({
    ...asked, previous_response_id: r.id, tools: [weather], max_output_tokens: 20,
    input: [{ type: "function_call_output", call_id: call.call_id, output: "Sunny" }],
  });
  same(["completed", "incomplete"].includes(next.status), true);
});

check("openai: background, resumed and cancelled", async () => {
  const seen = [];
  for await (const e of await openai.responses.create({ ...asked, background: true, stream: true })) {
    seen.push(e);
    if (seen.length === 4) break;
  }
  const id = seen[0].response.id;
  for await (const e of await openai.responses.retrieve(id, { stream: true, starting_after: seen.at(-1).sequence_number })) seen.push(e);
  same(seen.map((e) => e.sequence_number), seen.map((_, i) => i));
  holds(seen.at(-1).response.output[0].content[0].text, answer);
  const long = await openai.responses.create({ ...asked, background: true, max_output_tokens: longTokens, logit_bias: endless });
  same((await openai.responses.cancel(long.id)).status, "cancelled");
});

check("anthropic: create, count and errors", async () => {
  const m = await anthropic.messages.create({ model: "tgi", max_tokens: 60, messages });
  same([m.role, m.type], ["assistant", "message"]);
  const n = await anthropic.messages.countTokens({ model: "tgi", messages });
  same(n.input_tokens, m.usage.input_tokens + m.usage.cache_read_input_tokens);
  const e = await raises(Anthropic.BadRequestError, () => anthropic.messages.create({ model: "tgi", max_tokens: 0, messages }));
  same([e.status, e.error.error.type], [400, "invalid_request_error"]);
  const keyed = new Anthropic({ baseURL: keyedURL, apiKey: key, maxRetries: 0 });
  same((await keyed.messages.create({ model: "tgi", max_tokens: 2, messages })).usage.output_tokens > 0, true);
  const wrong = new Anthropic({ baseURL: keyedURL, apiKey: "x", maxRetries: 0 });
  await raises(Anthropic.AuthenticationError, () => wrong.messages.create({ model: "tgi", max_tokens: 2, messages }));
});

check("anthropic: a streaming loop of tool calls", async () => {
  const tools = [{ name: weather.name, description: weather.description, input_schema: weather.parameters }];
  const said = [{ role: "user", content: "What is the weather in Paris?" }];
  const s = anthropic.messages.stream({ model: "tgi", max_tokens: 100, messages: said, tools, tool_choice: { type: "any" } });
  const partial = [];
  s.on("inputJson", (json) => partial.push(json));
  const m = await s.finalMessage();
  same(m.stop_reason, "tool_use");
  const call = m.content.find((b) => b.type === "tool_use");
  same(JSON.parse(partial.join("")), call.input);
  said.push({ role: "assistant", content: m.content }, { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "Sunny" }] });
  same((await anthropic.messages.create({ model: "tgi", max_tokens: 20, messages: said, tools })).usage.output_tokens > 0, true);
});

check("ai: the default model, whole and streamed", async () => {
  const r = await generateText({ model, messages, temperature: 0, maxRetries: 0 });
  holds(r.text, answer);
  same(r.finishReason, "stop");
  const s = streamText({ model, messages, temperature: 0, maxRetries: 0 });
  same((await all(s.textStream)).join(""), r.text);
  same((await s.usage).outputTokens > 1, true);
});

check("ai: the default model, turns by reference and tools", async () => {
  const first = await generateText({ model, messages, temperature: 0, maxRetries: 0 });
  const more = [...messages, ...first.response.messages, { role: "user", content: "Why?" }];
  same((await generateText({ model, messages: more, maxOutputTokens: 20, maxRetries: 0 })).usage.inputTokens > 10, true);
  let asks = 0;
  const r = await generateText({
    model, prompt: "What is the weather in Paris?", temperature: 0, maxRetries: 0, stopWhen: stepCountIs(2),
    tools: { get_weather: tool({ description: "Get the weather of a city", inputSchema: z.object({ city: z.string() }), execute: async () => { asks++; return "Sunny"; } }) },
  });
  same([asks, r.steps.length], [1, 2]);
});

check("ai: the default model, an object", async () => {
  const { object } = await generateObject({ model, schema: z.object({ old: z.boolean() }), prompt: question, temperature: 0, maxRetries: 0 });
  same(typeof object.old, "boolean");
});

check("leaving a stream ends it", async () => {
  await stops(async () => {
    const s = await anthropic.messages.create({ model: "tgi", max_tokens: longTokens, messages, stream: true, logit_bias: endless });
    for await (const _ of s) break;
  });
});

run();
