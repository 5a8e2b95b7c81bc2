// Package generate owns one request's life between a dialect and the engine:
//
//	Draft -> permit -> check -> tokenize -> Request -> submit -> events -> Result
//
// A conversation takes a way around: its template and its parser of replies are
// bound first, then it is rendered to be the prompt, and its events become deltas
// of content, reasoning and tool calls.
//
//	Conversation -> bind -> render -> check -> tokenize -> ... -> events -> Reply -> deltas
//
// It knows neither HTTP nor tensors. A dialect fills a Draft, calls
// Service.Start and reads the Run; the engine, the tokenizer, the template and the
// parser are interfaces declared here.
//
// The reasons behind it: docs/rationale/server.md.
package generate
