package check

import (
	"context"
	"encoding/json"
	"slices"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/program"
	"tgi/sdk/abi"
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
	Guard      *Guarding       `json:"guard,omitempty"`        // what a guard may do; nil of other kinds
	Memory     int             `json:"memory_bytes,omitempty"` // of a sequence's instance; 0 where no case begins one
	Exports    []string        `json:"exports"`                // with signatures, by name
	Imports    []string        `json:"imports"`                // module.name with signature
	Cases      int             `json:"cases"`                  // how many were run
	// Untried are the languages of a grammar plugin in which it got no source but an empty one.
	Untried []string `json:"untried_languages,omitempty"`
}

// Guarding is what a guard declares.
type Guarding struct {
	// Hold is how many tokens it may hold back, and it is asked at every Every tokens.
	Hold  int `json:"hold"`
	Every int `json:"every"`
	// Verdicts are those that it may give beside release.
	Verdicts []string `json:"verdicts"`
}

// summary loads a module that the kit found sound as the server does, with a vocabulary as large as models have: the
// kit's is small, and what a guest does for each token at load counts.
func (m *module) summary(ctx context.Context, e *sandbox.Engine, wasm []byte, cases []Case) (*Summary, error) {
	g, s, err := described(ctx, e, m.code.Name(), wasm, cases[0].Config, m.limits)
	if err != nil {
		return nil, err
	}
	defer unload(g)
	d := g.Description()
	s.Cases = len(cases)
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

// Describe loads a module as a server does, with a configuration, and returns what it says about itself. It tries
// nothing: a module that Run finds fault with, such as one that refuses {} as parameters, is described all the same.
// Memory, Exports, Imports and Cases are empty.
func Describe(ctx context.Context, name string, wasm []byte, config string, limits Limits) (*Summary, error) {
	e, err := sandbox.New(sandbox.Config{})
	if err != nil {
		return nil, err
	}
	g, s, err := described(ctx, e, name, wasm, config, limits)
	if err != nil {
		return nil, err
	}
	unload(g)
	return s, nil
}

// described loads a module and takes its description.
func described(ctx context.Context, e *sandbox.Engine, name string, wasm []byte, config string, limits Limits) (
	*guest.Guest, *Summary, error) {
	if slices.ContainsFunc(guest.Kinds(wasm), guest.Converses) {
		config = kit.WithModel(config)
	}
	g, err := guest.Load(ctx, e, guest.Config{
		Program: program.Functions(),
		Name:    name, Wasm: wasm, Config: []byte(config), Limits: limits, Vocabulary: fullVocabulary(),
	})
	if err != nil {
		return nil, nil, err
	}
	d := g.Description()
	s := &Summary{
		Name: d.Name, Version: d.Version, Doc: d.Doc, Kinds: d.Kinds, Modes: d.Modes, TopK: d.View, Row: d.Row,
		Candidates: d.Candidates, Params: d.Params, Exports: []string{}, Imports: []string{},
	}
	if d.Serves(abi.KindGuard) {
		s.Guard = &Guarding{Hold: d.Guard.Hold, Every: d.Guard.Every, Verdicts: append([]string{}, d.Guard.Verdicts...)}
	}
	return g, s, nil
}

func unload(g *guest.Guest) {
	g.Close()
	<-g.Drained()
}
