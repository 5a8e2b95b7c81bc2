package abi_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tgi/sdk/abi"
)

// TestLanguages: the SDKs repeat the contract's numbers; they must be these.
func TestLanguages(t *testing.T) {
	modes := []string{"pass", "allow", "deny", "sparse", "bitmask", "view", "row"}
	rust := source(t, "../rust/src/step.rs")
	for want, name := range modes {
		if got := number(rust, `pub const `+strings.ToUpper(name)+`: u32 = (\d+);`); got != want {
			t.Errorf("Rust: mode %s is %d, want %d", name, got, want)
		}
	}
	c := source(t, "../c/tgi.h")
	if list := "TGI_" + strings.ToUpper(strings.Join(modes, ", TGI_")); !strings.Contains(c, "enum { "+list+" };") {
		t.Errorf("C: no enum of %s", list)
	}
	as := source(t, "../assemblyscript/assembly/step.ts")
	for _, c := range []struct {
		name, text, pattern string
		want                int
	}{
		{"C size", c, `TGI_STEP_SIZE = (\d+)`, abi.StepSize},
		{"C forced", c, `TGI_MAX_FORCED = (\d+)`, abi.MaxForced},
		{"C text", c, `TGI_MAX_TEXT = (\d+)`, abi.MaxText},
		{"C alignment", c, `TGI_ALIGNMENT = (\d+)`, abi.Alignment},
		{"C only", c, `TGI_FLAG_ONLY = (\d+)`, abi.FlagOnly},
		{"C stop", c, `TGI_FLAG_STOP = (\d+)`, abi.FlagStop},
		{"C special", c, `TGI_TOKEN_SPECIAL = (\d+)`, abi.TokenSpecial},
		{"C end", c, `TGI_TOKEN_END = (\d+)`, abi.TokenEnd},
		{"Rust forced", rust, `MAX_FORCED: usize = (\d+)`, abi.MaxForced},
		{"Rust only", rust, `ONLY: u32 = (\d+)`, abi.FlagOnly},
		{"Rust stop", rust, `STOP: u32 = (\d+)`, abi.FlagStop},
		{"AssemblyScript tokens", as, `get tokens\(\)[^}]*?ptr, (\d+)\)`, abi.StepTokens},
		{"AssemblyScript prompt", as, `get promptCount\(\)[^}]*ptr, (\d+)\)`, abi.StepPromptCount},
		{"AssemblyScript new", as, `get newCount\(\)[^}]*ptr, (\d+)\)`, abi.StepNewCount},
		{"AssemblyScript row", as, `get rowCount\(\)[^}]*ptr, (\d+)\)`, abi.StepRowCount},
		{"AssemblyScript temperature", as, `temperature\(t: f32\)[^}]*t, (\d+)\)`, abi.StepTemperature},
		{"AssemblyScript force", as, `force\(ids[^}]*\(ids\), (\d+)\)`, abi.StepForce},
	} {
		if got := number(c.text, c.pattern); got != c.want {
			t.Errorf("%s is %d, want %d", c.name, got, c.want)
		}
	}
}

// TestStepFieldOrder: C and Rust declare the struct's fields in the contract's order.
func TestStepFieldOrder(t *testing.T) {
	want := strings.Fields("size tokens token_count prompt_count new_count view view_count row row_count mode out out_count flags temperature force force_count")
	c := source(t, "../c/tgi.h")
	c = c[strings.Index(c, "float logit, logprob; } tgi_candidate"):strings.Index(c, "} tgi_step;")]
	rust := source(t, "../rust/src/export.rs")
	rust = rust[strings.Index(rust, "struct Raw {"):]
	rust = rust[:strings.Index(rust, "}")]
	for name, got := range map[string][][]string{
		"C":    regexp.MustCompile(`(?m)^  [^;]*?(\w+);`).FindAllStringSubmatch(c, -1),
		"Rust": regexp.MustCompile(`(?m)^    (\w+): `).FindAllStringSubmatch(rust, -1),
	} {
		var names []string
		for _, m := range got {
			names = append(names, m[1])
		}
		if strings.Join(names, " ") != strings.Join(want, " ") {
			t.Errorf("%s has %q, want %q", name, names, want)
		}
	}
}

func source(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// number returns the number that the pattern captures, -1 if there is none.
func number(text, pattern string) int {
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return n
}
