package check

import (
	"strings"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/testcache"
	"tgi/sdk/abi"
)

func TestSizeText(t *testing.T) {
	for n, want := range map[int]string{64 << 10: "64KiB", 3 << 20: "3MiB", 2 << 30: "2GiB", 65 << 10: "65KiB",
		7: "7B"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// TestGuardText: the report says which verdicts a guard may give.
func TestGuardText(t *testing.T) {
	r, err := Run(t.Context(), "redact", builtin(t, "redact"), Options{CacheDir: testcache.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.WriteText(&out, TextOptions{File: "redact.wasm"})
	if !strings.Contains(out.String(), "\n  guard     declares the verdicts release, replace; holds back ") {
		t.Error(out.String())
	}
	if got := guardText(&Guarding{Hold: 1, Every: 3}); got != "declares the verdicts release; holds back 1 token at "+
		"most, asked behind each 3 tokens" {
		t.Error(got)
	}
}

// TestStateText: the report says how a guest's word on its state was tried, and what was not.
func TestStateText(t *testing.T) {
	got := stateText(kit.StateTrial{Kind: abi.KindLogits, State: abi.StateNone, Params: []string{"{}"}, Positions: 7,
		Short:   []string{"{}: at token 7 it ended the sequence"},
		Refused: []string{"a", "b", "c", "d", "e"}, Untried: 2})
	want := `"none" of kind logits was tried, not proven: taken back within 7 tokens, with 1 set of parameters; ` +
		`it ended early with: {}: at token 7 it ended the sequence; the plugin refuses: a, b, c and 2 more; ` +
		`there was no time for 2 further sets`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	r, err := Run(t.Context(), "dry", builtin(t, "dry"), Options{CacheDir: testcache.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.WriteText(&out, TextOptions{File: "dry.wasm"})
	if len(r.States) != 1 || r.States[0].State != abi.StateNone || r.States[0].Positions != 320 ||
		len(r.States[0].Params) < 6 ||
		!strings.Contains(out.String(), "\n  state     \"none\" of kind logits was tried") {
		t.Errorf("%+v\n%s", r.States, out.String())
	}
}
