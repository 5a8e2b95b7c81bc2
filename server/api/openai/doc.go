// Package openai speaks OpenAI's chat completions, completions and models, as
// OpenAI's own clients need them and as those of text-generation-inference know
// them: where the two differ, package dialect has the column of each.
//
// A handler decodes a body into a call, starts a generate.Run for each prompt,
// and feeds the events of all of them to one choice per sequence, whether the
// reply is streamed or not: both are made of the same pieces. Messages and tools
// reach the template as the client's JSON, except what message.go and tools.go
// bring into one form.
//
// The reasons behind it: docs/rationale/server.md.
package openai
