// ai (the Vercel AI SDK) with the models of @ai-sdk/openai and of @ai-sdk/openai-compatible.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateObject, generateText, RetryError, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";

import { all, answer, check, endless, holds, key, keyedURL, longTokens, messages, question, raises, run, same, stops, url } from "./checks.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const openai = createOpenAI({ baseURL: url + "/v1", apiKey: "any" });
const compatible = createOpenAICompatible({
  name: "tgi", baseURL: url + "/v1", apiKey: "any", includeUsage: true, supportsStructuredOutputs: true,
});
const chats = { openai: openai.chat("tgi"), "openai-compatible": compatible.chatModel("tgi") };
const completions = { openai: openai.completion("tgi"), "openai-compatible": compatible.completionModel("tgi") };
const plain = { temperature: 0, maxRetries: 0 };
const drawn = { temperature: 1, maxOutputTokens: 400, maxRetries: 0 };
const place = z.object({
  name: z.string().max(20),
  kind: z.enum(["house", "mill", "boat"]),
  rooms: z.int().min(1).max(9),
});

for (const [name, model] of Object.entries(chats)) {
  check(`${name}: generateText`, async () => {
    const r = await generateText({ model, messages, ...plain });
    holds(r.text, answer);
    same([r.finishReason, r.usage.totalTokens], ["stop", r.usage.inputTokens + r.usage.outputTokens]);
    same(r.usage.outputTokens > 1, true);
    same((await generateText({ model, messages, ...plain, maxOutputTokens: 2 })).finishReason, "length");
    same((await generateText({ model, messages, ...plain, stopSequences: [answer] })).text.includes(answer), false);
  });

  check(`${name}: streamText`, async () => {
    const whole = await generateText({ model, messages, ...plain });
    const r = streamText({ model, messages, ...plain });
    same((await all(r.textStream)).join(""), whole.text);
    same(await r.finishReason, "stop");
    same((await r.usage).totalTokens, whole.usage.totalTokens);
  });

  check(`${name}: generateObject`, async () => {
    for (const seed of [0, 1, 2]) {
      place.parse((await generateObject({ model, schema: place, prompt: question, ...drawn, seed })).object);
    }
  });

  check(`${name}: streamObject`, async () => {
    const r = streamObject({ model, schema: place, prompt: question, ...drawn, seed: 3 });
    const parts = await all(r.partialObjectStream);
    place.parse(await r.object);
    same(parts.at(-1), await r.object);
  });

  check(`${name}: tools until a text, whole and streamed`, async () => {
    const asked = [];
    const settings = {
      model, ...plain, prompt: "What is the weather in Paris?", stopWhen: stepCountIs(4),
      tools: {
        get_weather: tool({
          description: "Get the weather of a city",
          inputSchema: z.object({ city: z.string() }),
          execute: ({ city }) => (asked.push(city), { city, weather: "sunny" }),
        }),
      },
    };
    const whole = await generateText(settings);
    holds(whole.text, "sunny");
    same(whole.steps.map((s) => s.finishReason), ["tool-calls", "stop"]);
    const streamed = streamText(settings);
    same((await all(streamed.textStream)).join(""), whole.text);
    same(asked, ["Paris", "Paris"]);
  });

  check(`${name}: toolChoice`, async () => {
    const tools = { save: tool({ inputSchema: place }) };
    for (const toolChoice of ["required", { type: "tool", toolName: "save" }]) {
      const r = await generateText({ model, prompt: question, tools, toolChoice, ...drawn, seed: 4 });
      place.parse(r.toolCalls[0].input);
    }
    holds((await generateText({ model, prompt: question, tools, toolChoice: "none", ...plain })).text, answer);
  });
}

async function completed(prompt) {
  const body = JSON.stringify({ prompt, temperature: 0, max_tokens: 40, stop: ["\nuser:"] });
  const reply = await fetch(url + "/v1/completions", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  return (await reply.json()).choices[0].text;
}

for (const [name, model] of Object.entries(completions)) {
  check(`${name}: completions, whole and streamed`, async () => {
    const settings = { model, prompt: question, ...plain, maxOutputTokens: 40 };
    const whole = await generateText(settings);
    same(whole.text, await completed(`user:\n${question}\n\nassistant:\n`)); // what both make of a prompt
    same(whole.usage.outputTokens > 1, true);
    same((await all(streamText(settings).textStream)).join(""), whole.text);
  });
}

check("errors have their status and the server's words", async () => {
  for (const model of Object.values(chats)) {
    const e = await raises(APICallError, () => generateText({ model, messages, ...plain, maxOutputTokens: 100000 }), "max");
    same([e.statusCode, e.isRetryable], [422, false]);
    let streamed;
    await streamText({ model, messages, ...plain, maxOutputTokens: 100000, onError: ({ error }) => (streamed = error) }).consumeStream();
    holds(streamed.message, "max");
  }
});

check("keys: the right and a wrong one", async () => {
  for (const create of [createOpenAI, createOpenAICompatible]) {
    const chat = (apiKey) => {
      const provider = create({ name: "tgi", baseURL: keyedURL + "/v1", apiKey });
      return generateText({ model: (provider.chat ?? provider.chatModel)("tgi"), messages, ...plain });
    };
    holds((await chat(key)).text, answer);
    same((await raises(APICallError, () => chat("wrong"))).statusCode, 401);
  }
});

check("overload: 429, and the client's own retries get through", async () => {
  const model = createOpenAI({ baseURL: keyedURL + "/v1", apiKey: key }).chat("tgi");
  const crowd = (maxRetries) =>
    Promise.allSettled(Array.from({ length: 8 }, () => generateText({
      model, messages, maxRetries, maxOutputTokens: 200, providerOptions: { openai: { logitBias: endless } },
    })));
  const refused = (await crowd(0)).filter((r) => r.status === "rejected");
  same([refused.length > 0, refused.every((r) => r.reason.statusCode === 429)], [true, true]);
  const failed = (await crowd(20)).filter((r) => r.status === "rejected");
  same(failed.map((r) => RetryError.isInstance(r.reason) ? r.reason.lastError.message : r.reason.message), []);
});

check("leaving a stream ends its request", () =>
  stops(async () => {
    const control = new AbortController();
    const r = streamText({
      model: chats.openai, messages, maxRetries: 0, maxOutputTokens: longTokens, abortSignal: control.signal,
      providerOptions: { openai: { logitBias: endless } }, onError: () => {},
    });
    for await (const _ of r.textStream) {
      control.abort();
      break;
    }
  }));

await run();
