// Package hf reads the JSON files and chat templates of a Hugging Face model folder into one
// normalised description: config.json becomes Config, with all defaults filled in and the same
// names for all architectures. It also reads generation_config.json, tokenizer_config.json with
// special_tokens_map.json, and the chat templates from every file that may hold one. It starts no
// goroutines.
//
// # Architectures
//
// families has an entry for each class: how its config.json is read, and where its tensors are. What the class computes
// is in Config, in terms that all classes share; package decoder makes a graph of it.
//
// # Keys of config.json
//
// A key of config.json is of one of four kinds. Keys that are read determine the graph. Refused
// keys change the computation in an unsupported way; they fail unless their value is neutral.
// Ignored keys, and those that begin with an underscore (internal to transformers), have no effect
// on inference. All other keys are unknown: an unknown key is accepted if its value cannot carry a
// numeric setting (null, false, a string, an empty list or object) and fails otherwise, because a
// model that silently computes something else is worse than one that does not start.
//
// The reasons behind it: docs/rationale/models.md.
package hf

import "errors"

// ErrConfig is wrapped by every error about the content of a JSON file; the
// text names file, key, bound and value.
var ErrConfig = errors.New("unusable model configuration")
