package host

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"tgi/server/config"
)

// crowded are requests of each kind: with stop strings, grammars, guards that take text back, programs with branches,
// guidance, beams, healed prompts, adapters and tools, greedy and drawn, whole and streamed. Their prompts share a
// beginning.
func crowded() (list []asked) {
	const begin = "Once upon a time there was a fox who lived in an old mill, and the fox had a red hat"
	add := func(name, settings string) {
		for _, drawn := range []string{`,"seed":11`, `,"seed":11,"temperature":0.9`} {
			for _, route := range []string{"/generate", "/generate_stream"} {
				if route == "/generate_stream" && strings.Contains(drawn, "temperature") {
					continue
				}
				list = append(list, asked{name + drawn, route, fmt.Sprintf(
					`{"inputs":%q,"parameters":{"details":true,"max_new_tokens":60,"ignore_eos":%v%s%s}}`, begin,
					!strings.Contains(settings, "grammar"), settings, drawn)})
			}
		}
	}
	plugin := func(name, params string) string {
		return fmt.Sprintf(`,"plugins":[{"name":%q,"params":%s}]`, name, params)
	}
	add("plain", "")
	add("stop", `,"stop":["day","mill"]`)
	add("top", `,"top_n_tokens":3,"repetition_penalty":1.2`)
	add("healed", `,"token_healing":true`)
	add("grammar", `,"grammar":{"type":"regex","value":"[a-z ,.]{20,60}"}`)
	add("banned", plugin("banned-strings", `{"strings":["fox","the","hat"]}`))
	add("banned by letters", plugin("banned-strings", `{"strings":["e a","in","old mill"]}`))
	add("redacted", plugin("redact", `{}`))
	add("loop", plugin("loop-breaker", `{}`))
	add("dry", plugin("dry", `{"multiplier":1}`))
	add("mirostat", plugin("mirostat", `{}`))
	add("vote", plugin("vote", `{"n":3}`))
	add("judge", plugin("best-of-judge", `{"n":3}`))
	add("repair", plugin("json-repair", `{"schema":{"type":"object","properties":{"a":{"type":"integer"}}}}`))
	list = append(list, asked{"guidance", "/generate", fmt.Sprintf(`{"inputs":%q,"parameters":{"details":true,`+
		`"max_new_tokens":50,"seed":3,"guidance_scale":2,"negative_prompt":"A mill"}}`, begin)},
		asked{"adapter", "/generate", fmt.Sprintf(`{"inputs":%q,"parameters":{"details":true,"max_new_tokens":50,`+
			`"adapter_id":"a1","seed":3,"ignore_eos":true}}`, begin)},
		asked{"beams", "/generate", fmt.Sprintf(
			`{"inputs":%q,"parameters":{"max_new_tokens":30,"num_beams":2}}`, begin)},
		asked{"several", "/v1/completions", fmt.Sprintf(
			`{"prompt":%q,"max_tokens":40,"n":3,"seed":5,"explain":"receipt"}`, begin)},
		asked{"chat", "/v1/chat/completions",
			`{"max_tokens":60,"seed":3,"temperature":0,"explain":"receipt",` + story + `}`},
		asked{"tools", "/v1/chat/completions",
			`{"max_tokens":22,"seed":3,"temperature":0,"explain":"receipt","tools":[` +
				cityTool + `],"messages":[{"role":"user","content":"Weather in Paris?"}]}`})
	return list
}

// own is what each reply has of its own: ids, times, and how much of the prompt the cache held.
var own = regexp.MustCompile(`"(id|created|cached_tokens)":("[^"]*"|[0-9]+)`)

// TestPreemptedAsAlone: in a crowd for which there is no memory, where sequences are preempted again and again while
// guesses are computed, guards take text back and programs hold branches, each request has the reply that it has alone
// on a server with memory and without guesses, byte for byte: tokens, log-probabilities, receipts, usage.
func TestPreemptedAsAlone(t *testing.T) {
	adapters := manyAdapters(t, 2)
	open := func(guesses bool, tokens int) *plugged {
		return programming(t, func(c *config.Config) {
			c.Model.Adapters = adapters
			c.Limits.MaxConcurrentRequests = 512
			if guesses {
				c.Model.Speculation = allGuesses
			}
			c.Limits.MaxTotalTokens, c.Limits.MaxBatchTotalTokens = 128, tokens
			for _, name := range []string{"redact", "loop-breaker", "dry", "mirostat"} {
				c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
					OnError: config.OnErrorFail, Apply: config.ApplyRequest})
			}
		})
	}
	list := crowded()
	ask := func(p *plugged, a asked) string {
		status, reply := p.call(t, http.MethodPost, a.route, []byte(a.body))
		if status != http.StatusOK || strings.Contains(reply, `"error"`) {
			t.Errorf("%s: %d %s", a.name, status, reply)
		}
		return own.ReplaceAllString(reply, "")
	}
	alone := make([]string, len(list))
	quiet := open(false, 1<<14)
	for i, a := range list {
		alone[i] = ask(quiet, a)
	}
	if n := quiet.defaultModel().engine.Stats().Preempted; n != 0 {
		t.Fatalf("%d sequences were preempted where there is room", n)
	}
	p := open(true, 448)
	preempted := func() int { return p.defaultModel().engine.Stats().Preempted }
	for round := 0; round < 2 || preempted() < 20 && round < 20; round++ {
		var wg sync.WaitGroup
		for i, a := range list {
			wg.Go(func() {
				if got := ask(p, a); got != alone[i] {
					t.Errorf("%s, %s:\ntogether %s\nalone    %s", a.name, a.route, got, alone[i])
				}
			})
		}
		wg.Wait()
	}
	_, metrics := p.call(t, http.MethodGet, "/metrics", nil)
	if n := preempted(); n < 20 || !strings.Contains(metrics, fmt.Sprintf("\ntgi_preemption_count %d\n", n)) {
		t.Errorf("%d sequences were preempted", n)
	}
	p.settled(t)
}
