package abi_test

import (
	"math/bits"
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
	tools, asTools := source(t, "../rust/src/tools.rs"), source(t, "../assemblyscript/assembly/tools.ts")
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
		{"C rendered", c, `TGI_RENDERED_SIZE = (\d+)`, abi.RenderedSize},
		{"C longest text", c, `TGI_MAX_RENDERED = 1 << (\d+)`, bits.Len(abi.MaxRendered) - 1},
		{"C spans", c, `TGI_MAX_SPANS = 1 << (\d+)`, bits.Len(abi.MaxSpans) - 1},
		{"C event", c, `TGI_EVENT_SIZE = (\d+)`, abi.EventSize},
		{"C events", c, `TGI_MAX_EVENTS = (\d+)`, abi.MaxEvents},
		{"C special piece", c, `TGI_PIECE_SPECIAL = (\d+)`, abi.PieceSpecial},
		{"C end of text", c, `TGI_FINISH_END = (\d+)`, abi.FinishEnd},
		{"C cut text", c, `TGI_FINISH_CUT = (\d+)`, abi.FinishCut},
		{"Rust special piece", tools, `PIECE_SPECIAL: u32 = (\d+)`, abi.PieceSpecial},
		{"Rust cut text", tools, `FINISH_CUT: u32 = (\d+)`, abi.FinishCut},
		{"AssemblyScript rendered", source(t, "../assemblyscript/assembly/exports/template.ts"),
			`memory\.data\((\d+), 4\)`, abi.RenderedSize},
		{"AssemblyScript event", asTools, `EVENT_SIZE: u32 = (\d+)`, abi.EventSize},
		{"AssemblyScript special piece", asTools, `PIECE_SPECIAL: u32 = (\d+)`, abi.PieceSpecial},
		{"AssemblyScript cut text", asTools, `FINISH_CUT: u32 = (\d+)`, abi.FinishCut},
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

// TestGuardsInC: the verdicts, the reasons and the limits of guards in C, and the order of fields.
func TestGuardsInC(t *testing.T) {
	c := source(t, "../c/tgi_guard.h")
	for _, list := range []string{"RELEASE, TGI_REWIND, TGI_INSERT, TGI_REPLACE, TGI_HALT",
		"GOES_ON, TGI_ENDS_MODEL, TGI_ENDS_LENGTH, TGI_ENDS_STOP, TGI_ENDS_GUARD"} {
		if !strings.Contains(c, "enum { TGI_"+list+" };") {
			t.Errorf("C: no enum of %s", list)
		}
	}
	for name, want := range map[string]int{"GUARD_SIZE": abi.GuardSize, "MAX_HOLD": abi.MaxHold,
		"MAX_CONTEXT": abi.MaxContext, "MAX_BIASES": abi.MaxBiases, "MAX_GUARD_TEXT": abi.MaxGuardText,
		"MAX_REASON": abi.MaxReason, "MAX_EDITS": abi.MaxEdits, "FLAG_DONE": abi.FlagDone,
		"FLAG_EDITS": abi.FlagEdits} {
		if got := number(c, `TGI_`+name+` = (\d+)`); got != want {
			t.Errorf("C: %s is %d, want %d", name, got, want)
		}
	}
	end := strings.Index(c, "} tgi_held;")
	begin := strings.LastIndex(c[:end], "typedef struct {")
	want := "size tokens token_count prompt_count new_count released text text_len context ends reason verdict position " +
		"out out_count flags"
	if got := fields(c[begin:end], `(?m)^  (?:const )?\w+ \*?(\w+);`); got != want {
		t.Errorf("C: the struct has %q, want %q", got, want)
	}
}

// eventKinds and failures are the contract's, in order.
var (
	eventKinds = []string{"content", "reasoning", "begin", "arguments", "end", "failed"}
	failures   = []string{"incomplete", "unknown", "malformed", "too_long", "too_many"}
)

// TestEventNumbers: the kinds of events and the reasons of failures.
func TestEventNumbers(t *testing.T) {
	kinds := []int{abi.EventContent, abi.EventReasoning, abi.EventBegin, abi.EventArguments, abi.EventEnd,
		abi.EventFailed}
	reasons := []int{abi.FailedIncomplete, abi.FailedUnknown, abi.FailedMalformed, abi.FailedTooLong, abi.FailedTooMany}
	c, rust, as := source(t, "../c/tgi.h"), source(t, "../rust/src/tools.rs"),
		source(t, "../assemblyscript/assembly/tools.ts")
	for _, names := range [][]string{eventKinds, failures} {
		if list := "TGI_" + strings.ToUpper(strings.Join(names, ", TGI_")); !strings.Contains(c, "enum { "+list+" };") {
			t.Errorf("C: no enum of %s", list)
		}
	}
	for i, name := range eventKinds {
		upper := strings.ToUpper(name)
		if kinds[i] != i || number(rust, `const `+upper+`: u32 = (\d+);`) != i ||
			number(as, `const `+upper+`: u32 = (\d+);`) != i {
			t.Errorf("kind %s is not %d everywhere", name, i)
		}
	}
	for i, name := range failures {
		camel := strings.NewReplacer("too_long", "TooLong", "too_many", "TooMany").Replace(name)
		camel = strings.ToUpper(camel[:1]) + camel[1:]
		if reasons[i] != i || number(rust, `\b`+camel+` = (\d+),`) != i ||
			number(as, `\b`+strings.ToUpper(name)+` = (\d+),`) != i {
			t.Errorf("reason %s is not %d everywhere", name, i)
		}
	}
}

// TestFieldOrder: C and Rust declare the fields of a rendered text and of an
// event in the contract's order. In C a text is one field of pointer and bytes.
func TestFieldOrder(t *testing.T) {
	c := source(t, "../c/tgi.h")
	for _, s := range []struct{ rust, begin, c, want string }{
		{"../rust/src/export.rs", "struct Rendered {", "} tgi_rendered;", "status text text_bytes spans span_count"},
		{"../rust/src/tools.rs", "struct Raw {", "} tgi_event;",
			"kind index text text_bytes name name_bytes id id_bytes reason"},
	} {
		rust := source(t, s.rust)
		rust = rust[strings.Index(rust, s.begin):]
		if got := fields(rust[:strings.Index(rust, "}")], `(?m)^    (?:pub )?(\w+): `); got != s.want {
			t.Errorf("Rust has %q, want %q", got, s.want)
		}
		before := c[:strings.Index(c, s.c)]
		declared := fields(before[strings.LastIndex(before, "typedef struct {"):], `(?m)^  [^;]*?(\w+(?:, \w+)*);`)
		want := strings.NewReplacer("text text_bytes", "text", "name name_bytes id id_bytes", "name id").Replace(s.want)
		if got := strings.ReplaceAll(declared, ",", ""); got != want {
			t.Errorf("C has %q, want %q", got, want)
		}
	}
}

// fields lists what the pattern captures.
func fields(text, pattern string) string {
	var names []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return strings.Join(names, " ")
}

// TestStepFieldOrder: C and Rust declare the struct's fields in the contract's order.
func TestStepFieldOrder(t *testing.T) {
	const want = "size tokens token_count prompt_count new_count view view_count row row_count mode out out_count flags temperature force force_count"
	c := source(t, "../c/tgi.h")
	c = c[strings.Index(c, "float logit, logprob; } tgi_candidate"):strings.Index(c, "} tgi_step;")]
	rust := source(t, "../rust/src/export.rs")
	rust = rust[strings.Index(rust, "struct Raw {"):]
	rust = rust[:strings.Index(rust, "}")]
	for name, got := range map[string]string{"C": fields(c, `(?m)^  [^;]*?(\w+);`),
		"Rust": fields(rust, `(?m)^    (\w+): `)} {
		if got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
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

// TestRunReasons: why a run ended is the same number in all languages.
func TestRunReasons(t *testing.T) {
	c, rust, as := source(t, "../c/tgi_program.h"), source(t, "../rust/src/program.rs"),
		source(t, "../assemblyscript/assembly/program.ts")
	as = as[strings.Index(as, "export enum Reason {"):]
	list := regexp.MustCompile(`TGI_RUN_(\w+)`).FindAllStringSubmatch(c[strings.Index(c, "enum { TGI_RUN_NONE"):], 5)
	for i, name := range []string{"NONE", "LENGTH", "END", "STOP", "DENIED"} {
		camel := name[:1] + strings.ToLower(name[1:])
		if list[i][1] != name || number(as, `\b`+name+` = (\d+),`) != i ||
			i > 0 && number(rust, `(\d+) => Reason::`+camel+`,`) != i {
			t.Errorf("reason %s is not %d everywhere", name, i)
		}
	}
	if n := abi.RunDenied; n != 4 {
		t.Errorf("the last reason is %d", n)
	}
	for language, text := range map[string]string{"Rust": rust, "AssemblyScript": as} {
		if number(text, `at most (\d+) of them`) != abi.MaxDenied {
			t.Errorf("%s documents another bound of denied tokens than %d", language, abi.MaxDenied)
		}
	}
}

// TestGuardNumbers: verdicts, reasons and the order of fields of a guard's struct.
func TestGuardNumbers(t *testing.T) {
	const want = "size tokens token_count prompt_count new_count released text text_bytes context ends reason verdict position out out_count flags"
	rust, export := source(t, "../rust/src/guard.rs"), source(t, "../rust/src/export.rs")
	export = export[strings.Index(export, "struct RawGuard {"):]
	if got := fields(export[:strings.Index(export, "}")], `(?m)^    (\w+): `); got != want {
		t.Errorf("Rust has %q, want %q", got, want)
	}
	for i, name := range abi.VerdictNames {
		if number(rust, `const `+strings.ToUpper(name)+`: u32 = (\d+);`) != i {
			t.Errorf("verdict %s is not %d everywhere", name, i)
		}
	}
	_, reasons, _ := strings.Cut(rust, "pub mod reason {")
	for i, name := range []string{"none", "eos", "length", "stop"} {
		if number(reasons, `const `+strings.ToUpper(name)+`: u32 = (\d+);`) != i {
			t.Errorf("reason %s is not %d everywhere", name, i)
		}
	}
}
