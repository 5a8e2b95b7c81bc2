// Package toolcalls turns what a model writes into events: content, reasoning, and tool calls with their arguments as
// JSON. It owns the formats in which models write calls (Format, and the presets by name), finding the format of a
// model from its chat template (Detect), and the incremental parser (Parser).
//
// One code path serves streaming and not, and the pieces in which the text arrives do not matter: any split of the same
// text gives the same events, except for where the texts inside them are cut. Special tokens are given as their text.
//
// The package uses the standard library only, starts no goroutines and holds a bounded amount of text, so that it can
// run inside a guest. Nothing in it is safe for concurrent use, except reading a Format.
package toolcalls
