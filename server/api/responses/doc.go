// Package responses serves OpenAI's Responses API: /v1/responses and what is below it.
//
// It is a translation: items become the messages that templates read, and the deltas
// of a reply become items and events again. A reply is built by one builder, streamed or
// not, in the foreground or behind it. What is to be kept of a response lies in a
// store.Store, under the key of its client.
//
// A handler reads a body into a call, looks up what it refers to, and starts a turn;
// a job is a turn that goes on behind its handler.
//
// The types of OpenAI's own packages are the specification. The reasons behind it:
// docs/rationale/server.md.
package responses
