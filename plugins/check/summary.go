package check

import (
	"context"
	"encoding/json"
	"slices"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/program"
)

// Summary describes a sound module.
type Summary struct {
	Name       string          `json:"name"`
	Version    string          `json:"version,omitempty"`
	Doc        string          `json:"doc,omitempty"`
	Kinds      []string        `json:"kinds"`
	Modes      []string        `json:"modes,omitempty"`
	TopK       int             `json:"topk,omitempty"`         // how many of the most likely tokens it looks at
	Row        bool            `json:"row,omitempty"`          // it looks at all logits
	Candidates int             `json:"candidates,omitempty"`   // the most that a sampler gets
	Params     json.RawMessage `json:"params,omitempty"`       // JSON Schema of the parameters
	Memory     int             `json:"memory_bytes,omitempty"` // of a sequence's instance; 0 where no case begins one
	Exports    []string        `json:"exports"`                // with signatures, by name
	Imports    []string        `json:"imports"`                // module.name with signature
	Cases      int             `json:"cases"`                  // how many were run
	// Untried are the languages of a grammar plugin in which it got no source but an empty one.
	Untried []string `json:"untried_languages,omitempty"`
}

// summary loads a module that the kit found sound as the server does, with a vocabulary as large as models have: the
// kit's is small, and what a guest does for each token at load counts.
func (m *module) summary(ctx context.Context, e *sandbox.Engine, wasm []byte, cases []Case) (*Summary, error) {
	config := cases[0].Config
	if slices.ContainsFunc(guest.Kinds(wasm), guest.Converses) {
		config = kit.WithModel(config)
	}
	g, err := guest.Load(ctx, e, guest.Config{
		Program: program.Functions(),
		Name:    m.code.Name(), Wasm: wasm, Config: []byte(config), Limits: m.limits, Vocabulary: fullVocabulary(),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		g.Close()
		<-g.Drained()
	}()
	d := g.Description()
	s := &Summary{
		Name: d.Name, Version: d.Version, Doc: d.Doc, Kinds: d.Kinds, Modes: d.Modes, TopK: d.View, Row: d.Row,
		Candidates: d.Candidates, Params: d.Params, Imports: []string{}, Cases: len(cases),
	}
	for _, c := range cases {
		if err := checkLanguages(c.Sources, d.Languages); err != nil {
			return nil, err
		}
	}
	for _, l := range d.Languages {
		given := slices.ContainsFunc(cases, func(c Case) bool {
			return slices.ContainsFunc(c.Sources, func(g Grammar) bool { return g.Language == l && g.Text != "" })
		})
		if !given && !kit.HasSources(l) {
			s.Untried = append(s.Untried, l)
		}
	}
	for _, f := range m.exports {
		s.Exports = append(s.Exports, f.String())
	}
	for _, i := range m.imports {
		s.Imports = append(s.Imports, i.Module+"."+i.Func.String())
	}
	slices.Sort(s.Exports)
	slices.Sort(s.Imports)
	i := slices.IndexFunc(cases, func(c Case) bool { return !c.Refused })
	if i < 0 {
		return s, nil
	}
	begin := func() (*guest.Session, error) { return g.Begin(guest.Start{Params: []byte(cases[i].Params)}) }
	if !slices.ContainsFunc(d.Kinds, guest.Steps) {
		begin = func() (*guest.Session, error) { return g.Open(0, nil) }
	}
	began, err := begin()
	if err != nil {
		return nil, err
	}
	defer began.Close()
	s.Memory = len(began.Memory())
	return s, nil
}
