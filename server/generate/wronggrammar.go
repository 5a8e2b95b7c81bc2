package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// wrongGrammar is a grammar of a program that cannot be compiled.
type wrongGrammar struct {
	source []byte
	why    *Invalid
}

// noteGrammar keeps g where err says that it is wrong: a program that then fails may have it from its client.
func (h *Contexts) noteGrammar(g *Grammar, err error) {
	h.wrong = nil
	if no := (*Invalid)(nil); errors.As(err, &no) {
		h.wrong = &wrongGrammar{g.Source, no}
	}
}

// blame returns the error of a program that failed at the grammar: an *Invalid where the client wrote it into a
// parameter of a plugin, else err, for then it is the program's own mistake, or that of its configuration.
func (w *wrongGrammar) blame(calls []PluginCall, err error) error {
	if no := w.parameter(calls); no != nil {
		return no
	}
	return fmt.Errorf("%w (no parameter of the request has this grammar: it is the program's or its configuration's)",
		err)
}

// blameRun returns the error of a run under g that failed, in the client's terms where g is refused, as one of which a
// mask takes too much is, and the client wrote it into a parameter of a plugin.
func blameRun(g *Grammar, calls []PluginCall, err error) error {
	why := (*Invalid)(nil)
	if g == nil || !errors.As(err, &why) || why.Field != g.Field {
		return err
	}
	if no := (&wrongGrammar{g.Source, why}).parameter(calls); no != nil {
		return no
	}
	return err
}

// parameter returns what is said of a parameter of a plugin that has the grammar, nil where none has.
func (w *wrongGrammar) parameter(calls []PluginCall) error {
	for _, c := range calls {
		var params map[string]json.RawMessage
		if json.Unmarshal(c.Params, &params) != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(params)) {
			if sameGrammar(params[name], w.source) {
				of := fmt.Sprintf("parameter `%s` of plugin %s: ", name, c.Name)
				// The program says in which language it is, and with which parameters: the reason may tell of these.
				return &Invalid{Field: "plugins", Msg: of + w.why.Msg,
					Outline: of + "it is no grammar that can be used"}
			}
		}
	}
	return nil
}

// sameGrammar reports whether a parameter is the source of a grammar: the same JSON, or a string with its text.
func sameGrammar(param json.RawMessage, source []byte) bool {
	var text string
	if json.Unmarshal(param, &text) == nil && text == string(source) {
		return true
	}
	var a, b bytes.Buffer
	return json.Compact(&a, param) == nil && json.Compact(&b, source) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}
