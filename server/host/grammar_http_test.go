package host

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
	"tgi/server/config"
)

// TestInfoLanguages checks that /info lists the grammar languages, and that a request can use a listed one.
func TestInfoLanguages(t *testing.T) {
	p := openPlugged(t, nil)
	for _, name := range []string{"picture", "banned-and-boost"} {
		wasm, err := os.ReadFile(filepath.Join("..", "..", "sdk", "testdata", "guests", "c", name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		p.upload(t, name, wasm)
	}
	var info struct {
		Plugins []struct {
			Name      string
			Languages []string
		}
	}
	status, text := p.call(t, http.MethodGet, "/info", nil)
	if err := json.Unmarshal([]byte(text), &info); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	languages := map[string][]string{}
	for _, x := range info.Plugins {
		languages[x.Name] = x.Languages
	}
	if !slices.Equal(languages["picture"], []string{"picture"}) || languages["banned-and-boost"] != nil ||
		!slices.Contains(languages[grammarPlugin], "json_schema") {
		t.Errorf("languages %v", languages)
	}
	if strings.Count(text, `"languages"`) != 2 {
		t.Errorf("languages of other kinds: %s", text)
	}
	for seed := range 3 {
		r := p.held(t, http.StatusOK, seed+1, `{"type":"grammar","language":"`+languages["picture"][0]+
			`","value":"@@-##"}`, "")
		if !regexp.MustCompile(`^[a-z]{2}-[0-9]{2}$`).MatchString(r.Text) || r.Details.Reason == "length" {
			t.Errorf("%+v", r)
		}
	}
}

// TestGrammarTime: a request whose masks take longer than the settings allow fails with the bound and its setting.
func TestGrammarTime(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) { c.Plugins.GrammarTime = 1 })
	r := p.held(t, http.StatusUnprocessableEntity, 1, `{"type":"regex","value":"[a-z]{9}"}`, "")
	if !regexp.MustCompile(`grammar is not valid: after 1 tokens of the text: grammar limit exceeded: time of the ` +
		`masks of one request \(plugins.grammar_time\): at most 1ns, got \d`).MatchString(r.Error) {
		t.Errorf("%+v", r)
	}
}

// everything is the grammar that the builders of the SDKs are tested with, each node once, made by the host's own.
func everything() *ir.Grammar {
	var b irtest.Builder
	list := b.Declare("list")
	word := b.And(b.Repeat(b.Chars(ir.Range{Lo: 'a', Hi: 'z'}, ir.Range{Lo: 'à', Hi: 'ÿ'}), 1, 9),
		b.Not(b.Lits("if", "")))
	named := b.Term(word)
	b.G.Exprs[named].Name = "word"
	other := b.Term(b.Union(b.Lit("€"), b.Concat(b.Bytes("09AF"), b.Chars(ir.Range{Hi: ir.MaxRune}))))
	again := b.Rule(list)
	item := b.Choice(named, other, again)
	open := b.Text("(")
	some, call := b.Times(item, 2, 300), b.Times(b.TokenText("<tool>"), 0, 1)
	b.Define(list, b.Seq(open, some, call, b.Token(true, ir.Range{Lo: 5, Hi: 70}, ir.Range{Lo: 200, Hi: 200}), open))
	start := b.Declare("")
	b.Define(start, b.Times(again, 0, ir.Unbounded))
	b.G.Start = start
	return &b.G
}

// TestFormOfSDKs checks that the host reads what the builders in Go and Rust write, by the file that their own tests
// use, as the intended grammar.
func TestFormOfSDKs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "sdk", "testdata", "forms", "everything.hex"))
	if err != nil {
		t.Fatal(err)
	}
	form, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ir.Read(form)
	if err != nil || !reflect.DeepEqual(got, everything()) {
		t.Errorf("read as %+v, %v\nwant %+v", got, err, everything())
	}
	if again := everything().Append(nil); string(again) != string(form) {
		t.Errorf("the host writes %x", again)
	}
}
