package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tgi/conformance/long"
	"tgi/server/config"
)

// These tests show what the built-in plugins do to the demo model's text.

// stdPlugins opens a server with all built-in plugins, each under its own name.
func stdPlugins(t *testing.T) *plugged {
	t.Helper()
	return openPlugged(t, func(c *config.Config) {
		for _, name := range []string{"no-repeat-ngram", "dry", "xtc", "mirostat", "banned-words", "thinking-budget",
			"watermark"} {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
				OnError: config.OnErrorFail, Apply: config.ApplyRequest})
		}
	})
}

// spoken is a generated text with its tokens.
type spoken struct {
	Text    string `json:"generated_text"`
	Details struct {
		Tokens []struct {
			ID   int
			Text string
		}
	}
}

// say generates from a prompt; parameters and plugins are JSON without braces.
func (p *plugged) say(t *testing.T, prompt, parameters, plugin, params string) spoken {
	t.Helper()
	plugins := ""
	if plugin != "" {
		plugins = fmt.Sprintf(`,"plugins":[{"name":%q,"params":%s}]`, plugin, params)
	}
	body := fmt.Sprintf(`{"inputs":%q,"parameters":{"details":true,%s%s}}`, prompt, parameters, plugins)
	status, text := p.call(t, http.MethodPost, "/generate", []byte(body))
	var s spoken
	if err := json.Unmarshal([]byte(text), &s); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, status, text)
	}
	return s
}

const (
	onceUpon = "Once upon a time"
	redHat   = "Mia found a red hat. Mia found a red hat. Mia found a red hat. Mia found a"
)

// repeats reports whether a run of n tokens stands in the list twice.
func repeats(ids []int, n int) bool {
	seen := map[string]bool{}
	for i := n; i <= len(ids); i++ {
		key := fmt.Sprint(ids[i-n : i])
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

func (s spoken) ids() (ids []int) {
	for _, tok := range s.Details.Tokens {
		ids = append(ids, tok.ID)
	}
	return ids
}

func TestStdNoRepeatNgram(t *testing.T) {
	p := stdPlugins(t)
	plain := p.say(t, onceUpon, `"max_new_tokens":200,"ignore_eos":true`, "", "")
	if !repeats(plain.ids(), 3) {
		t.Fatal("the model repeats no three tokens: nothing to show")
	}
	got := p.say(t, onceUpon, `"max_new_tokens":200,"ignore_eos":true`, "no-repeat-ngram", `{"n":3}`)
	if len(got.ids()) != 200 || repeats(got.ids(), 3) {
		t.Errorf("three tokens came twice in %q", got.Text)
	}
	if got := p.say(t, redHat, `"max_new_tokens":1`, "no-repeat-ngram", `{"n":3}`); strings.Contains(got.Text, "red") {
		t.Errorf("the prompt's %q was gone on with: %q", "found a red", got.Text)
	}
}

func TestStdDry(t *testing.T) {
	p := stdPlugins(t)
	plain := p.say(t, redHat, `"max_new_tokens":12`, "", "")
	if !strings.HasPrefix(plain.Text, " red hat") {
		t.Fatalf("the model does not go on with the repetition: %q", plain.Text)
	}
	if got := p.say(t, redHat, `"max_new_tokens":12`, "dry", `{"multiplier":4}`); strings.HasPrefix(got.Text,
		" red hat") {
		t.Errorf("the repetition went on: %q", got.Text)
	}
	if got := p.say(t, redHat, `"max_new_tokens":12`, "dry", `{"multiplier":0}`); got.Text != plain.Text {
		t.Errorf("without a penalty the text is %q, want %q", got.Text, plain.Text)
	}
	if got := p.say(t, redHat, `"max_new_tokens":12`, "dry",
		`{"multiplier":4,"sequence_breakers":["."," found"]}`); got.Text != plain.Text {
		t.Errorf("a repetition that breakers cut was penalised: %q, want %q", got.Text, plain.Text)
	}
}

func TestStdXTC(t *testing.T) {
	p := stdPlugins(t)
	const greedy = `"max_new_tokens":30`
	plain := p.say(t, onceUpon, greedy, "", "")
	got := p.say(t, onceUpon, greedy, "xtc", `{"probability":1,"threshold":0.05}`)
	if got.Text == plain.Text {
		t.Errorf("the top choices were not excluded: %q", got.Text)
	}
	if got := p.say(t, onceUpon, greedy, "xtc", `{"probability":0}`); got.Text != plain.Text {
		t.Errorf("with probability 0 the text is %q, want %q", got.Text, plain.Text)
	}
}

func TestStdMirostat(t *testing.T) {
	p := stdPlugins(t)
	const sampled = `"max_new_tokens":60,"do_sample":true,"seed":7,"ignore_eos":true`
	greedy := p.say(t, onceUpon, `"max_new_tokens":60,"ignore_eos":true`, "", "")
	if got := p.say(t, onceUpon, sampled, "mirostat", `{"tau":0}`); got.Text != greedy.Text {
		t.Errorf("no surprise at all is %q, want the greedy %q", got.Text, greedy.Text)
	}
	mild := p.say(t, onceUpon, sampled, "mirostat", `{"tau":1}`)
	if again := p.say(t, onceUpon, sampled, "mirostat", `{"tau":1}`); again.Text != mild.Text {
		t.Errorf("the same seed gave %q and %q", mild.Text, again.Text)
	}
	if wild := p.say(t, onceUpon, sampled, "mirostat", `{"tau":8}`); wild.Text == mild.Text {
		t.Errorf("tau does not matter: %q", wild.Text)
	}
}

func TestStdBannedWords(t *testing.T) {
	p := stdPlugins(t)
	const sampled = `"max_new_tokens":120,"do_sample":true,"temperature":1.3,"ignore_eos":true,"seed":`
	words := []string{"girl", "e f", "he ", "ed"} // whole words, across words, parts of tokens
	held := 0
	list, err := json.Marshal(map[string]any{"words": words})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range 10 {
		for _, w := range words {
			if strings.Contains(p.say(t, onceUpon, sampled+strconv.Itoa(seed), "", "").Text, w) {
				held++
				break
			}
		}
		got := p.say(t, onceUpon, sampled+strconv.Itoa(seed), "banned-words", string(list))
		for _, w := range words {
			if strings.Contains(got.Text, w) {
				t.Errorf("seed %d: %q is in %q", seed, w, got.Text)
			}
		}
	}
	if held == 0 {
		t.Error("without the plugin none of the words comes: nothing was shown")
	}
}

func TestStdThinkingBudget(t *testing.T) {
	p := stdPlugins(t)
	got := p.say(t, onceUpon, `"max_new_tokens":40`, "thinking-budget",
		`{"start_inside":true,"budget":8,"close":"\n\nTHE END"}`)
	before, _, ok := strings.Cut(got.Text, "\n\nTHE END")
	if !ok {
		t.Fatalf("the thinking was not ended: %q", got.Text)
	}
	tokens, text := 0, ""
	for _, tok := range got.Details.Tokens {
		if text == before {
			break
		}
		text += tok.Text
		tokens++
	}
	if tokens != 8 {
		t.Errorf("%d tokens before the end in %q, want 8", tokens, got.Text)
	}
	got = p.say(t, onceUpon, `"max_new_tokens":60`, "thinking-budget",
		`{"open":" a","close":".","min":12,"budget":16,"message":" and so on"}`)
	if !strings.Contains(got.Text, " and so on.") {
		t.Errorf("the message does not stand before the close: %q", got.Text)
	}
}

// TestStdWatermark generates with the mark and has the plugin's own detector,
// a program of its own, look for it.
func TestStdWatermark(t *testing.T) {
	long.Test(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here, which runs the detector")
	}
	detector, err := filepath.Abs(filepath.Join("..", "..", "plugins", "std", "watermark", "detect.py"))
	if err != nil {
		t.Fatal(err)
	}
	p := stdPlugins(t)
	score := func(plugin, params string) float64 {
		var ids []int
		for seed := range 6 {
			got := p.say(t, "Tell a story about a fox. ",
				`"max_new_tokens":150,"temperature":1.5,"ignore_eos":true,"seed":`+strconv.Itoa(seed), plugin, params)
			ids = append(ids, got.ids()...)
		}
		return detect(t, python, detector, ids)
	}
	marked, plain := score("watermark", `{"bias":6}`), score("", "")
	t.Logf("z is %.1f with the mark and %.1f without", marked, plain)
	if marked < 6 || plain > 4 {
		t.Errorf("z is %.1f with the mark and %.1f without", marked, plain)
	}
}

// detect returns the z-score that the detector gives to tokens.
func detect(t *testing.T, python, detector string, ids []int) float64 {
	t.Helper()
	list, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, detector)
	cmd.Stdin = strings.NewReader(string(list))
	out, _ := cmd.Output() // its status is its verdict
	_, rest, _ := strings.Cut(string(out), "z = ")
	number, _, _ := strings.Cut(rest, ",")
	z, err := strconv.ParseFloat(number, 64)
	if err != nil {
		t.Fatalf("no z in %q", out)
	}
	return z
}
