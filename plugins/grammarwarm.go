package plugins

import (
	"context"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/kind"
	"tgi/plugins/internal/guest"
)

// The grammar and the text below have what requests have in common: whatever the names in a schema, its strings,
// numbers and formats are the same parts, and the masks of parts are shared by all grammars.
const (
	commonLanguage = "json_schema"
	commonSchema   = `{"type":"object","additionalProperties":false,"properties":{` +
		`"any":{},"text":{"type":"string"},"some":{"type":"string","minLength":1},"short":{"type":"string","maxLength":500},` +
		`"whole":{"type":"integer"},"number":{"type":"number"},"mail":{"format":"email","type":"string"},"host":{"format":"hostname","type":"string"},` +
		`"uri":{"format":"uri","type":"string"},"time":{"format":"date-time","type":"string"},"uuid":{"format":"uuid","type":"string"}}}`
	commonText = `{"any": {"a": "b \u00e9", "c": [-1.5e3, true, null]}, "text": "ab \n c", "some": "ab", "short": "ab", "whole": -12, "number": -1.25e-3, ` +
		`"mail": "a.b@c-d.ef", "host": "a-b.cd", "uri": "http://a.b/c?d=e#f", "time": "2020-01-31T10:20:30.5Z", "uuid": "01234567-89ab-cdef-0123-456789abcdef"}`
)

// compileCommon lets a guest compile the common grammar; it returns nil if the guest does not know its language.
func compileCommon(ctx context.Context, g *guest.Guest) *ir.Grammar {
	s, err := g.Open(selfTestSeed, ctx.Done())
	if err != nil {
		return nil
	}
	defer s.Close()
	out, err := kind.Compile(s, kind.Call{Language: commonLanguage, Source: []byte(commonSchema)})
	if err != nil {
		return nil
	}
	return out.Grammar
}

// prepareMasks prepares the vocabulary, and the masks along the common text as far as the grammar admits it, so that no
// request waits for either. An error is ignored here: the request that needs the mask reports it.
func (s *Set) prepareMasks(common *ir.Grammar) {
	v := s.vocabulary()
	if common == nil {
		return
	}
	g, err := v.Compile(s.life, common, grammar.Limits{Memory: grammarMemory})
	if err != nil {
		return
	}
	state, bits := g.Start(), make([]uint32, g.Words())
	for i := range len(commonText) {
		if state.Mask(bits) != nil || state.AcceptBytes([]byte(commonText[i:i+1])) != nil {
			return
		}
	}
}

// Prepared waits until the background preparation for grammars is done. Only measurements need it: a grammar that comes
// earlier waits for what it needs.
func (s *Set) Prepared() {
	s.change <- struct{}{} // nothing is loaded meanwhile
	s.background.Wait()
	<-s.change
}
