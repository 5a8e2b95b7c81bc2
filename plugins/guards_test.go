package plugins

import (
	"errors"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// TestGuardFailsClosed: only on_error = "skip" lets a request go on without a guard that fails before its first token.
func TestGuardFailsClosed(t *testing.T) {
	wasm := guesttest.Fake{
		Description: `{"name":"fake","version":"1","kinds":["guard"],"guard":{"hold":4}}`,
		Code: map[string]guesttest.Code{
			"tgi_guard_begin": guesttest.Join(guesttest.Arg(1), guesttest.Const(uint32(len(doTrap))), guesttest.Equal(),
				guesttest.When(guesttest.Trap()), guesttest.Long(0)),
			"tgi_guard_check": guesttest.Join(guesttest.Const(guesttest.StepAt+abi.GuardPosition),
				guesttest.Load(guesttest.StepAt+abi.GuardTokenCount), guesttest.Put(), guesttest.Const(0)),
		},
	}.Wasm()
	for _, onError := range []OnError{OnErrorFail, OnErrorStop, OnErrorSkip} {
		guard := spec(t, "g", wasm)
		guard.OnError = onError
		s := open(t, Options{Specs: []Spec{guard}})
		b, err := s.Bind(t.Context(), []Call{{Name: "g", Params: []byte(doTrap)}})
		if err != nil {
			t.Fatal(err)
		}
		err = b.Begin(t.Context(), prompt, 16, []uint64{1})
		if goesOn := onError == OnErrorSkip; goesOn != (err == nil) || !goesOn && !errors.Is(err, ErrFault) {
			t.Errorf("%s: %v", onError, err)
		}
		b.Close()
	}
}
