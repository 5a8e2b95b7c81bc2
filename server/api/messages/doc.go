// Package messages serves Anthropic's API: POST /v1/messages and /v1/messages/count_tokens.
//
// It is a translation: blocks become the messages that templates read, in which
// calls and their results have OpenAI's shape, and the deltas of a reply become
// blocks again. A reply is built by one builder, streamed or not.
//
// The types of Anthropic's own packages are the specification. The reasons behind it:
// docs/rationale/server.md.
package messages
