package std_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/std"
)

var updateSuite = flag.Bool("update-suite", false, "rewrite testdata/json-schema-suite.txt")

const suiteResults = "testdata/json-schema-suite.txt"

// How a case of the suite comes out, the best first.
var outcomes = []string{"pass", "refused", "false reject", "false accept"}

// TestSchemaSuite asks the plugin, loaded as the server loads it, about each case of the official JSON Schema test
// suite: whether what it compiled, followed token by token by the host, admits the instance's canonical text. Those
// that do not pass are listed in testdata/json-schema-suite.txt, and a case may only come out better.
//
// The canonical text has no white space, numbers without exponent, and the escapes that JSON asks for. A grammar
// decides on the order of members, so an instance is admitted when it is in some order. In the files named format, the
// keyword is an annotation, as the drafts have it. JSON_SCHEMA_TEST_SUITE names another copy of the suite.
func TestSchemaSuite(t *testing.T) {
	listed := readSuiteResults(t)
	root := os.Getenv("JSON_SCHEMA_TEST_SUITE")
	if root == "" {
		root = "testdata/json-schema-test-suite"
	}
	set := openGrammar(t)
	found := map[string]string{}
	for _, draft := range []string{"draft7", "draft2020-12"} {
		suiteDraft(t, set, root, draft, found)
	}
	written := writeSuiteResults(found)
	counts, _, _ := strings.Cut(written, "\n\n")
	t.Log("\n" + counts)
	if *updateSuite {
		if err := os.WriteFile(suiteResults, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, key := range sortedKeys(found) {
		was := listed[key]
		if was == "" {
			was = outcomes[0]
		}
		if slices.Index(outcomes, found[key]) > slices.Index(outcomes, was) {
			t.Errorf("%s: %s, was %s", key, found[key], was)
		}
	}
	if committed, err := os.ReadFile(suiteResults); !t.Failed() && (err != nil || string(committed) != written) {
		t.Errorf("%s is out of date: other cases, or better (-update-suite)", suiteResults)
	}
}

// TestSchemaSuiteSums: the counts of the committed file, which stand without the suite, are within what was aimed at.
func TestSchemaSuiteSums(t *testing.T) {
	worst := map[string]int{}
	for key, outcome := range readSuiteResults(t) {
		draft, _, _ := strings.Cut(key, " ")
		worst[draft+" "+outcome]++
	}
	for _, draft := range []string{"draft7", "draft2020-12"} {
		if n := worst[draft+" false accept"]; n > 0 {
			t.Errorf("%s: %d false accepts", draft, n)
		}
		if n := worst[draft+" false reject"]; n >= 30 {
			t.Errorf("%s: %d false rejects", draft, n)
		}
	}
}

func openGrammar(t *testing.T) *plugins.Set { return openGrammarOver(t, kit.NewWorld()) }

func openGrammarOver(t *testing.T, world *kit.World) *plugins.Set {
	t.Helper()
	set, err := plugins.Open(context.Background(), plugins.Options{
		Specs: []plugins.Spec{{Name: "grammar", Source: "builtin:grammar"}}, Builtin: std.FS(),
		Vocabulary: words{world}, CacheDir: testcache.Dir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return set
}

func suiteDraft(t *testing.T, set *plugins.Set, root, draft string, found map[string]string) {
	t.Helper()
	base := filepath.Join(root, "tests", draft)
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(data, &groups); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name := strings.TrimSuffix(filepath.ToSlash(strings.TrimPrefix(path, base+string(filepath.Separator))), ".json")
		params := fmt.Sprintf(`{"whitespace":"compact","draft":%q,"formats":%v}`, strings.TrimPrefix(draft, "draft"),
			name != "format")
		for _, g := range groups {
			compiled, err := set.Compile(context.Background(), plugins.GrammarCall{
				Plugin: "grammar", Language: "json_schema", Source: g.Schema, Params: []byte(params)})
			var refusal *plugins.BindError
			if err != nil && !(errors.As(err, &refusal) && errors.Is(err, plugins.ErrParams)) {
				t.Errorf("%s %s: %v, want a grammar or a refusal", name, g.Description, err)
			}
			nothing := err != nil && strings.Contains(err.Error(), "nothing satisfies the grammar")
			for _, c := range g.Tests {
				admitted := err == nil && admitsSome(t, compiled, c.Data)
				outcome := outcomes[0]
				switch {
				case err != nil && !nothing:
					outcome = "refused"
				case admitted && !c.Valid:
					outcome = "false accept"
				case !admitted && c.Valid:
					outcome = "false reject"
				}
				key := strings.ReplaceAll(fmt.Sprintf("%s %s: %s: %s", draft, name, g.Description, c.Description), "\n",
					" ")
				found[key] = outcome
			}
			if err == nil {
				compiled.Close()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// admitsSome reports whether the grammar admits the instance in some order of its members, up to a number of orders
// that no instance of the suite exceeds.
func admitsSome(t *testing.T, g *plugins.Grammar, data json.RawMessage) bool {
	t.Helper()
	const theEnd = 258 // of the kit's vocabulary, in which tokens 0 to 255 are the bytes
	for _, text := range orders(t, data) {
		s, err := g.Sequence(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(text) && err == nil; i++ {
			err = s.Accept(uint32(text[i]))
		}
		if err == nil {
			err = s.Accept(theEnd)
		}
		s.Close()
		if err == nil {
			return true
		}
	}
	return false
}

// orders gives the canonical texts of a JSON value, one for each order of members.
func orders(t *testing.T, data json.RawMessage) []string {
	t.Helper()
	const most = 800
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value func() []string
	next := func() json.Token {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	// list puts what each yields into the sequences so far: behind, or where anyPlace at all places.
	list := func(opening json.Delim) []string {
		all := [][]string{nil}
		for d.More() {
			name := ""
			if opening == '{' {
				name = quoted(next().(string)) + ":"
			}
			var longer [][]string
			for _, v := range value() {
				for _, old := range all {
					for at := range len(old) + 1 {
						if (opening == '{' || at == len(old)) && len(longer) < most {
							longer = append(longer, slices.Insert(slices.Clone(old), at, name+v))
						}
					}
				}
			}
			all = longer
		}
		closing := next().(json.Delim)
		var out []string
		for _, parts := range all {
			out = append(out, opening.String()+strings.Join(parts, ",")+closing.String())
		}
		return out
	}
	value = func() []string {
		switch v := next().(type) {
		case json.Delim:
			return list(v)
		case string:
			return []string{quoted(v)}
		case json.Number:
			return []string{plainNumber(v.String())}
		case nil:
			return []string{"null"}
		default:
			return []string{fmt.Sprint(v)}
		}
	}
	return value()
}

// quoted is a JSON string with the escapes that must be, the short ones where there are.
func quoted(s string) string {
	var b strings.Builder
	for _, r := range s {
		if i := strings.IndexRune("\"\\\b\f\n\r\t", r); i >= 0 {
			b.WriteString(`\` + `"\bfnrt`[i:i+1])
		} else if r < ' ' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// plainNumber is a number without exponent and needless zeros.
func plainNumber(n string) string {
	r, ok := new(big.Rat).SetString(n)
	if !ok {
		return n
	}
	if r.IsInt() {
		return r.Num().String()
	}
	text := r.FloatString(len(n) + 400)
	return strings.TrimRight(text, "0")
}

func readSuiteResults(t *testing.T) map[string]string {
	t.Helper()
	committed, err := os.ReadFile(suiteResults)
	if err != nil && !*updateSuite {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(committed)) {
		if outcome, key, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			if slices.Index(outcomes, outcome) < 1 {
				t.Errorf("%s: %q is no outcome to list", suiteResults, outcome)
			}
			listed[key] = outcome
		}
	}
	return listed
}

// writeSuiteResults gives the counts, an empty line, and the cases that do not pass.
func writeSuiteResults(found map[string]string) string {
	counts, lines := map[string]int{}, ""
	for _, key := range sortedKeys(found) {
		draft, rest, _ := strings.Cut(key, " ")
		counts[draft+" "+found[key]]++
		if strings.HasPrefix(rest, "optional/") {
			counts[draft+" optional "+found[key]]++
		}
		if found[key] != outcomes[0] {
			lines += found[key] + "\t" + key + "\n"
		}
	}
	sums := ""
	for _, what := range sortedKeys(counts) {
		sums += fmt.Sprintf("# %s: %d\n", what, counts[what])
	}
	return sums + "\n" + lines
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
