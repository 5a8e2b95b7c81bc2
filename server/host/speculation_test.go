package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// guessing opens two servers with all built-in plugins and the SDKs' examples: one that guesses nothing, and one that
// computes every guess.
func guessing(t *testing.T) (plain, guesses *plugged) {
	return openGuessing(t, config.Speculation{}, nil),
		openGuessing(t, config.Speculation{Kinds: config.SpeculationKinds, Tokens: 7, Always: true}, nil)
}

// openGuessing opens one of them.
func openGuessing(t *testing.T, s config.Speculation, change func(*config.Config)) *plugged {
	p := openChat(t, func(c *config.Config) {
		c.Model.Speculation = s
		c.Limits.MaxBestOf = 3
		for _, name := range []string{"no-repeat-ngram", "dry", "xtc", "mirostat", "banned-words",
			"thinking-budget", "watermark", "banned-strings", "redact", "loop-breaker", "vote", "best-of-judge",
			"json-repair", "budget-then-answer"} {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
				OnError: config.OnErrorFail, Apply: config.ApplyRequest})
		}
		if change != nil {
			change(c)
		}
	})
	for _, language := range languages {
		for _, name := range []string{"every-mode", "banned-and-boost", "epsilon-greedy", "picture"} {
			if language == "go" && (name == "epsilon-greedy" || name == "picture") {
				continue // a Go module of its own is not among those that are kept
			}
			p.upload(t, language+"-"+name, sdkGuest(t, language, name))
		}
	}
	return p
}

// asked is a request to a route.
type asked struct{ name, route, body string }

// everyKind lists requests with each plugin, example and language of grammars, greedy and drawn. The prompts repeat
// themselves, so that there is something to guess.
func everyKind(seeds int) (list []asked) {
	every := `{"mode":"sparse","ids":[97,98,200,300,400],"bias":6,"random":true,"force_at":3,"force":[500,501,502,503]}`
	plugins := map[string]string{
		"":                "",
		"no-repeat-ngram": `{"n":3}`, "dry": `{"multiplier":2}`, "xtc": `{"probability":0.6,"threshold":0.05}`,
		"mirostat": `{"tau":1.5}`, "banned-words": `{"words":["red","hat"]}`, "watermark": `{"bias":3}`,
		"thinking-budget": `{"open":" a","close":".","min":3,"budget":8,"message":" and so on"}`,
		"redact":          `{"strings":["red hat","fox"],"with":"#"}`, "loop-breaker": `{"tokens":4,"rounds":2}`,
		"banned-strings": `{"strings":["garden","found a"]}`,
	}
	for _, language := range languages {
		plugins[language+"-every-mode"] = every
		plugins[language+"-banned-and-boost"] = `{"ban":[300,301],"boost":{"#200":3,"#201":-2}}`
		if language != "go" {
			plugins[language+"-epsilon-greedy"] = `{"epsilon":0.2,"margin":3}`
		}
	}
	for name, params := range plugins {
		member := ""
		if name != "" {
			member = fmt.Sprintf(`,"plugins":[{"name":%q,"params":%s}]`, name, params)
		}
		for seed := range seeds {
			drawn := fmt.Sprintf(`,"seed":%d`, seed+1)
			if seed > 0 {
				drawn += `,"temperature":0.7`
			}
			if seed > 1 {
				drawn += `,"top_p":0.95,"repetition_penalty":1.05`
			}
			list = append(list, asked{fmt.Sprintf("%s, seed %d", name, seed), "/generate", fmt.Sprintf(
				`{"inputs":%q,"parameters":{"details":true,"max_new_tokens":24,"top_n_tokens":2,"stop":["zebra"]%s%s}}`,
				redHat, drawn, member)})
		}
	}
	schema := `{"type":"object","properties":{"animal":{"enum":["red fox","red hen"]},"found":{"const":"a red hat"},` +
		`"place":{"enum":["garden","forest"]}},"required":["animal","found","place"],"additionalProperties":false}`
	grammars := map[string]string{
		"json":    `{"type":"json","value":` + schema + `}`,
		"regex":   `{"type":"regex","value":"Mia found (a red hat|a blue hat)\\. The end\\."}`,
		"open":    `{"type":"regex","value":"[a-z ]{5,40}\\."}`,
		"picture": `{"type":"grammar","language":"picture","value":"@@-##"}`,
		"choice":  `{"type":"choice","value":["Mia found a red hat","Mia found a blue hat"]}`,
		"gbnf":    `{"type":"grammar","language":"gbnf","value":"root ::= (\"Mia \" (\"found\" | \"lost\") \" a red hat. \")+"}`,
		"lark":    `{"type":"grammar","language":"lark","value":"start: (\"a red hat\" | \"a blue hat\") \" in the \" /[a-z ]+/"}`,
		"tags": `{"type":"structural_tag","value":{"type":"structural_tag","format":{"type":"triggered_tags",` +
			`"triggers":["Mia"],"tags":[{"begin":"Mia","end":"hat","content":{"type":"regex",` +
			`"pattern":" found a (red|blue) "}}]}}}`,
	}
	for name, g := range grammars {
		for seed := range seeds {
			drawn := fmt.Sprintf(`,"seed":%d`, seed+1)
			if seed > 0 {
				drawn += `,"temperature":1.2`
			}
			for _, more := range []string{"", `,"plugins":[{"name":"dry","params":{"multiplier":1}}]`} {
				list = append(list, asked{fmt.Sprintf("grammar %s, seed %d %s", name, seed, more), "/generate",
					fmt.Sprintf(`{"inputs":%q,"parameters":{"details":true,"max_new_tokens":60,"grammar":%s%s%s}}`, redHat, g, drawn, more)})
			}
		}
	}
	ask := `[{"role":"user","content":"Tell me a story about a fox."}]`
	for _, more := range []string{
		`,"n":3,"seed":4,"logprobs":true,"top_logprobs":2`, `,"temperature":0,"frequency_penalty":0.5`,
		`,"seed":3,"stop":["fox"]`,
	} {
		list = append(list, asked{"chat" + more, "/v1/chat/completions",
			`{"model":"x","max_tokens":40,"messages":` + ask + more + `}`})
	}
	return list
}

// everyProgram lists requests with each built-in program.
func everyProgram(seeds int) (list []asked) {
	for name, params := range map[string]string{"vote": `{"n":2}`, "best-of-judge": `{"n":2}`,
		"json-repair": `{"schema":{"type":"object"}}`, "budget-then-answer": `{}`} {
		for seed := range seeds {
			list = append(list, asked{fmt.Sprintf("%s, seed %d", name, seed), "/generate", fmt.Sprintf(
				`{"inputs":%q,"parameters":{"details":true,"max_new_tokens":24,"top_n_tokens":2,"seed":%d,"temperature":0.7,`+
					`"plugins":[{"name":%q,"params":%s}]}}`, redHat, seed+1, name, params)})
		}
	}
	return list
}

// TestGuessesChangeNothing: with every plugin, program, example and language of grammars a reply has the same bytes
// with guesses as without, and plugins take the same fuel.
func TestGuessesChangeNothing(t *testing.T) {
	plain, guesses := guessing(t)
	seeds := 4
	if !testing.Short() {
		seeds = 21
	}
	list := append(everyKind(seeds), everyProgram(1+seeds/4)...)
	for _, a := range list {
		status, want := plain.call(t, http.MethodPost, a.route, []byte(a.body))
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", a.name, status, want)
		}
		if _, got := guesses.call(t, http.MethodPost, a.route, []byte(a.body)); steady(got) != steady(want) {
			t.Errorf("%s: got %s\nwant %s", a.name, got, want)
		}
	}
	few, many := guesses.defaultModel().engine.Stats().Steps, plain.defaultModel().engine.Stats().Steps
	t.Logf("%d requests: %d steps, %d without guesses; guessed tokens\n%s", len(list), few, many,
		strings.Join(guesses.lines(t, "tgi_draft_tokens_total"), "\n"))
	if few*10 > many*9 {
		t.Errorf("%d steps, %d without guesses: nothing was shown", few, many)
	}
	got, want := guesses.lines(t, "tgi_plugin_fuel_total"), plain.lines(t, "tgi_plugin_fuel_total")
	if len(want) < 10 || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("fuel\n%s\nwithout guesses\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// steady is a reply without what is different each time.
func steady(reply string) string {
	var all map[string]any
	if json.Unmarshal([]byte(reply), &all) != nil {
		return reply
	}
	delete(all, "id")
	delete(all, "created")
	text, err := json.Marshal(all)
	if err != nil {
		return reply
	}
	return string(text)
}

// lines are those of a metric.
func (p *plugged) lines(t *testing.T, metric string) (out []string) {
	_, text := p.call(t, http.MethodGet, "/metrics", nil)
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
	body := `{"model":"x","max_tokens":60,"temperature":0,"messages":[{"role":"user","content":"Tell me a story about a fox."}]`
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
	plain := openGuessing(t, config.Speculation{}, nil)
	few := openGuessing(t, config.Speculation{Kinds: []string{"prediction"}, Tokens: 2, Always: true}, nil)
	many := openGuessing(t, config.Speculation{Kinds: []string{"prediction"}, Tokens: 8, Always: true}, nil)
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
	for _, a := range everyKind(3) {
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
