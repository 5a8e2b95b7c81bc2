package plugins

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/tools"
	"tgi/sdk/abi"
)

// holder is a parser that says what the text is held to, unless it is told otherwise.
func holder(status uint32, text, notes string) guesttest.Fake {
	const at, textAt, notesAt = guesttest.Free + 0x1000, guesttest.Free + 0x1100, guesttest.Free + 0x1800
	f := parser("hi")
	f.Data = maps.Clone(f.Data)
	f.Data[at] = guesttest.Bytes(status, textAt, uint32(len(text)), notesAt, uint32(len(notes)))
	f.Data[textAt], f.Data[notesAt] = text, notes
	f.Code["tgi_tools_constraint"] = guesttest.Join(
		requested(parseUsual, len(doTrap)-2, guesttest.Trap()),
		requested(parseUsual, len(doSpin)-2, guesttest.Spin()),
		requested(parseUsual, len(doRogue)-2, guesttest.Join(guesttest.Const(0xfffffff0), guesttest.Code{0x0f})),
		guesttest.Const(at))
	return f
}

const regexOfX = `{"language":"regex","source":"x","optional":true}`

func TestConstraint(t *testing.T) {
	notes := `[{"pointer":"#/tools","keyword":"strict","reason":"why"}]`
	s := chatSet(t, Options{Specs: []Spec{
		spec(t, "nothing", holder(abi.StatusOK, "", "").Wasm()), spec(t, "holds", holder(abi.StatusOK, regexOfX,
			"").Wasm()),
		spec(t, "notes", holder(abi.StatusOK, "", notes).Wasm()), spec(t, "refuses", holder(abi.StatusFailed, "can't",
			"").Wasm()),
	}})
	dropped := []tools.Dropped{{Pointer: "#/tools", Keyword: "strict", Reason: "why"}}
	for name, want := range map[string]*ToolGrammar{
		"": nil, "p": nil, "nothing": nil, "notes": {Dropped: dropped},
		"holds": {Language: "regex", Source: "x", Optional: true},
	} {
		b := bindChat(t, s, ChatPlugins{Template: "t", Tools: name})
		got, err := b.Constraint(ctx, []byte(parseRequest))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		b.Close()
	}
	b := bindChat(t, s, ChatPlugins{Template: "t", Tools: "refuses"})
	defer b.Close()
	var no *BindError
	if _, err := b.Constraint(ctx, []byte(parseRequest)); !errors.As(err, &no) || no.Text != "can't" ||
		!errors.Is(err, ErrParams) {
		t.Errorf("refused: %v", err)
	}
	if st, _ := s.Get("refuses"); st.Stats.InstancesOut != 0 || st.Stats.Refusals != 1 {
		t.Errorf("%+v", st.Stats)
	}
}

// TestConstraintFaults: what the guest does wrong fails its request only, and is counted.
func TestConstraintFaults(t *testing.T) {
	s := chatSet(t, Options{Specs: []Spec{spec(t, "holds", holder(abi.StatusOK, regexOfX, "").Wasm())}})
	for params, want := range map[string]string{doTrap: "unreachable", doSpin: "",
		doRogue: "result of 20 bytes at 0xfffffff0"} {
		b := bindChat(t, s, ChatPlugins{Template: "t"}, Call{Name: "holds", Params: []byte(params)})
		_, err := b.Constraint(ctx, []byte(parseRequest))
		if params == doSpin {
			if !errors.As(err, new(*TooCostly)) {
				t.Errorf("%s: %v", params, err)
			}
		} else if !errors.Is(err, ErrFault) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "tgi_tools_constraint") {
			t.Errorf("%s: %v", params, err)
		}
		b.Close()
	}
	if st, _ := s.Get("holds"); st.Stats.Faults["trap"] != 1 || st.Stats.Faults["fuel"] != 1 ||
		st.Stats.Faults["result"] != 1 || st.Stats.InstancesOut != 0 {
		t.Errorf("%+v", st.Stats)
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	b := bindChat(t, s, ChatPlugins{}, Call{Name: "holds", Params: []byte(doSpin)})
	defer b.Close()
	if _, err := b.Constraint(gone, []byte(parseRequest)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the client left: %v", err)
	}
}

// TestSelfTestAsksForConstraints: a guest that fails when it is asked is not loaded.
func TestSelfTestAsksForConstraints(t *testing.T) {
	f := parser("hi")
	f.Code["tgi_tools_constraint"] = guesttest.Trap()
	_, err := Open(ctx, options(t, Options{Log: slog.New(slog.DiscardHandler),
		Specs: []Spec{spec(t, "holds", f.Wasm())}}))
	if err == nil || !strings.Contains(err.Error(), "tgi_tools_constraint: trap") {
		t.Errorf("got %v", err)
	}
}

// TestConstraintWithout: a plugin without constraints is not asked for one, so nobody waits for others.
func TestConstraintWithout(t *testing.T) {
	s := chatSet(t, Options{})
	for range clientTurns {
		turn, err := s.turns.register(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		defer turn.end()
	}
	b := bindChat(t, s, chatDefaults)
	defer b.Close()
	c, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if g, err := b.Constraint(c, []byte(parseRequest)); g != nil || err != nil {
		t.Errorf("got %v, %v", g, err)
	}
}
