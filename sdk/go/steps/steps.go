// Package steps is for plugins that follow a grammar themselves: at each step they
// compute which tokens are allowed next. Use it only for grammars that the server's
// own form cannot express. For all others use package grammar: the server runs
// a compiled grammar much faster.
//
//	func init() {
//		plugin.Describe(plugin.Info{Name: "equal-runs", Version: "1.0.0"})
//		steps.Register([]string{"equal-runs"}, func(config []byte) (steps.Plugin, error) { return runs{}, nil })
//	}
//
//	func main() {}
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory. Each text has a [Sequence], which starts with the
// memory of the snapshot.
package steps

import (
	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/internal/source"
	"tgi/sdk/go/plugin"
)

// Request is the grammar of a request.
type Request = source.Request

// Plugin starts texts. The function given to [Register] makes it. A plugin that
// accepts parameters also has a method Validate(params []byte) error; Request has
// them again. Without this method, requests that have parameters are refused.
type Plugin interface {
	// Begin starts a text. An error refuses the request, and the client gets
	// its text.
	Begin(r Request) (Sequence, error)
}

// Sequence is one text.
type Sequence interface {
	// Accept moves past a token. It returns an error if the token is not allowed
	// here. The error ends the sequence.
	Accept(token uint32) error
	// Mask allows the tokens that may come next. Where the text may end, it must
	// also allow the tokens that end it. Mask must not change the state.
	Mask(m *Mask)
}

// Keyed is an optional interface of a Sequence whose states have keys: the server
// then asks for the mask of each key only once.
type Keyed interface {
	// Key returns the key of the state, or 0 for none. States of one request with
	// the same key must allow the same tokens.
	Key() uint64
}

// Forcing is an optional interface of a Sequence that sometimes allows only one continuation.
type Forcing interface {
	// Forced returns the tokens that must come next, at most abi.MaxForced, or none
	// where there is a choice. The server passes them to Accept like other tokens.
	Forced() []uint32
}

// Mask is the set of tokens that may come next. It is empty at first.
type Mask struct {
	words []uint32
	all   bool
}

// Allow allows a token. It ignores a token that is not in the vocabulary.
func (m *Mask) Allow(token uint32) {
	if uint64(token) < uint64(plugin.VocabSize()) {
		m.words[token/32] |= 1 << (token % 32)
	}
}

// AllowWords allows the tokens whose bits are set in words: bit t%32 of word t/32
// is token t.
func (m *Mask) AllowWords(words []uint32) {
	for i := range min(len(words), len(m.words)) {
		m.words[i] |= words[i]
	}
}

// AllowAll allows every token, including special tokens.
func (m *Mask) AllowAll() { m.all = true }

// Allowed reports whether a token is allowed.
func (m *Mask) Allowed(token uint32) bool {
	return m.all || int(token/32) < len(m.words) && m.words[token/32]&(1<<(token%32)) != 0
}

// NewMask returns an empty mask of the size of the vocabulary, for tests.
func NewMask() *Mask { return &Mask{words: make([]uint32, abi.MaskWords(plugin.VocabSize()))} }

// Register makes the guest a grammar plugin that computes masks, for sources in these
// languages. Call it from an init function. The server calls open once with the JSON
// object of the configuration. open must not keep it. An error refuses the plugin.
func Register(languages []string, open func(config []byte) (Plugin, error)) {
	registry.Add(registry.Kind{Name: abi.KindGrammar, Modes: []string{abi.NameSteps}, Languages: languages,
		Init: func(config []byte) (err error) {
			current, err = open(config)
			return err
		},
		Begin: func(params []byte, _ []uint32) error { return registry.Validate(current, params) },
	})
}

// current and sequence are the state of this instance: one plugin, one text.
var (
	current  Plugin
	sequence Sequence
)

// begin serves one call of the host.
func begin(request []byte) error {
	r, err := source.Read(request)
	if err == nil {
		sequence, err = current.Begin(r)
	}
	return err
}

// accept moves past tokens. It returns false if one is not allowed.
func accept(tokens []uint32) bool {
	for _, t := range tokens {
		if err := sequence.Accept(t); err != nil {
			plugin.Error(err.Error())
			return false
		}
	}
	return true
}

// mask fills words with the allowed tokens and returns the status.
func mask(words []uint32) uint32 {
	clear(words)
	m := Mask{words: words}
	if sequence.Mask(&m); m.all {
		return abi.MaskAll
	}
	return abi.StatusOK
}

// key returns the key of the state, or 0.
func key() uint64 {
	if k, ok := sequence.(Keyed); ok {
		return k.Key()
	}
	return 0
}

// forced returns the tokens that must come next, or nil.
func forced() []uint32 {
	if f, ok := sequence.(Forcing); ok {
		return f.Forced()
	}
	return nil
}
