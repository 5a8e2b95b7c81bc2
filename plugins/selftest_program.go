package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/kind"
	"tgi/plugins/internal/guest"
	"tgi/plugins/program"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// selfTestProgram runs a guest's program on a made-up model.
func selfTestProgram(ctx context.Context, g *guest.Guest) error {
	return selfTestRunProgram(ctx, g, program.NewSynthetic(g.Vocabulary(), selfTestTokens(g.Vocabulary())))
}

func selfTestRunProgram(ctx context.Context, g *guest.Guest, h *program.Synthetic) error {
	return program.Run(g, h, h.Request(nil), func(host any) (*guest.Session, error) {
		return g.OpenProgram(selfTestSeed, ctx.Done(), nil, host)
	})
}

// tryGrammars rejects new versions of programs that end a request without parameters because of a grammar: it is their
// configuration's, or their own, and no request would be served. It is a step of its own, behind loading, because the
// plugins that compile are loaded at the same time.
func (s *Set) tryGrammars(ctx context.Context, jobs []*job) {
	compilers := map[string]*version{}
	var order []string
	add := func(name string, v *version) {
		if v != nil && v.serves(abi.KindGrammar) && compilers[name] == nil {
			compilers[name], order = v, append(order, name)
		}
	}
	for _, j := range jobs {
		add(j.name, j.loaded)
	}
	for _, e := range s.order {
		add(e.name, e.current)
	}
	if len(order) == 0 {
		return
	}
	for _, j := range jobs {
		if j.loaded == nil || !j.loaded.serves(abi.KindProgram) {
			continue
		}
		g := j.loaded.guest
		h := program.NewSynthetic(g.Vocabulary(), selfTestTokens(g.Vocabulary()))
		var wrong []byte
		h.Compile = func(c llm.GrammarCall) error {
			wrong = c.Source
			name := c.Plugin
			if i := slices.IndexFunc(order, func(name string) bool {
				return compilers[name].readsLanguage(c.Language)
			}); name == "" && i >= 0 {
				name = order[i]
			}
			return s.tryGrammar(ctx, compilers[name], c)
		}
		var no *guest.Refusal
		if err := selfTestRunProgram(ctx, g, h); h.Wrong == nil || !errors.As(err, &no) {
			continue
		}
		setting := "source"
		if key := grammarMember(j.settings.config, wrong); key != "" {
			setting = "config." + key
		} else if j.settings.config != "{}" {
			setting = "config"
		}
		j.discard(j.ofSpec(fmt.Errorf("%w: %s: %w", ErrLoad, j.name, wrongSetting(setting,
			"it refuses every request without parameters: %s", no.Text))))
	}
}

// grammarMember is the member of a configuration that has the source of a grammar: the same JSON, or its text; "" for
// none.
func grammarMember(config string, source []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(config), &members) != nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		var text string
		var got, want any
		if json.Unmarshal(members[key], &text) == nil && text == string(source) ||
			json.Unmarshal(members[key], &got) == nil && json.Unmarshal(source, &want) == nil &&
				reflect.DeepEqual(got, want) {
			return key
		}
	}
	return ""
}

// tryGrammar returns why v, which may be nil, refuses a grammar. What else keeps it from compiling is nobody's mistake.
func (s *Set) tryGrammar(ctx context.Context, v *version, c llm.GrammarCall) error {
	if v == nil {
		return nil
	}
	if c.Language == "" {
		c.Language = v.guest.Description().Languages[0]
	}
	var no *guest.Refusal
	if v.guest.Description().Steps() {
		if err := selfTestSource(ctx, v.guest, c); errors.As(err, &no) {
			return no
		}
		return nil
	}
	session, err := v.guest.Open(selfTestSeed, ctx.Done())
	if err != nil {
		return nil
	}
	out, err := kind.Compile(session, c)
	session.Close()
	if errors.As(err, &no) {
		return no
	}
	if err == nil {
		_, err = s.vocabulary().Compile(ctx, out.Grammar, grammar.Limits{Memory: grammarMemory})
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
