// Package chat is a conversation in a terminal: the client of OpenAI's chat
// stream, the state of the conversation and the commands that change it. It
// owns what is printed and what is read; it knows the server by its URL alone,
// which may be a handler in the same process (Inside). Nothing that a model asks
// for is ever run: the user types in the results of its calls.
//
// The reasons behind it: docs/rationale/chat.md.
package chat
