package generate

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"tgi/runtime/sample"
	"tgi/server/wire"
)

// Languages of grammars that routes know by name. Which of them can be compiled,
// and which others, is for the installed plugins to say.
const (
	// JSONSchema is a JSON Schema, as JSON.
	JSONSchema = "json_schema"
	// JSONObject is any JSON object; its source is empty.
	JSONObject = "json_object"
	// Regex is a regular expression that the whole text matches.
	Regex = "regex"
	// Choice is a JSON array of texts, one of which is the whole text.
	Choice = "choice"
	// GBNF and Lark are grammars in the notations of llama.cpp and of Lark.
	GBNF = "gbnf"
	Lark = "lark"
	// StructuralTag is XGrammar's description of free text with parts that are held
	// to a grammar, as JSON.
	StructuralTag = "structural_tag"
)

// Grammar is what every text of a reply is held to.
type Grammar struct {
	// Field is where the client wrote it, for messages.
	Field string
	// Plugin is the one that compiles it; empty for the first that knows Language.
	Plugin string
	// Language of Source; empty for Plugin's own.
	Language string
	// Source is the grammar, UTF-8.
	Source []byte
	// Params is a JSON object in the plugin's terms; nil is {}.
	Params []byte
	// Client, where Source is not the client's own, says a text that begins with
	// a place in it in the client's terms, and which tool it is about. A grammar
	// that can't be compiled is then refused with a *ToolError.
	Client func(text string) (said, tool string)
}

// ErrLanguage: no plugin knows the language of a grammar.
var ErrLanguage = errors.New("unknown language of a grammar")

// Grammars compile grammars. They are safe for concurrent use.
type Grammars interface {
	// Compile prepares g, or finds it prepared; it may take a second, in which
	// other requests go on. A grammar that can't be compiled is refused with an
	// *Invalid that names the field, or one with a Client with a *ToolError, which
	// wraps ErrLanguage where no plugin knows the language; a plugin that is out of order fails with an
	// error that wraps llm.ErrPlugin, and one without a free instance with
	// llm.ErrOverloaded. The result must be closed. When ctx ends, so does the
	// waiting, and the guest's code unless another request waits for the same.
	Compile(ctx context.Context, g *Grammar) (BoundGrammar, error)
}

// BoundGrammar is the compiled grammar of one request.
type BoundGrammar interface {
	// Begin prepares n sequences; that of sequence i is llm.SeedFor(seed, i). It
	// is called once, before Sequence. Errors are as those of Compile.
	Begin(ctx context.Context, seed uint64, n int) error
	// Sequence returns what holds sequence i < n to the grammar: a Masker, Close,
	// and Fork where the sequence can be cloned and the Masker does not do that
	// itself. It is called once for each i.
	Sequence(i int) sample.Plugins
	// Dropped returns what the grammar is not held to.
	Dropped() []Dropped
	// Close gives back what Compile and Begin took; sequences that the engine still
	// runs keep theirs until it is through with them.
	Close()
}

// WithGrammars lets requests have grammars. It is called before the first
// request.
func (s *Service) WithGrammars(g Grammars) *Service {
	s.grammars = g
	return s
}

// constrain compiles the grammar of d, if it has one, or that of its tools.
func (r *Run) constrain(ctx context.Context, d *Draft) (err error) {
	if c := r.conversation; d.Grammar != nil && (c == nil || c.Answer == nil || !c.offers()) {
		r.grammar, err = r.service.grammars.Compile(ctx, d.Grammar)
	} else {
		err = r.holdCalls(ctx, d)
	}
	if err != nil || r.grammar == nil {
		return err
	}
	return r.grammar.Begin(ctx, r.Request.Params.Seed, r.Request.begun())
}

// Dropped returns what the grammar of the request, or of its tools, is not held
// to.
func (r *Run) Dropped() []Dropped {
	if r.grammar == nil {
		return r.dropped
	}
	return append(r.dropped[:len(r.dropped):len(r.dropped)], r.grammar.Dropped()...)
}

// AppendDropped writes the member of a reply that lists dropped, if there is any:
// ,"grammar_dropped":[{"pointer":…,"keyword":…,"reason":…}].
func AppendDropped(b []byte, dropped []Dropped) []byte {
	for i, d := range dropped {
		if i == 0 {
			b = append(b, `,"grammar_dropped":[`...)
		} else {
			b = append(b, ',')
		}
		b = wire.AppendString(append(b, `{"pointer":`...), d.Pointer)
		b = wire.AppendString(append(b, `,"keyword":`...), d.Keyword)
		b = append(wire.AppendString(append(b, `,"reason":`...), d.Reason), '}')
	}
	if len(dropped) > 0 {
		b = append(b, ']')
	}
	return b
}

// SetDropped sets the header that tells clients who do not look for the member
// how many things the grammar is not held to; none where there are none.
func SetDropped(h http.Header, dropped []Dropped) {
	if len(dropped) > 0 {
		h.Set("X-Grammar-Dropped", strconv.Itoa(len(dropped)))
	}
}

// masked adds the grammar to the plugins of each sequence.
func masked(plugins func(int) sample.Plugins, g BoundGrammar) func(int) sample.Plugins {
	return func(i int) sample.Plugins {
		if plugins == nil {
			return g.Sequence(i)
		}
		return sample.Join(plugins(i), g.Sequence(i))
	}
}
