package bridge

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"tgi/plugins"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/generate"
)

// TestGrammarTooCostly checks that a grammar that exceeds its limits during generation is refused with its field, and
// that other failures are not the client's.
func TestGrammarTooCostly(t *testing.T) {
	m := forkingMasker{refusal: func(err error) error { return grammarError(err, "guided_regex") }}
	var refused *generate.Invalid
	err := m.explain(&plugins.BindError{Text: "after 3 tokens", Err: plugins.ErrParams})
	if !errors.As(err, &refused) || refused.Field != "guided_regex" ||
		refused.Msg != "grammar is not valid: after 3 tokens" {
		t.Errorf("%v", err)
	}
	for _, other := range []error{nil, context.Canceled} {
		if got := m.explain(other); got != other {
			t.Errorf("%v became %v", other, got)
		}
	}
}

// TestPluginsField checks that an error about a request's plugins names that field and suggests the right name.
func TestPluginsField(t *testing.T) {
	err := &plugins.BindError{Plugin: "dri", Text: "there is no plugin of this name",
		Err: &plugins.Misnamed{Name: "dri", Known: []string{"dry"}, Err: plugins.ErrUnknown}}
	var refused *generate.Invalid
	if got := bindError(err); !errors.As(got, &refused) || refused.Field != "plugins" ||
		refused.Msg != "plugin dri: there is no plugin of this name; did you mean dry?" {
		t.Errorf("%v", got)
	}
	err = &plugins.BindError{Text: "unknown", Err: &plugins.Misnamed{Name: "larc", Known: []string{"lark"},
		Err: plugins.ErrUnknown}}
	if got := grammarError(err, "grammar"); !errors.As(got, &refused) || refused.Field != "grammar" ||
		refused.Msg != "grammar is not valid: unknown; did you mean lark?" {
		t.Errorf("%v", got)
	}
}

// TestBusyRetry checks that a refusal for lack of plugin memory has Retry-After, also if nothing was to be generated.
func TestBusyRetry(t *testing.T) {
	f := server.Explain(bindError(fmt.Errorf("%w: 1 MiB", plugins.ErrBusy)))
	if f.Kind != server.KindOverloaded || f.RetryAfter < time.Second {
		t.Errorf("%+v", f)
	}
}

// TestBindErrors checks that only a plugin's own failure counts for it, not a client that disconnected.
func TestBindErrors(t *testing.T) {
	for _, err := range []error{context.Canceled, llm.ErrDraining} {
		if got := bindError(err); errors.Is(got, llm.ErrPlugin) || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, err := range []error{plugins.ErrClosed, &plugins.BindError{Plugin: "p", Text: "trap", Err: plugins.ErrFault},
		&plugins.BindError{Plugin: "p", Text: "off", Err: plugins.ErrOff}} {
		if got := bindError(err); !errors.Is(got, llm.ErrPlugin) {
			t.Errorf("%v became %v", err, got)
		}
	}
}
