package bridge

import (
	"context"
	"errors"
	"testing"
	"tgi/plugins"
	"tgi/runtime/llm"
)

// TestBindErrors: only what a plugin did counts as its failure; a client that left does not.
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
