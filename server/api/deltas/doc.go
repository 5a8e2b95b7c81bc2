// Package deltas turns the events of a sequence into what the replies of OpenAI's and
// Anthropic's routes show of it: deltas of content, reasoning and calls, the tokens that
// they are made of, and the texts of custom tools.
package deltas
