package std_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"unicode/utf8"

	kit "tgi/conformance/guest"
	"tgi/plugins/grammar/kind"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/internal/testcache"
)

// The readers of the plugin grammar, fuzzed as the server runs them: the compiled guest in its sandbox, a fresh
// instance for each source. Whatever the source is, there is a grammar that ir.Read accepts (kind.Compile asks it), or
// a refusal in words, or the fuel is at its end; never a trap and never a result that breaks a rule.

// fuzzedGuest is loaded once in each process and never closed. The fuel is a twentieth of what requests have, so that
// no source keeps a worker for long.
var fuzzedGuest = sync.OnceValues(func() (*guest.Guest, error) {
	wasm, err := os.ReadFile("wasm/grammar.wasm")
	if err != nil {
		return nil, err
	}
	e, err := sandbox.New(sandbox.Config{CacheDir: testcache.Dir()})
	if err != nil {
		return nil, err
	}
	return guest.Load(context.Background(), e, guest.Config{
		Name: "grammar", Wasm: wasm, Vocabulary: words{kit.NewWorld()}, MaxInstances: 4,
		Limits: guest.Limits{FuelPerRequest: 250_000_000},
	})
})

// fuzzLanguage compiles sources of a language, with params in turns.
func fuzzLanguage(f *testing.F, language string, seeds ...string) {
	params := [...]string{`{}`, `{"lenient":true,"whitespace":"compact"}`,
		`{"draft":"7","whitespace":"space","formats":false}`, `{"x-order":"any"}`}
	for i, s := range seeds {
		f.Add(s, byte(i))
	}
	f.Fuzz(func(t *testing.T, source string, turn byte) {
		g, err := fuzzedGuest()
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.Open(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		call := kind.Call{Language: language, Source: []byte(source), Params: []byte(params[int(turn)%len(params)])}
		out, err := kind.Compile(s, call)
		var refusal *guest.Refusal
		var fault *sandbox.Fault
		switch {
		case err == nil:
			if out.Grammar == nil || len(out.Grammar.Rules) == 0 {
				t.Errorf("a grammar without rules: %+v", out)
			}
			for _, d := range out.Dropped {
				if d.Keyword == "" || d.Reason == "" {
					t.Errorf("dropped without a keyword or a reason: %+v", d)
				}
			}
		case errors.As(err, &refusal):
			if refusal.Text == "" || !utf8.ValidString(refusal.Text) {
				t.Errorf("refused with the text %q", refusal.Text)
			}
		case errors.As(err, &fault) && fault.Kind == sandbox.ErrFuel:
		default:
			t.Errorf("%v, want a grammar or a refusal", err)
		}
	})
}

func FuzzSchema(f *testing.F) {
	fuzzLanguage(f, "json_schema",
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"},"b":{"enum":[1,"a",null,[1],{"k":2.5}]}},"required":["a"],"patternProperties":{"^x":{"type":"string","format":"date"}},"additionalProperties":false,"minProperties":1,"$defs":{"x":{"anyOf":[{"type":"string","minLength":1,"pattern":"^[a-z]+$"},{"not":{"type":["object","string"]}}]}}}`,
		`{"oneOf":[{"properties":{"k":{"const":"a"}},"required":["k"]},{"properties":{"k":{"const":"b"},"n":{"$ref":"#"}},"required":["k"]}],"if":{"minProperties":2},"then":{"required":["v"]},"else":{"maxProperties":1},"unevaluatedProperties":false,"dependentRequired":{"k":["v"]},"propertyNames":{"maxLength":5}}`,
		`{"type":"array","prefixItems":[{"type":"integer","minimum":-3,"exclusiveMaximum":1e2}],"items":{"multipleOf":0.5},"contains":{"const":2},"minContains":1,"maxContains":3,"uniqueItems":true,"unevaluatedItems":false}`,
		`{"$id":"http://a/b","allOf":[{"$ref":"c#d"},{"$dynamicRef":"#e"}],"$defs":{"c":{"$id":"c","$anchor":"d","type":"number"},"e":{"$dynamicAnchor":"e"}}}`,
		`{"definitions":{"a":{"type":["integer","null"]}},"items":[{"$ref":"#/definitions/a"},true],"additionalItems":{"format":"email"},"dependencies":{"a":["b"],"c":{"minLength":2}}}`,
		`{"oneOf":[{},{"properties":{"k":{"$ref":"#"}},"required":["k"]}]}`,
		`{"type":"string","format":"uri-template","pattern":"(?!a)\\p{L}{2,}","maxLength":9}`, `true`,
		`{"type":"strin"}`, "\xff", ``)
}

func FuzzRegex(f *testing.F) {
	fuzzLanguage(f, "regex", `^(?=.*\d)(?!ab)[^\s\p{Lu}-]{2,5}|(?:a|b)*?\x41\u{1F600}$`, `[ab]*a[ab]{13}`,
		`((a*)*)*b{0,1000}`,
		`\bx\b`, `(?<n>a)\k<n>`, `(?i:x)`, `a{2,1}`, `[z-a]`, `(`, `[^]`, `\cA\0\u00e9[\b]`)
}

func FuzzGBNF(f *testing.F) {
	fuzzLanguage(f, "gbnf",
		"root ::= \"[\" (item (\",\" ws item)*)? \"]\" # c\nitem ::= [0-9]{1,3} | \"\\\"\" [^\"\\\\]* \"\\\"\" | root | !<[5]> | <t>\nws ::= [ \\t\\n]{0,2}",
		"root ::= root \"a\" | \"b\"", "root ::= ( \"x\" |\n \"y\"\n){2} .{0,1} \"\\x41\\u00e9\\U0001F600\"",
		"root ::= a\na ::= a", "a ::= b", "root ::= [z-a]", "root = \"a\"", "root ::= \"a\"{99999999}")
}

func FuzzLark(f *testing.F) {
	fuzzLanguage(f, "lark",
		"start: (call \";\")+\ncall: NAME \"(\" [arg (\",\" arg)*] \")\" -> call\n?arg: NUMBER | /[a-z]+/i | \"0\"..\"9\" ~ 2..3 | %json {\"type\":\"null\"}\n%import common (NUMBER, CNAME)\nNAME: CNAME\n%ignore \" \"\n",
		"start: A~2 B~1..3 \"x\"i\nA.2: \"a\" | \"é\"\nB: /[b-d]/s", "start: <|end|> \"a\" | [\"b\"] | <[1-3]>",
		"%import common.FOO\nstart: FOO", "start{a}: \"x\"", "start: /a", "start: start")
}

func FuzzStructuralTag(f *testing.F) {
	fuzzLanguage(f, "structural_tag",
		`{"format":{"type":"triggered_tags","triggers":["<f="],"tags":[{"begin":"<f=a>","content":{"type":"json_schema","json_schema":{"type":"integer"},"lenient":true},"end":["</f>"]}],"at_least_one":true,"excludes":["x"]}}`,
		`{"type":"triggered_tags","triggers":["<f=",{"type":"token","token":"<s>"},{"token":7}],"tags":[{"begin":{"token":7},"content":{"type":"any_tokens","exclude_tokens":[1," the"],"max_tokens":3},"end":["</f>",{"type":"token","token":9}]},{"begin":"<f=a>","content":{"type":"dispatch","rules":[["a",{"type":"any_text","max_chars":4}]],"loop":false},"end":"b"}]}`,
		`{"type":"sequence","elements":[{"type":"const_string","value":"A"},{"type":"or","elements":[{"type":"regex","pattern":"[0-9]{2}"},{"type":"grammar","grammar":"root ::= \"g\"+"}]},{"type":"optional","content":{"type":"token","token":"</s>"}},{"type":"repeat","min":1,"max":2,"content":{"type":"star","content":{"type":"exclude_token"}}}]}`,
		`{"type":"json_schema","style":"glm_xml","json_schema":{"type":"object","properties":{"a":{"type":["string","null"],"pattern":"^.b$"},"c":{"enum":["d",1]}},"required":["c"],"maxProperties":3}}`,
		`{"structures":[{"begin":"<t>","schema":{"type":"null"},"end":"</t>"}],"triggers":["<t"]}`,
		`{"type":"token_triggered_tags","trigger_tokens":[4],"tags":[{"begin":{"token":4},"content":{"type":"any_text","excludes":["a","b"]},"end":""}],"stop_after_first":true}`,
		`{"type":"tags_with_separator","tags":[{"begin":"","content":{"type":"plus","content":{"type":"const_string","value":""}},"end":""}],"separator":","}`, `[]`)
}
