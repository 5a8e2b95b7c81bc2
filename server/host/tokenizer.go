package host

import (
	"encoding/json"

	"tgi/plugins"
	"tgi/server/host/bridge"
)

// Tokenizer reads the tokenizer of the model in a folder, of the demo model for "", as plugins see it, and what
// templates find of the model in their configuration. Weights are not read.
func Tokenizer(path string) (v plugins.Vocabulary, model []byte, err error) {
	source, err := describe(path)
	if err != nil {
		return nil, nil, err
	}
	in := &instance{}
	if err := in.loadTokenizer(source.desc); err != nil {
		return nil, nil, err
	}
	own, err := source.templates()
	if err != nil {
		return nil, nil, err
	}
	model, err = json.Marshal(map[string]any{"name": source.name, "tokens": own.Tokens, "templates": own.ChatTemplates})
	size := max(in.tokenizer.VocabSize(), source.desc.Config.Vocab)
	return bridge.Vocabulary(in.tokenizer, size, eosOf(source.desc, in.tokenizer)), model, err
}
