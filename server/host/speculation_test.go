package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tgi/conformance/long"
	"tgi/server/config"
)

// allGuesses is speculation that computes every guess.
var allGuesses = config.Speculation{Kinds: config.SpeculationKinds, Tokens: 8, Always: true}

// guessing opens two servers with conversations: one that guesses nothing, and one that computes every guess.
func guessing(t *testing.T) (plain, guesses *plugged) {
	return openGuessing(t, config.Speculation{}, nil),
		openGuessing(t, config.Speculation{Kinds: config.SpeculationKinds, Tokens: 7, Always: true}, nil)
}

// keptExamples are plugins of the SDKs' examples that are uploaded, as canaries want them.
var keptExamples = []struct {
	language string
	names    []string
}{
	{"go", []string{"every-mode", "banned-and-boost"}},
	{"rust", []string{"every-mode", "banned-and-boost", "epsilon-greedy", "picture"}},
	{"c", []string{"every-mode", "banned-and-boost", "epsilon-greedy", "picture"}},
	{"assemblyscript", []string{"every-mode", "banned-and-boost", "epsilon-greedy", "picture"}},
}

// openGuessing opens one of them.
func openGuessing(t *testing.T, s config.Speculation, change func(*config.Config)) *plugged {
	p := openChat(t, func(c *config.Config) {
		c.Model.Speculation = s
		c.Limits.MaxBestOf = 3
		for _, name := range []string{"no-repeat-ngram", "dry", "xtc", "mirostat", "banned-words",
			"thinking-budget", "watermark", "banned-strings", "redact", "loop-breaker"} {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
				OnError: config.OnErrorFail, Apply: config.ApplyRequest})
		}
		if change != nil {
			change(c)
		}
	})
	for _, x := range keptExamples {
		for _, name := range x.names {
			p.upload(t, x.language+"-"+name, sdkGuest(t, x.language, name))
		}
	}
	return p
}

// TestGuessesChangeNothing: with every plugin of the tree, every language of grammars and the schemas of the test suite
// a reply has the same bytes with guesses as without, whole and streamed, on every API, and plugins take the same fuel;
// also where the guesses are anything, in any number. So it is in fp32, which this model comes in, and in int8; under
// TGI_LONG in int4, too, with more seeds.
func TestGuessesChangeNothing(t *testing.T) {
	list := treePlugins(t)
	formats := map[string]int{config.WeightsFP32: long.Count(4, 6), config.WeightsInt8: long.Count(1, 3)}
	if long.Enabled() {
		formats[config.WeightsInt4] = 3
	}
	for format, seeds := range formats {
		t.Run(format, func(t *testing.T) {
			weights := func(c *config.Config) { c.Model.Weights = format }
			plain := openEvery(t, list, config.Speculation{}, weights)
			guesses := openEvery(t, list, allGuesses, weights)
			g := guessFor(t, guesses)
			all := slices.Concat(everyPlugin(list, seeds), everyGrammar(seeds), everyChat(), everyCall(),
				everySchema(t, long.Count(1, 3), long.Enabled()))
			sameReplies(t, plain, guesses, all)
			few, many := guesses.defaultModel().engine.Stats().Steps, plain.defaultModel().engine.Stats().Steps
			t.Logf("%d requests: %d steps, %d without guesses; guessed tokens\n%s", len(all), few, many,
				strings.Join(guesses.lines(t, "tgi_draft_tokens_total"), "\n"))
			if few*10 > many*9 {
				t.Errorf("%d steps, %d without guesses: nothing was shown", few, many)
			}
			routes, shown := everyRoute(list, long.Enabled())
			sameReplies(t, plain, guesses, routes)
			t.Logf("%d requests on %d routes: %v", len(routes), len(shown), shown)
			for name, n := range shown {
				if n < 2 {
					t.Errorf("%s: %d requests", name, n)
				}
			}
			sameWork(t, list, plain, guesses, slices.Concat(all, routes))
			anyGuess(t, plain, guesses, g, list, slices.Concat(everyPlugin(list, long.Count(1, 2)),
				everyGrammar(long.Count(1, 2)), everyChat(), everyCall(), everySchema(t, 1, long.Enabled())))
		})
	}
}

// sameReplies asks two servers the same, and wants the same bytes.
func sameReplies(t *testing.T, plain, guesses *plugged, list []asked) {
	t.Helper()
	for _, a := range list {
		if _, err := same(t, plain, guesses, a); err != nil {
			t.Error(err)
		}
	}
}

// anyGuess wants the same replies, for the same fuel, whatever is guessed, from none to 8 tokens: each request has one
// way of guessing, or under TGI_LONG all, and each way comes in each length.
func anyGuess(t *testing.T, plain, guesses *plugged, g *guesser, tree []treePlugin, list []asked) {
	t.Helper()
	played, unsteady := 0, []string{config.TemplatePlugin}
	for _, x := range tree {
		if !x.steadyFuel() {
			unsteady = append(unsteady, x.name)
		}
	}
	for i, a := range list {
		g.next(true, nil, 0)
		before := guesses.fuel(t)
		want, err := same(t, plain, guesses, a)
		if err != nil {
			t.Error(err)
			continue
		}
		alone := fuelBetween(before, guesses.fuel(t), unsteady)
		for j := range guessWays {
			play, most := &guessWays[(i+j)%len(guessWays)], (i/len(guessWays)+j)%9
			if j > 0 && !long.Enabled() {
				break
			}
			played++
			g.next(false, play, most)
			before = guesses.fuel(t)
			if _, got := guesses.call(t, http.MethodPost, a.route, []byte(a.body)); steady(got) != steady(want) {
				t.Errorf("%s, guesses %s, %d tokens: got %s\nwant %s", a.name, play.name, most, got, want)
			}
			if took := fuelBetween(before, guesses.fuel(t), unsteady); !maps.Equal(took, alone) {
				t.Errorf("%s, guesses %s, %d tokens: fuel %v, without guesses %v", a.name, play.name, most, took, alone)
			}
		}
	}
	g.next(false, nil, 0)
	t.Logf("%d requests with any guesses, by source\n%s", played,
		strings.Join(guesses.lines(t, "tgi_draft_tokens_total"), "\n"))
	for _, x := range guesses.lines(t, "tgi_draft_tokens_total") {
		if strings.Contains(x, `source="plugin"`) && strings.HasSuffix(x, " 0") {
			t.Errorf("nothing was shown: %s", x)
		}
	}
	if played < 9*len(guessWays) {
		t.Errorf("%d requests do not come to each way of guessing in each length", played)
	}
}

// fuel is what each plugin has taken, once nothing of any request is left.
func (p *plugged) fuel(t *testing.T) map[string]uint64 {
	t.Helper()
	p.quiet(t)
	_, fuel := p.figures()
	return fuel
}

// fuelBetween is the fuel between two looks, by plugin: of those that took any, but for the unsteady.
func fuelBetween(before, after map[string]uint64, unsteady []string) map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range after {
		if n != before[name] && !slices.Contains(unsteady, name) {
			out[name] = n - before[name]
		}
	}
	return out
}

// lines are those of a metric.
func (p *plugged) lines(t *testing.T, metric string) (out []string) {
	_, text := p.call(t, http.MethodGet, "/metrics", nil, "Authorization", "Bearer "+adminKey)
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, metric+"{") && !strings.Contains(line, "chat-template") { // which writes the time
			out = append(out, line)
		}
	}
	return out
}

// TestClosedSchemaTakesFewSteps: where a schema leaves little choice, most tokens come several in a step: those of
// calls such as the demo model was trained for, and fewer of an object that it would never write, since it cuts that
// into tokens as nobody else would. How many of the guesses a server computes that weighs them depends on the machine:
// of that one only the texts are compared.
func TestClosedSchemaTakesFewSteps(t *testing.T) {
	plain, guesses := guessing(t)
	auto := openGuessing(t, config.Default().Model.Speculation, nil)
	schema := `{"type":"object","properties":{"kind":{"const":"invoice"},"currency":{"enum":["EUR","USD"]},` +
		`"paid":{"type":"boolean"},"delivery_address_is_billing_address":{"type":"boolean"},` +
		`"customer_status":{"enum":["new","returning","unknown"]},` +
		`"next_action":{"enum":["send reminder","close the case"]}},` +
		`"required":["kind","currency","paid","delivery_address_is_billing_address","customer_status","next_action"],` +
		`"additionalProperties":false}`
	object := func(space string) string {
		return fmt.Sprintf(`{"model":"x","messages":[{"role":"user","content":"Describe the invoice."}],`+
			`"max_tokens":200,"temperature":0.8,"grammar":{"type":"json","value":%s,"params":{"whitespace":%q}},"seed":`, schema, space)
	}
	call := `{"model":"x","messages":[{"role":"user","content":"What is the weather in Paris?"}],"max_tokens":200,` +
		`"temperature":0.8,"tool_choice":"required","tools":[{"type":"function","function":{"name":"get_weather",` +
		`"description":"Get the current weather for a city","strict":true,"parameters":{"type":"object","properties":` +
		`{"city":{"type":"string","enum":["Paris","London"]},"unit":{"type":"string","enum":["celsius","fahrenheit"]}},` +
		`"required":["city","unit"],"additionalProperties":false}}}],"seed":`
	for _, c := range []struct {
		name, body string
		most       float64 // steps per token
	}{
		{"a call", call, 0.3},
		{"an object, compact", object("compact"), 0.5},
		{"an object, flexible", object("flexible"), 0.6},
	} {
		steps, autoSteps, tokens := 0, 0, 0
		for seed := range 5 {
			body := fmt.Appendf(nil, "%s%d}", c.body, seed+1)
			_, want := plain.call(t, http.MethodPost, "/v1/chat/completions", body)
			status, got, n := guesses.stepsFor(t, body)
			_, same, more := auto.stepsFor(t, body)
			steps, autoSteps = steps+n, autoSteps+more
			var r struct {
				Usage struct {
					Tokens int `json:"completion_tokens"`
				}
			}
			err := json.Unmarshal([]byte(got), &r)
			if err != nil || status != http.StatusOK || steady(got) != steady(want) || steady(same) != steady(want) {
				t.Fatalf("%s, seed %d: %v\n%s\n%s\n%s", c.name, seed, err, got, same, want)
			}
			if tokens += r.Usage.Tokens; seed == 0 {
				t.Log(got)
			}
		}
		ratio := float64(steps) / float64(tokens)
		t.Logf("%s: %d steps for %d tokens, %.2f; %.2f where the server computes what pays", c.name, steps, tokens, ratio,
			float64(autoSteps)/float64(tokens))
		if ratio > c.most {
			t.Errorf("%s: %d steps for %d tokens, %.2f, want %.2f at most", c.name, steps, tokens, ratio, c.most)
		}
	}
	t.Log(strings.Join(guesses.lines(t, "tgi_draft_tokens_total"), "\n"))
}

// stepsFor asks for a chat, and returns the reply and how many steps the model took for it.
func (p *plugged) stepsFor(t *testing.T, body []byte) (status int, reply string, steps int) {
	t.Helper()
	before := p.defaultModel().engine.Stats().Steps
	status, reply = p.call(t, http.MethodPost, "/v1/chat/completions", body)
	return status, reply, p.defaultModel().engine.Stats().Steps - before
}

// TestPredictionIsCounted: usage tells what became of a prediction, and only of one.
func TestPredictionIsCounted(t *testing.T) {
	plain, guesses := guessing(t)
	body := `{"model":"x","max_tokens":60,"temperature":0,` + story
	type reply struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Details *struct {
				Accepted int `json:"accepted_prediction_tokens"`
				Rejected int `json:"rejected_prediction_tokens"`
			} `json:"completion_tokens_details"`
		}
	}
	ask := func(p *plugged, more string) (r reply) {
		status, text := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(body+more+"}"))
		if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return r
	}
	want := ask(plain, "")
	text := want.Choices[0].Message.Content
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	half := len(text) / 2
	parts := fmt.Sprintf(`[{"type":"text","text":%q},{"type":"text","text":%q}]`, text[:half], text[half:])
	for name, c := range map[string]struct {
		p            *plugged
		more         string
		accepted, no bool
	}{
		"a text":       {guesses, `,"prediction":{"type":"content","content":` + string(quoted) + `}`, true, false},
		"parts":        {guesses, `,"prediction":{"type":"content","content":` + parts + `}`, true, false},
		"empty":        {guesses, `,"prediction":{"type":"content","content":""}`, false, false},
		"null":         {guesses, `,"prediction":null`, false, true},
		"none":         {guesses, ``, false, true},
		"nobody looks": {plain, `,"prediction":{"type":"content","content":` + string(quoted) + `}`, false, false},
	} {
		r := ask(c.p, c.more)
		d := r.Usage.Details
		if r.Choices[0].Message.Content != text || (d == nil) != c.no || d != nil && (d.Accepted > 10) != c.accepted {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for more, want := range map[string]string{
		`,"prediction":{"type":"text","content":"a"}`:                                        "`prediction.type` must be",
		`,"prediction":{"type":"content","content":[{"type":"x","text":"a"}]}`:               "`prediction.content[0].type` must be",
		`,"prediction":{"type":"content"}`:                                                   "missing field `content`",
		`,"prediction":{"type":"content","content":"` + strings.Repeat("ab ", 20_000) + `"}`: "`prediction` must have at most",
	} {
		status, text := guesses.call(t, http.MethodPost, "/v1/chat/completions", []byte(body+more+"}"))
		refused := status == http.StatusUnprocessableEntity || status == http.StatusBadRequest
		if !refused || !strings.Contains(text, want) {
			t.Errorf("%.80s: %d %s", more, status, text)
		}
	}
	if _, info := guesses.call(t, http.MethodGet, "/info", nil); !strings.Contains(info, `"speculate":7`) {
		t.Error(info)
	}
	if _, info := plain.call(t, http.MethodGet, "/info", nil); strings.Contains(info, `speculate`) {
		t.Error(info)
	}
}

// TestPredictionsChangeNothing: with every plugin, example and language of grammars the choices of a chat, with their
// log-probabilities, are the same whatever is predicted: what comes, what comes with every third word wrong, or
// something else; and plugins take the same fuel.
func TestPredictionsChangeNothing(t *testing.T) {
	list := treePlugins(t)
	plain := openEvery(t, list, config.Speculation{}, nil)
	few := openEvery(t, list, config.Speculation{Kinds: []string{"prediction"}, Tokens: 2, Always: true}, nil)
	many := openEvery(t, list, config.Speculation{Kinds: []string{"prediction"}, Tokens: 8, Always: true}, nil)
	choices := func(p *plugged, body string) (raw, text string) {
		t.Helper()
		status, reply := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(body))
		var r struct{ Choices json.RawMessage }
		if err := json.Unmarshal([]byte(reply), &r); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s: %s", status, reply, body)
		}
		return string(r.Choices), answers(t, reply)[0]
	}
	asks := 0
	for _, a := range slices.Concat(everyPlugin(list, long.Count(2, 3)), everyGrammar(3)) {
		var q struct {
			Parameters map[string]json.RawMessage
		}
		if a.route != "/generate" || json.Unmarshal([]byte(a.body), &q) != nil {
			continue
		}
		body := `{"model":"x","max_tokens":24,"logprobs":true,"top_logprobs":2,"messages":[{"role":"user","content":` +
			quoted(redHat) + `}]`
		for _, key := range []string{"seed", "temperature", "top_p", "plugins", "grammar", "stop"} {
			if v, ok := q.Parameters[key]; ok {
				body += fmt.Sprintf(",%q:%s", key, v)
			}
		}
		want, text := choices(plain, body+"}")
		words := strings.SplitAfter(text, " ")
		for i := range words {
			if i%3 == 2 {
				words[i] = "other "
			}
		}
		for _, guess := range []string{text, strings.Join(words, ""), "Once " + redHat} {
			predicted := body + `,"prediction":{"type":"content","content":` + quoted(guess) + `}}`
			for _, p := range []*plugged{few, many} {
				if got, _ := choices(p, predicted); got != want {
					t.Errorf("%s, predicted %q: %s, want %s", a.name, guess, got, want)
				}
			}
		}
		for range 2 { // as many requests as the others had
			choices(plain, body+"}")
		}
		asks++
	}
	right := strings.Join(many.lines(t, "tgi_draft_tokens_total"), "\n")
	t.Logf("%d chats, guesses\n%s", asks, right)
	for _, p := range []*plugged{few, many} {
		got, want := p.lines(t, "tgi_plugin_fuel_total"), plain.lines(t, "tgi_plugin_fuel_total")
		if len(want) < 10 || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("fuel\n%s\nwithout guesses\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for _, of := range []string{`{source="prediction",accepted="true"} 0`, `{source="prediction",accepted="false"} 0`} {
		if strings.Contains(right, of) {
			t.Errorf("nothing was shown: %s", of)
		}
	}
}
