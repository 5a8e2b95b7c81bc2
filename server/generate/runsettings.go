package generate

import (
	"bytes"
	"encoding/json"
	"slices"

	"tgi/runtime/llm"
	"tgi/sdk/abi"
	"tgi/server/wire"
)

// runSettings are those of one run of a context.
type runSettings struct {
	params  llm.Params
	grammar *Grammar
	calls   bool // held to what holds the request's calls; there is no grammar then
	from    int  // the first token that the grammar holds for too; -1 for the first new one
	plugins []PluginCall
	deny    []llm.Token // that the first one must not be
	emit    bool
}

// runJSON is what a program writes.
type runJSON struct {
	MaxTokens   *int            `json:"max_tokens"`
	Temperature *float32        `json:"temperature"`
	TopP        *float32        `json:"top_p"`
	TopK        *int            `json:"top_k"`
	MinP        *float32        `json:"min_p"`
	Stop        *[]string       `json:"stop"`
	Grammar     json.RawMessage `json:"grammar"`
	GrammarFrom *int            `json:"grammar_from"`
	Plugins     *[]callJSON     `json:"plugins"`
	Deny        []int64         `json:"deny"`
	Emit        bool            `json:"emit"`
}

type callJSON struct {
	Name   string          `json:"name"`
	Params json.RawMessage `json:"params"`
}

// maxRunSettings bounds the settings of a run, in bytes.
const maxRunSettings = 1 << 20

// readSettings reads the settings of a run; what they leave out is the request's.
func (h *Contexts) readSettings(text []byte) (set runSettings, err error) {
	set = runSettings{params: h.params, from: -1, plugins: h.bound.Calls()}
	if set.calls = h.run.calls != callsFree; !set.calls {
		set.grammar = h.draft.Grammar
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return set, nil
	}
	var j runJSON
	if err := decode("settings", text, &j); err != nil {
		return set, err
	}
	p := &set.params
	if j.MaxTokens != nil {
		p.MaxNewTokens = *j.MaxTokens
	}
	if j.Temperature != nil {
		if p.Sample, p.Temperature = *j.Temperature != 0, *j.Temperature; !p.Sample {
			p.Temperature = 1
		}
	}
	if j.TopP != nil {
		p.TopP = *j.TopP
	}
	if j.TopK != nil {
		p.TopK = *j.TopK
	}
	if j.MinP != nil {
		p.MinP = *j.MinP
	}
	if j.Stop != nil {
		p.Stop = *j.Stop
	}
	switch limits := &h.service.limits; {
	case p.MaxNewTokens < 1:
		return set, argument("max_tokens must be at least 1, given %d", p.MaxNewTokens)
	case !(p.Temperature > 0 && p.Temperature < 1e9):
		return set, argument("temperature must be from 0 to 1e9, given %v", p.Temperature)
	case !(p.TopP > 0 && p.TopP <= 1):
		return set, argument("top_p must be above 0 and at most 1, given %v", p.TopP)
	case p.TopK < 0:
		return set, argument("top_k must be at least 0, given %d", p.TopK)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return set, argument("min_p must be from 0 to 1, given %v", p.MinP)
	case len(p.Stop) > limits.MaxStop:
		return set, argument("stop has %d texts, at most %d are allowed", len(p.Stop), limits.MaxStop)
	case slices.Contains(p.Stop, ""):
		return set, argument("stop holds an empty text")
	}
	if j.Grammar != nil {
		if set.grammar, err = readGrammar(j.Grammar); err != nil {
			return set, err
		}
		set.calls = set.grammar == nil && h.run.calls == callsInside // which leaves the text free
	}
	if j.GrammarFrom != nil {
		if set.from = *j.GrammarFrom; set.grammar == nil && !(set.calls && h.run.calls == callsWhole) {
			return set, argument("grammar_from without a grammar")
		}
	} else {
		set.from = -1
	}
	if j.Plugins != nil {
		set.plugins = nil
		for _, c := range *j.Plugins {
			set.plugins = append(set.plugins, PluginCall{Name: c.Name, Params: c.Params})
		}
	}
	set.emit = j.Emit
	set.deny, err = h.readDeny(j.Deny)
	return set, err
}

// readDeny checks the tokens that a run is denied.
func (h *Contexts) readDeny(list []int64) (deny []llm.Token, err error) {
	if len(list) > abi.MaxDenied {
		return nil, argument("deny has %d tokens, at most %d are allowed", len(list), abi.MaxDenied)
	}
	for i, id := range list {
		if vocab := h.service.limits.Vocab; id < 0 || id >= int64(vocab) {
			return nil, argument("deny[%d] is %d, the vocabulary has %d tokens", i, id, vocab)
		}
		deny = append(deny, llm.Token(id))
	}
	return deny, nil
}

// readGrammar reads a grammar as a program writes it; null is none.
func readGrammar(text []byte) (*Grammar, error) {
	var j *struct {
		Language string          `json:"language"`
		Source   string          `json:"source"`
		Plugin   string          `json:"plugin"`
		Params   json.RawMessage `json:"params"`
	}
	if err := decode("grammar", text, &j); err != nil || j == nil {
		return nil, err
	}
	return &Grammar{Field: "grammar", Plugin: j.Plugin, Language: j.Language, Source: []byte(j.Source),
		Params: j.Params}, nil
}

// decode reads a JSON object of a program, in which every member must be known.
func decode(what string, text []byte, to any) error {
	if len(text) > maxRunSettings {
		return argument("%s of %d bytes, at most %d are allowed", what, len(text), maxRunSettings)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return refused(abi.ProgramArgument, "%s: %v", what, wire.Told(err))
	}
	return nil
}
