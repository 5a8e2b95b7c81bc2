package plugins

import (
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"slices"

	"tgi/plugins/grammar/kind"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// once shows something to the version and gives it up again.
func (t *tally) once(bytes int, run func(f *follower) error) {
	if f := t.follower(); f != nil {
		f.show(bytes, func() error { return run(f) })
		f.close()
	}
}

// bindChat binds the version to a conversation. The follower ends it.
func (f *follower) bindChat(call []Call) (*BoundChat, error) {
	w := f.t.shadow
	b, _, err := w.apart.BindChat(w.apart.life, call, ChatPlugins{})
	if err != nil {
		return nil, f.refused("parameters", err)
	}
	f.end = b.Close
	return b, nil
}

// call is how a request names the plugin.
func (p *part) call() []Call { return []Call{{Name: p.name, Params: slices.Clone(p.params)}} }

// rendered shows a conversation that the serving version rendered, or refused with a text.
func (p *part) rendered(request []byte, want Rendered, refused bool) {
	if p.tally == nil {
		return
	}
	request, call := slices.Clone(request), p.call()
	p.tally.once(len(request)+len(want.Text), func(f *follower) error {
		b, err := f.bindChat(call)
		if err != nil {
			return err
		}
		got, err := b.Render(f.t.shadow.apart.life, request)
		var no *RenderRefusal
		if err != nil && !errors.As(err, &no) {
			return f.refused(abi.KindTemplate, err)
		}
		f.compare(abi.KindTemplate, noStep, func() (string, string) {
			return differentPrompt(want, got, refused, no != nil)
		})
		return nil
	})
}

// differentPrompt says how a rendered text differs, "" where it does not.
func differentPrompt(want, got Rendered, refused, refuses bool) (what, texts string) {
	switch {
	case refuses && !refused:
		return "refuses a conversation that the serving version renders", ""
	case refused && !refuses:
		return "renders a conversation that the serving version refuses", ""
	case refused:
		return "", ""
	case want.Text != got.Text:
		at := 0
		for n := min(len(want.Text), len(got.Text)); at < n && want.Text[at] == got.Text[at]; {
			at++
		}
		return fmt.Sprintf("writes another text from byte %d on: %d bytes instead of %d", at, len(got.Text),
				len(want.Text)), fmt.Sprintf("%.64q instead of %.64q", got.Text[at:min(len(got.Text), at+64)],
				want.Text[at:min(len(want.Text), at+64)])
	case !slices.Equal(want.Data, got.Data):
		return fmt.Sprintf("has other parts that are data: %d instead of %d", len(got.Data), len(want.Data)), ""
	}
	return "", ""
}

// constrained shows a request whose texts the serving version holds to want.
func (p *part) constrained(request []byte, want *ToolGrammar) {
	if p.tally == nil {
		return
	}
	request, call := slices.Clone(request), p.call()
	size := len(request)
	if want != nil {
		own := *want
		want, size = &own, size+len(want.Source)
	}
	p.tally.once(size, func(f *follower) error {
		b, err := f.bindChat(call)
		if err != nil {
			return err
		}
		got, err := b.Constraint(f.t.shadow.apart.life, request)
		if err != nil {
			return f.refused(abi.KindTools, err)
		}
		f.compare(abi.KindTools, noStep, func() (string, string) {
			if reflect.DeepEqual(want, got) {
				return "", ""
			}
			return "holds the text to another grammar", ""
		})
		return nil
	})
}

// parsing follows a text that the serving version's parser reads.
func (p *part) parsing(request []byte, seed uint64) *follower {
	f := p.tally.follower()
	if f == nil {
		return nil
	}
	request, call := slices.Clone(request), p.call()
	f.show(len(request), func() error {
		b, err := f.bindChat(call)
		if err != nil {
			return err
		}
		x, err := b.Parser(f.t.shadow.apart.life, request, seed)
		if err != nil {
			return f.refused(abi.KindTools, err)
		}
		f.parser, f.end = x, func() { x.Close(); b.Close() }
		return nil
	})
	return f
}

// fed shows a piece of the text, and keeps what both made of it.
func (f *follower) fed(piece string, special bool, want []Event) {
	if f == nil {
		return
	}
	want = slices.Clone(want)
	f.show(len(piece)+sizeOf(want), func() error {
		got, err := f.parser.Feed(piece, special)
		f.serving, f.own = merge(f.serving, want), merge(f.own, got)
		return err
	})
}

// finished ends the text, and compares what both made of it.
func (f *follower) finished(cut bool, want []Event) {
	if f == nil {
		return
	}
	want = slices.Clone(want)
	f.show(sizeOf(want), func() error {
		got, err := f.parser.Finish(cut)
		if err != nil {
			return err
		}
		f.serving, f.own = merge(f.serving, want), merge(f.own, got)
		f.compare(abi.KindTools, noStep, func() (string, string) { return differentEvents(f.serving, f.own) })
		return nil
	})
}

// sizeOf is about what events take, in bytes.
func sizeOf(list []Event) (n int) {
	for _, e := range list {
		n += 64 + len(e.Text) + len(e.Name)
	}
	return n
}

// merge adds events, without the ids of calls, which are drawn. Texts that follow each other become one: where a text
// is split means nothing.
func merge(list, more []Event) []Event {
	for _, e := range more {
		e.ID = ""
		if n := len(list); n > 0 && e.Text != "" && e.Name == "" && list[n-1].Name == "" && list[n-1].Kind == e.Kind &&
			list[n-1].Index == e.Index && e.Kind != llm.DeltaFailed {
			list[n-1].Text += e.Text
			continue
		}
		list = append(list, e)
	}
	return list
}

// differentEvents says how what a parser made of a text differs, "" where it does not.
func differentEvents(want, got []Event) (what, texts string) {
	for i := range min(len(want), len(got)) {
		if a, b := want[i], got[i]; a != b {
			return fmt.Sprintf("part %d of the answer differs", i+1), fmt.Sprintf("%.64q %.64q instead of %.64q %.64q",
				b.Name, b.Text, a.Name, a.Text)
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("makes %d parts of the answer instead of %d", len(got), len(want)), ""
	}
	return "", ""
}

// compiled shows a source that the serving version compiled to a form.
func (p *part) compiled(c GrammarCall, form uint64, dropped []Dropped) {
	if p.tally == nil {
		return
	}
	c = p.ownGrammar(c)
	p.tally.once(len(c.Source)+len(c.Params), func(f *follower) error {
		w := f.t.shadow
		t := w.apart.turns.begin("")
		defer t.end()
		q, language, err := w.apart.selectGrammarPart(w.apart.life, c)
		var got kind.Compiled
		if err == nil {
			defer q.version.unref()
			c.Language = language
			got, err = w.apart.compileSource(w.apart.life, t, q, c)
		}
		if err != nil {
			return f.refused(abi.KindGrammar, err)
		}
		f.compare(abi.KindGrammar, noStep, func() (string, string) {
			switch {
			case got.Form != form:
				return "compiles a source to another form", ""
			case !slices.Equal(got.Dropped, dropped):
				return fmt.Sprintf("leaves %d constraints out, the serving version %d", len(got.Dropped),
					len(dropped)), ""
			}
			return "", ""
		})
		return nil
	})
}

// ownGrammar is a copy of a grammar's call, in which the plugin is named.
func (p *part) ownGrammar(c GrammarCall) GrammarCall {
	c.Plugin, c.Source, c.Params = p.name, slices.Clone(c.Source), slices.Clone(c.Params)
	return c
}

// stepping follows a text whose masks the serving version computes.
func (p *part) stepping(c GrammarCall, seed uint64) *follower {
	f := p.tally.follower()
	if f == nil {
		return nil
	}
	c = p.ownGrammar(c)
	f.show(len(c.Source)+len(c.Params), func() error {
		w := f.t.shadow
		g, err := w.apart.Compile(w.apart.life, c)
		if err != nil {
			return f.refused(abi.KindGrammar, err)
		}
		f.end = g.Close
		x, err := g.Sequence(w.apart.life, seed)
		if err != nil {
			return f.refused(abi.KindGrammar, err)
		}
		f.text, f.end = x, func() { x.Close(); g.Close() }
		return nil
	})
	return f
}

// masked shows that a mask was asked for, and compares it.
func (f *follower) masked(step int, bits []uint32, constrained bool) {
	if f == nil || !f.room(4*len(bits)) {
		return
	}
	bits = slices.Clone(bits)
	f.show(4*len(bits), func() error {
		f.bits = slices.Grow(f.bits[:0], len(bits))[:len(bits)]
		own, err := f.text.Mask(f.bits)
		if err != nil {
			return err
		}
		f.compare(abi.KindGrammar, step, func() (string, string) {
			switch {
			case own != constrained:
				return fmt.Sprintf("constrains the next token: %t instead of %t", own, constrained), ""
			case own && !slices.Equal(bits, f.bits):
				return differentMask(bits, f.bits), ""
			}
			return "", ""
		})
		return nil
	})
}

// differentMask says how a mask differs.
func differentMask(want, got []uint32) string {
	more, fewer := 0, 0
	for i := range want {
		more += bits.OnesCount32(want[i] &^ got[i])
		fewer += bits.OnesCount32(got[i] &^ want[i])
	}
	return fmt.Sprintf("denies %d tokens more and %d fewer", more, fewer)
}

// accepted shows a token of the text.
func (f *follower) accepted(token uint32) {
	f.show(4, func() error {
		err := f.text.Accept(token)
		if errors.Is(err, kind.ErrRejected) {
			f.differ(abi.KindGrammar, len(f.text.tokens), "does not admit the token that came", "")
			return errLeft
		}
		return err
	})
}

// rolledBack takes the last n tokens of the text back.
func (f *follower) rolledBack(n int) {
	f.show(0, func() error { return f.text.Rollback(n) })
}

// cloned follows a text that goes on from where this one is.
func (f *follower) cloned() *follower {
	if f == nil {
		return nil
	}
	twin := f.t.follower()
	if twin == nil {
		return nil
	}
	twin.show(0, func() error {
		x, err := f.text.Clone()
		if err == nil {
			twin.text, twin.end = x, x.Close
		}
		return err
	})
	return twin
}
