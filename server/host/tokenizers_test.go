package host

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tgi/models/hf"
	"tgi/models/synth"
)

// withTokenizer is a model of random weights with a tokenizer of runtime/token's test data.
func withTokenizer(t *testing.T, kind, end string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), kind)
	if err := synth.WriteSmallMixture(dir, 1, 0); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("../../runtime/token/testdata/kinds/" + kind + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{hf.TokenizerFile: data,
		hf.TokenizerConfigFile: []byte(`{"eos_token":"` + end + `"}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestTokenizersServe: a grammar, stop strings and the text of streams hold with vocabularies of all kinds: with ▁ for
// spaces, byte tokens, and marks at the starts or ends of words.
func TestTokenizersServe(t *testing.T) {
	for kind, end := range map[string]string{"pieces": "</s>", "pieces-split": "</s>", "t5": "</s>", "xlmr": "</s>",
		"bert": "[SEP]", "gpt1": "<|endoftext|>"} {
		t.Run(kind, func(t *testing.T) {
			c := testConfig()
			c.Model.Path, c.Model.Weights = withTokenizer(t, kind, end), "fp32"
			s := openServer(t, c)
			ask := func(body string) string {
				r := httptest.NewRequest(http.MethodPost, "/generate", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				return w.Body.String()
			}
			schema := `{"type":"object","properties":{"word":{"type":"string","maxLength":12},"n":{"type":"integer",` +
				`"minimum":0,"maximum":99}},"required":["word","n"],"additionalProperties":false}`
			grammar := `{"type":"json","value":` + schema + `}`
			if kind == "bert" { // where each word brings a space, the first one too
				grammar = `{"type":"regex","value":"( [a-z]{2,9}){3}"}`
			}
			for seed := range 4 {
				var reply struct {
					Text    string `json:"generated_text"`
					Details struct {
						Reason string `json:"finish_reason"`
					}
				}
				text := ask(fmt.Sprintf(`{"inputs":"a word","parameters":{"do_sample":true,"seed":%d,"max_new_tokens":120,`+
					`"details":true,"grammar":%s}}`, seed+1, grammar))
				if err := json.Unmarshal([]byte(text), &reply); err != nil {
					t.Fatal(err)
				}
				if reply.Details.Reason == "length" {
					t.Fatalf("seed %d: not finished: %s", seed, reply.Text)
				}
				if kind == "bert" {
					if !regexp.MustCompile(`^( [a-z]{2,9}){3}$`).MatchString(reply.Text) {
						t.Errorf("seed %d: %q is not three words", seed, reply.Text)
					}
					continue
				}
				var value struct {
					Word *string
					N    *int
				}
				if err := json.Unmarshal([]byte(reply.Text), &value); err != nil || value.Word == nil ||
					value.N == nil || len([]rune(*value.Word)) > 12 {
					t.Errorf("seed %d: %q is not of the schema: %v", seed, reply.Text, err)
				}
			}
		})
	}
}
