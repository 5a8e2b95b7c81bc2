package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"tgi/server/config"
)

// charges are what a key has used.
type charges struct {
	Key       *string
	Running   int
	Prompt    int `json:"prompt_tokens"`
	Generated int `json:"generated_tokens"`
	Unseen    int `json:"unseen_tokens"`
}

// spentBy returns what a key has used, once none of its requests runs.
func spentBy(t *testing.T, p *plugged, key string) (of charges) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		_, text := p.call(t, http.MethodGet, "/admin/usage", nil)
		var all struct{ Keys []charges }
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, of = range all.Keys {
			if of.Key != nil && *of.Key == key && of.Running == 0 {
				return of
			}
		}
	}
	t.Fatalf("requests of key %s do not end", key)
	return of
}

// counted returns the sum of a metric's lines that hold a text.
func (p *plugged) counted(t *testing.T, name, with string) (sum int) {
	t.Helper()
	_, metrics := p.call(t, http.MethodGet, "/metrics", nil, "Authorization", "Bearer "+adminKey)
	for line := range strings.Lines(metrics) {
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") || !strings.Contains(line, with) {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
		if err != nil {
			t.Fatal(line)
		}
		sum += int(n)
	}
	return sum
}

// TestUnseenTokensAreCharged: a key pays for what is computed for its requests and that no client sees, and for
// nothing else: ordinary requests cost their prompts and texts, also where guesses of the server's are wrong.
func TestUnseenTokensAreCharged(t *testing.T) {
	cases := map[string]string{
		"ordinary": `"n":2`,
		"guided":   `"guidance_scale":2,"negative_prompt":"A dog and a cat"`,
		"beams":    `"num_beams":3`,
		"guarded":  `"plugins":[{"name":"banned-strings","params":{"strings":["fox","lived"]}}]`,
		"plain":    `"plugins":` + do("plain"),
		"unpaid":   `"plugins":` + do("unpaid"),
		"judged":   `"n":2,"plugins":[{"name":"best-of-judge","params":{"n":4}}]`,
	}
	p := programming(t, func(c *config.Config) {
		c.Model.Speculation = config.Speculation{Kinds: config.SpeculationKinds, Tokens: 7, Always: true}
		for name := range cases {
			c.Key = append(c.Key, config.Key{Name: name, Key: name, Scopes: []string{config.ScopeGenerate}})
		}
	})
	for name, more := range cases {
		before := p.counted(t, "tgi_program_tokens_total", "")
		prompt := name + strings.Repeat(" time: once upon a time there was a fox", 4)
		if name == "guarded" {
			prompt, more = "Once upon a time", more+`,"temperature":0`
		}
		_, reply := keyed(t, p.url, "/v1/completions", name, fmt.Sprintf(
			`{"prompt":%q,"max_tokens":40,"seed":3,"ignore_eos":true,%s}`, prompt, more))
		var r struct {
			Usage struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
			}
		}
		err := json.Unmarshal([]byte(reply), &r)
		got := spentBy(t, p, name)
		if name == "unpaid" { // it goes on until it may not, and that is an error
			r.Usage.Prompt = got.Prompt
		} else if err != nil || r.Usage.Completion == 0 {
			t.Fatalf("%s: %v %s", name, err, reply)
		}
		if got.Prompt != r.Usage.Prompt || got.Generated < r.Usage.Completion {
			t.Errorf("%s: charged %+v, usage %+v", name, got, r.Usage)
		}
		computed := p.counted(t, "tgi_program_tokens_total", "") - before
		switch name {
		case "ordinary", "plain":
			if got.Unseen != 0 {
				t.Errorf("%s: %d unseen tokens", name, got.Unseen)
			}
		case "guided":
			_, tokens := keyed(t, p.url, "/tokenize", name, `{"inputs":"A dog and a cat"}`)
			var second []any
			if err := json.Unmarshal([]byte(tokens), &second); err != nil {
				t.Fatalf("%v: %s", err, tokens)
			}
			if want := len(second) + got.Generated; got.Unseen != want {
				t.Errorf("%s: %d unseen tokens, want %d", name, got.Unseen, want)
			}
		case "beams": // each step computes three rows, but the first
			if want := 1 + 3*(got.Generated-1) - got.Generated; got.Unseen != want {
				t.Errorf("%d unseen tokens of beams, want %d", got.Unseen, want)
			}
		case "guarded":
			if n := p.counted(t, "tgi_guard_rewound_tokens_total", "banned-strings"); got.Unseen != n || n == 0 {
				t.Errorf("%d unseen tokens, the guard took %d back", got.Unseen, n)
			}
		default:
			if got.Prompt+got.Generated+got.Unseen != computed || got.Unseen == 0 {
				t.Errorf("%s: charged %+v, the model computed %d", name, got, computed)
			}
		}
	}
	if p.counted(t, "tgi_draft_tokens_total", `accepted="false"`) == 0 {
		t.Errorf("no guess was wrong: %v", p.lines(t, "tgi_draft_tokens_total"))
	}
	_, metrics := p.call(t, http.MethodGet, "/metrics", nil)
	if !strings.Contains(metrics, `tgi_key_tokens_total{key="guarded",kind="unseen"}`) {
		t.Error("the metrics do not tell of unseen tokens")
	}
}

// TestProgramsAreOwed: a program whose text is one token and that has thousands computed puts its key into debt: its
// next request waits for as long as the rate takes to pay for all.
func TestProgramsAreOwed(t *testing.T) {
	p := programming(t, func(c *config.Config) {
		c.Key = append(c.Key, config.Key{Name: "poor", Key: "poor", Scopes: []string{config.ScopeGenerate},
			TokensPerMinute: 300})
	})
	res, text := keyed(t, p.url, "/v1/completions", "poor",
		`{"prompt":"Once upon a time","max_tokens":1,"plugins":`+do("unpaid")+`}`)
	if !strings.Contains(text, "all tokens that the program may have computed were") {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	owed := spentBy(t, p, "poor")
	res, text = keyed(t, p.url, "/v1/completions", "poor", `{"prompt":"Once","max_tokens":1}`)
	wait, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	if least := (owed.Unseen - 300) * 60 / 300; res.StatusCode != http.StatusTooManyRequests || owed.Unseen < 2000 ||
		wait < least-60 || wait > least+60 {
		t.Errorf("%+v: %d, try again in %d s, want about %d: %s", owed, res.StatusCode, wait, least, text)
	}
}
