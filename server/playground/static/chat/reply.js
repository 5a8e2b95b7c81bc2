// A reply while it comes.
import {events} from './stream.js';

// newReply is a reply that has not begun.
export function newReply() {
  return {role: 'assistant', text: '', reasoning: '', calls: [], tokens: [], busy: true};
}

// receive sends body and fills reply with what comes, calling changed after each event. It throws what went wrong.
export async function receive(app, body, reply, signal, changed) {
  const began = performance.now();
  const streamed = {...body, stream: true, stream_options: {include_usage: true}};
  const response = await app.request('/v1/chat/completions', {json: streamed, signal});
  const skipped = response.headers.get('X-Plugin-Skipped'), ignored = response.headers.get('X-Ignored-Fields');
  if (skipped) reply.notes = [...reply.notes ?? [], `Went on without the plugin ${skipped}.`];
  if (ignored) reply.notes = [...reply.notes ?? [], `The server ignored what it does not know: ${ignored}.`];
  for await (const data of events(response)) {
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(app.errorText(chunk) || 'The reply broke off.');
    if (chunk.choices?.[0]) {
      reply.first ??= performance.now() - began;
      add(reply, chunk.choices[0]);
    }
    if (chunk.usage) reply.usage = {prompt: chunk.usage.prompt_tokens, reply: chunk.usage.completion_tokens};
    if (chunk.grammar_dropped?.length) {
      reply.notes = [...reply.notes ?? [], `Not enforced: ${JSON.stringify(chunk.grammar_dropped)}`];
    }
    reply.time = performance.now() - began;
    changed();
  }
  if (!reply.finish) throw new Error('The reply broke off.');
}

// add adds what an event has to a reply.
function add(reply, choice) {
  const delta = choice.delta ?? {};
  reply.text += delta.content ?? '';
  reply.reasoning += delta.reasoning_content ?? delta.reasoning ?? '';
  for (const part of [delta.tool_calls ?? []].flat()) {
    const call = reply.calls[part.index ?? 0] ??= {id: '', name: '', args: ''};
    call.id ||= part.id ?? '';
    call.name += part.function?.name ?? '';
    const args = part.function?.arguments ?? '';
    call.args += typeof args === 'string' ? args : JSON.stringify(args);
  }
  if (Array.isArray(choice.explain)) reply.tokens.push(...choice.explain);
  if (choice.finish_reason) reply.finish = choice.finish_reason;
  if (choice.stop_reason) reply.stopped = choice.stop_reason;
}

// ended says in words how a reply ended, and how fast.
export function ended(reply) {
  const parts = [];
  const why = {length: 'ended by the length limit', tool_calls: 'asks for tools', content_filter: 'ended by a filter'};
  if (reply.aborted) parts.push('stopped');
  else if (why[reply.finish]) parts.push(why[reply.finish]);
  if (typeof reply.stopped === 'string' && reply.stopped.startsWith('plugin:')) {
    parts.push(`ended by the plugin ${reply.stopped.slice('plugin:'.length)}`);
  }
  if (reply.usage) {
    parts.push(`${reply.usage.reply} tokens`);
    if (reply.time > 0) parts.push(`${(1000 * reply.usage.reply / reply.time).toFixed(0)} tokens/s`);
    if (reply.first !== undefined) parts.push(`first after ${reply.first.toFixed(0)} ms`);
  }
  return parts.join(' · ');
}
