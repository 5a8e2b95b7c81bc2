// Package hf reads the JSON side of a Hugging Face model folder and turns it
// into one normalised description: config.json into Config, where every
// default is filled in and every architecture's names for a thing have become
// one, generation_config.json, tokenizer_config.json with the tokens' texts of
// special_tokens_map.json, and the chat templates from every file that may hold
// one.
//
// # Keys of config.json
//
// A key of config.json is in one of four lists. Keys that are read decide the
// graph. Keys that are refused change the numbers in a way that the graph
// builder does not know; they fail unless their value is the neutral one.
// Ignored keys have no effect on inference, nor have those that begin with an
// underscore, which transformers keeps for its own books. All other keys are unknown: an
// unknown key passes when its value cannot carry a numeric setting (null,
// false, a string, an empty list or object) and fails otherwise, because a
// model that quietly computes something else is worse than one that does not
// start.
//
// The reasons behind it: docs/rationale/models.md.
package hf

import "errors"

// ErrConfig is wrapped by every error about the content of a JSON file; the
// text names file, key, bound and value.
var ErrConfig = errors.New("unusable model configuration")
