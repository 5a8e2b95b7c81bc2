// Package steps is the kind of plugin that follows a grammar itself: at each step
// it says which tokens may come next. It is for what no grammar of the server's
// form can express; whatever one can is compiled by a plugin of package grammar,
// and much faster.
//
//	func init() {
//		plugin.Describe(plugin.Info{Name: "equal-runs", Version: "1.0.0"})
//		steps.Register([]string{"equal-runs"}, func(config []byte) (steps.Plugin, error) { return runs{}, nil })
//	}
//
//	func main() {}
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory. Each text has a [Sequence] in memory that is as
// it was in the snapshot.
package steps

import (
	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/internal/source"
	"tgi/sdk/go/plugin"
)

// Request is a grammar that a request brings.
type Request = source.Request

// Plugin is what the function given to [Register] makes. One that takes
// parameters of requests has a method Validate(params []byte) error too; they
// come again in the request. Without it a request that has any is refused.
type Plugin interface {
	// Begin begins a text. An error refuses the request, and its text goes to
	// the client.
	Begin(r Request) (Sequence, error)
}

// Sequence is one text.
type Sequence interface {
	// Accept moves on by a token. An error, of a token that may not come here,
	// ends the sequence.
	Accept(token uint32) error
	// Mask allows the tokens that may come next: those that end the text are to
	// be among them where it may end. Asking changes nothing.
	Mask(m *Mask)
}

// Keyed is a Sequence that has names for its states: the server then asks once
// for the mask of each.
type Keyed interface {
	// Key names the state, 0 for none: states of the same request with the same
	// key allow the same tokens.
	Key() uint64
}

// Forcing is a Sequence that knows at times what must come next.
type Forcing interface {
	// Forced returns the tokens that come next whatever the model says, at most
	// abi.MaxForced; none where there is a choice. They are accepted like others.
	Forced() []uint32
}

// Mask is which tokens may come next: none at first.
type Mask struct {
	words []uint32
	all   bool
}

// Allow lets a token come. One that the vocabulary does not have is passed over.
func (m *Mask) Allow(token uint32) {
	if uint64(token) < uint64(plugin.VocabSize()) {
		m.words[token/32] |= 1 << (token % 32)
	}
}

// AllowWords lets the tokens come whose bits are set, in a mask made before: bit
// t%32 of word t/32 is token t.
func (m *Mask) AllowWords(words []uint32) {
	for i := range min(len(words), len(m.words)) {
		m.words[i] |= words[i]
	}
}

// AllowAll lets every token come, special ones among them.
func (m *Mask) AllowAll() { m.all = true }

// Allowed returns whether a token may come.
func (m *Mask) Allowed(token uint32) bool {
	return m.all || int(token/32) < len(m.words) && m.words[token/32]&(1<<(token%32)) != 0
}

// NewMask is for tests: a mask of the vocabulary, which allows nothing.
func NewMask() *Mask { return &Mask{words: make([]uint32, abi.MaskWords(plugin.VocabSize()))} }

// Register makes the guest a grammar plugin that computes masks, for sources in the
// languages. Call it from an init function; open gets the JSON object of the
// plugin's configuration, which it may not keep. An error refuses the plugin.
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

// begin is one call.
func begin(request []byte) error {
	r, err := source.Read(request)
	if err == nil {
		sequence, err = current.Begin(r)
	}
	return err
}

// accept moves on by tokens; false says that one may not come.
func accept(tokens []uint32) bool {
	for _, t := range tokens {
		if err := sequence.Accept(t); err != nil {
			plugin.Error(err.Error())
			return false
		}
	}
	return true
}

// mask fills words and returns the status.
func mask(words []uint32) uint32 {
	clear(words)
	m := Mask{words: words}
	if sequence.Mask(&m); m.all {
		return abi.MaskAll
	}
	return abi.StatusOK
}

// key names the state.
func key() uint64 {
	if k, ok := sequence.(Keyed); ok {
		return k.Key()
	}
	return 0
}

// forced is what must come next.
func forced() []uint32 {
	if f, ok := sequence.(Forcing); ok {
		return f.Forced()
	}
	return nil
}
