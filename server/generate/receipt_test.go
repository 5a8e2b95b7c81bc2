package generate_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// sum is the checksum of bytes, in hex.
func sum(b ...byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// TestReceipt: a receipt has what was used, and is small whatever the request is.
func TestReceipt(t *testing.T) {
	e := &generatetest.Engine{}
	s := generate.New(e, generatetest.Words{}, generatetest.Limits(), nil)
	d := generate.Draft{Inputs: "aa b", MaxNewTokens: ptr(uint32(3)), Seed: ptr(uint64(9)), DoSample: true,
		Receipt: true, Stop: []string{strings.Repeat("x", 1000), "y"}}
	collect := func(d generate.Draft) *generate.Receipt {
		t.Helper()
		run, err := s.Start(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		res, err := run.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return res.Receipt
	}
	if r := collect(d); r != nil {
		t.Errorf("a service without an origin gives %+v", r)
	}
	s.WithOrigin(generate.Origin{Server: "1", Model: "m", Weights: "w"})
	r := collect(d)
	// Words: the id of a word is its length, Echo says 0, 1, 2.
	out := generate.Output{Tokens: 3, SHA256: sum(0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0)}
	if r.Model != "m" || r.Params.Seed != 9 || r.PromptTokens != 2 || r.Prompt != sum(2, 0, 0, 0, 2, 0, 0, 0) ||
		len(r.Outputs) != 1 || r.Outputs[0] != out {
		t.Errorf("%+v", r)
	}
	first := generate.AppendReceipt(nil, r)
	if !json.Valid(first) || len(first) > 1500 {
		t.Errorf("%d bytes: %s", len(first), first)
	}
	d.Stop[0] = strings.Repeat("x", 999) + "z"
	if again := generate.AppendReceipt(nil, collect(d)); string(again) == string(first) {
		t.Error("another stop string has the same receipt")
	}
	d.Receipt = false
	if r := collect(d); r != nil {
		t.Errorf("nobody wanted %+v", r)
	}
	d.Explain = &generate.Explain{Tokens: ptr(uint64(0))}
	if r := collect(d); r == nil {
		t.Error("explain gives no receipt")
	}
}

// TestGrammarSum: the checksum of a grammar is of what it says. Whoever keeps a request may write its JSON anew.
func TestGrammarSum(t *testing.T) {
	s := generate.New(&generatetest.Engine{}, generatetest.Words{}, generatetest.Limits(), nil)
	s = generatetest.UserCode{Grammars: &generatetest.Grammars{}}.On(s.WithOrigin(generate.Origin{Server: "1"}))
	of := func(g generate.Grammar) string {
		t.Helper()
		d := generate.Draft{Inputs: "a", MaxNewTokens: ptr(uint32(1)), Receipt: true, Grammar: &g}
		run, err := s.Start(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		return run.Receipt().Grammar
	}
	for _, x := range []struct {
		language, a, b string
		same           bool
	}{
		{generate.JSONSchema, `{"enum": ["a b", "<"],  "type": "string"}`, `{"enum":["a b","\u003c"],"type":"string"}`, true},
		{generate.JSONSchema, `{"enum":["a\"b\\","c d"]}`, "{\"enum\": [\"\\u0061\\\"b\\\\\",\n\"c d\"]}", true},
		{generate.JSONSchema, `{"enum":["a b"]}`, `{"enum":["ab"]}`, false},
		{generate.JSONSchema, `{"a":true,"b":true}`, `{"b":true,"a":true}`, false},
		{generate.Choice, `["a", "b"]`, `["a","b"]`, true},
		{generate.StructuralTag, `{"tags": []}`, `{"tags":[]}`, true},
		{"another", `{"a": 1}`, `{"a":1}`, true},
		{generate.Regex, `[1, 2]`, `[1,2]`, false},
		{generate.Lark, "start: \"a\" ", "start: \"a\"", false},
	} {
		a := of(generate.Grammar{Language: x.language, Source: []byte(x.a), Params: []byte(`{"p": 1}`)})
		b := of(generate.Grammar{Language: x.language, Source: []byte(x.b), Params: []byte(`{"p":1}`)})
		if a == "" || (a == b) != x.same {
			t.Errorf("%s: %s has %s, %s has %s", x.language, x.a, a, x.b, b)
		}
	}
}

// TestExplainBounds: what may be asked for.
func TestExplainBounds(t *testing.T) {
	s := generate.New(&generatetest.Engine{}, generatetest.Words{}, generatetest.Limits(), nil)
	for name, x := range map[string]struct {
		explain *generate.Explain
		n       uint64
		beams   *uint64
		is      llm.Explain
		err     string
	}{
		"default": {&generate.Explain{}, 1, nil, llm.Explain{Top: 5, Tokens: 256}, ""},
		"many":    {&generate.Explain{Top: ptr(uint64(20))}, 8, nil, llm.Explain{Top: 20, Tokens: 256}, ""},
		"none":    {&generate.Explain{Tokens: ptr(uint64(0))}, 1, nil, llm.Explain{Top: 5}, ""},
		"top": {&generate.Explain{Top: ptr(uint64(21))}, 1, nil, llm.Explain{},
			"`explain.top` must be >= 0 and <= 20. Given: 21"},
		"tokens": {&generate.Explain{Tokens: ptr(^uint64(0))}, 1, nil, llm.Explain{},
			"`explain.tokens` must be >= 0 and <= 1024. Given: 18446744073709551615"},
		"together": {&generate.Explain{Tokens: ptr(uint64(1024))}, 3, nil, llm.Explain{},
			"`explain.tokens` of all sequences together must be <= 2048. Given: 1024 of 3 sequences"},
		"beams": {&generate.Explain{}, 1, ptr(uint64(2)), llm.Explain{}, "`explain` and `num_beams` > 1 exclude each other"},
	} {
		run, err := s.Start(t.Context(), generate.Draft{Rules: generate.OpenAI, Inputs: "a",
			MaxNewTokens: ptr(uint32(1)), N: &x.n, NumBeams: x.beams, Explain: x.explain})
		var no *generate.Invalid
		switch {
		case x.err != "":
			if !errors.As(err, &no) || !strings.Contains(no.Msg, x.err) || no.Field != "explain" {
				t.Errorf("%s: %v, want %s", name, err, x.err)
			}
		case err != nil || run.Request.Params.Explain != x.is:
			t.Errorf("%s: %v, %+v", name, err, run)
		}
		if run != nil {
			run.Close()
		}
	}
}
