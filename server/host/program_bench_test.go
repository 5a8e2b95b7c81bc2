package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/server/config"
)

// far is a client's connection to a server that is some time away, and counts round trips one behind the other.
type far struct {
	url   string
	away  time.Duration
	trips int
}

// chat sends chats at the same time, one round trip, and returns the replies.
func (f *far) chat(t testing.TB, bodies ...string) []string {
	f.trips++
	time.Sleep(f.away)
	out := make([]string, len(bodies))
	var all sync.WaitGroup
	for i, body := range bodies {
		all.Go(func() {
			res, err := http.Post(f.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			var raw json.RawMessage
			if err := json.NewDecoder(res.Body).Decode(&raw); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%d %v %s", res.StatusCode, err, raw)
			}
			out[i] = string(raw)
		})
	}
	all.Wait()
	return out
}

// answers are the texts of a reply.
func answers(t testing.TB, reply string) (out []string) {
	var r struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal([]byte(reply), &r); err != nil || len(r.Choices) == 0 {
		t.Fatalf("%v: %s", err, reply)
	}
	for _, c := range r.Choices {
		out = append(out, c.Message.Content)
	}
	return out
}

// quoted is a text as JSON.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

const (
	asksForStory = `{"role":"user","content":"Tell me a story about a fox."}`
	asksIfRight  = "Is this answer right? Reply with Yes or No." // each a token of the demo model's
	smallSchema  = `{"type":"object","properties":{"name":{"enum":["fox","hen"]},"old":{"type":"boolean"}},` +
		`"required":["name","old"],"additionalProperties":false}`
)

// tasks are what programs do, and clients without them.
var tasks = []struct {
	name    string
	program string // of the request's plugins
	client  func(t testing.TB, f *far, ask string, seed int) string
}{
	{"best of 8", `{"name":"best-of-judge","params":{"n":8,"question":"` + asksIfRight + `","yes":"Yes","no":"No"}}`, func(t testing.TB, f *far, ask string, seed int) string {
		list := answers(t, f.chat(t, storyBody(ask, seed, `,"n":8,"temperature":0.8`))[0])
		var asks []string
		for _, a := range list {
			asks = append(asks, fmt.Sprintf(`{"model":"x","messages":[%s,{"role":"assistant","content":%s},`+
				`{"role":"user","content":%q}],"max_tokens":1,"temperature":0,"logprobs":true,"top_logprobs":20}`,
				ask, quoted(a), asksIfRight))
		}
		best, most := "", -1e9
		for i, r := range f.chat(t, asks...) {
			sure := judged(t, r, "Yes") - judged(t, r, "No")
			if sure > most {
				best, most = list[i], sure
			}
		}
		return best
	}},
	{"vote of 8", `{"name":"vote","params":{"n":8}}`, func(t testing.TB, f *far, ask string, seed int) string {
		list, votes := answers(t, f.chat(t, storyBody(ask, seed, `,"n":8,"temperature":0.8`))[0]), map[string]int{}
		best := list[0]
		for _, a := range list {
			if votes[a]++; votes[a] > votes[best] {
				best = a
			}
		}
		return best
	}},
	// Both write freely first, and hold a text with a mistake to the schema: the program from the mistake on, the
	// client from the beginning.
	{"repair", `{"name":"json-repair","params":{"tries":1,"schema":` + smallSchema + `}}`, func(t testing.TB, f *far, ask string, seed int) string {
		text := answers(t, f.chat(t, storyBody(ask, seed, ""))[0])[0]
		var v struct{ Name string }
		if json.Unmarshal([]byte(text), &v) == nil && v.Name != "" {
			return text
		}
		return answers(t, f.chat(t, storyBody(ask, seed, `,"response_format":{"type":"json_schema","json_schema":{"name":"x",`+
			`"strict":true,"schema":`+smallSchema+`}}`))[0])[0]
	}},
}

// storyBody is a chat with further members.
func storyBody(ask string, seed int, more string) string {
	return fmt.Sprintf(`{"model":"x","messages":[%s],"max_tokens":24,"seed":%d%s}`, ask, seed, more)
}

// freshStory asks for a story as no other number does, in as many tokens.
func freshStory(number int) string {
	return fmt.Sprintf(`{"role":"user","content":"%04d: tell me a story about a fox."}`, number)
}

// judged is the log-probability of a reply's first token, at most that of the least of those that it lists.
func judged(t testing.TB, reply, token string) float64 {
	var r struct {
		Choices []struct {
			Logprobs struct {
				Content []struct {
					Top []struct {
						Token   string
						Logprob float64
					} `json:"top_logprobs"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(reply), &r); err != nil || len(r.Choices[0].Logprobs.Content) == 0 {
		t.Fatalf("%v: %s", err, reply)
	}
	least := 0.0
	for _, x := range r.Choices[0].Logprobs.Content[0].Top {
		if x.Token == token {
			return x.Logprob
		}
		least = min(least, x.Logprob)
	}
	return least
}

// BenchmarkProgramsAndClients does the same by a program and by a client over HTTP, in turns, at several round-trip
// times: milliseconds of each (the best of those seen), round trips, steps of the model, and computed tokens of
// prompts. Each has a prompt of its own, of which the cache holds nothing, and either goes first as often as the other.
func BenchmarkProgramsAndClients(b *testing.B) {
	p := openChat(b, withPrograms)
	asked := 0
	for _, task := range tasks {
		for _, away := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond} {
			b.Run(fmt.Sprintf("%s/rtt=%v", task.name, away), func(b *testing.B) {
				rounds := 0
				ways := [2]spent{{way: "program", best: time.Hour}, {way: "client", best: time.Hour}}
				for ; b.Loop(); rounds++ {
					for i := range ways {
						asked++
						ask, f := freshStory(asked), &far{url: p.url, away: away}
						ways[(i+rounds)%2].add(p, f, func(program bool) {
							if program {
								f.chat(b, storyBody(ask, rounds+1, `,"plugins":[`+task.program+`]`))
							} else {
								task.client(b, f, ask, rounds+1)
							}
						})
					}
				}
				for _, w := range ways {
					b.ReportMetric(float64(w.best.Microseconds())/1000, w.way+"-ms")
					b.ReportMetric(float64(w.trips)/float64(rounds), w.way+"-trips")
					b.ReportMetric(float64(w.steps)/float64(rounds), w.way+"-steps")
					b.ReportMetric(float64(w.prompts)/float64(rounds), w.way+"-prompt-tokens")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// spent is what one way took in all rounds, and the time of the fastest.
type spent struct {
	way                   string
	best                  time.Duration
	trips, steps, prompts int
}

// add adds a round.
func (w *spent) add(p *plugged, f *far, do func(program bool)) {
	before, began := p.defaultModel().engine.Stats(), time.Now()
	do(w.way == "program")
	w.best = min(w.best, time.Since(began))
	after := p.defaultModel().engine.Stats()
	w.trips, w.steps = w.trips+f.trips, w.steps+after.Steps-before.Steps
	w.prompts += after.PrefillTokens - before.PrefillTokens
}

// withPrograms adds the built-in programs to settings.
func withPrograms(c *config.Config) {
	c.Limits.MaxBestOf = 8
	for _, name := range []string{"best-of-judge", "vote", "json-repair", "banned-strings"} {
		c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	}
}

// TestAnswersAreJudgedTogether: a step computes the judgements of several answers, so that a program takes as many
// steps as a client that asks them all at once, and fewer round trips. It computes as many tokens of prompts, but for
// the last one of what it forks; and where a reply has two tokens, these, and one of the context, for each reply.
func TestAnswersAreJudgedTogether(t *testing.T) {
	p := openChat(t, withPrograms)
	for round := range 4 {
		ways := [2]spent{{way: "program"}, {way: "client"}}
		words, more := tasks[0].program, 1
		if round > 1 {
			words, more = `{"name":"best-of-judge","params":{"n":8,"question":"`+asksIfRight+`"}}`, 1+8*(2+1+2)
		}
		for i := range ways {
			f, ask := &far{url: p.url}, freshStory(2*round+i)
			ways[(i+round)%2].add(p, f, func(program bool) {
				if program {
					f.chat(t, storyBody(ask, round+1, `,"plugins":[`+words+`]`))
				} else {
					tasks[0].client(t, f, ask, round+1)
				}
			})
		}
		program, client := ways[0], ways[1]
		t.Logf("%d steps, client %d; %d tokens of prompts, client %d", program.steps, client.steps, program.prompts,
			client.prompts)
		if program.steps > 24+7 { // one for each token, and few for eight questions
			t.Errorf("round %d: %d steps of the program, %d of the client", round, program.steps, client.steps)
		}
		if program.prompts > client.prompts+more {
			t.Errorf("round %d: %d tokens of prompts, %d of the client", round, program.prompts, client.prompts)
		}
	}
}

// TestForksShareThePrompt: contexts that are forked before anything was computed do not each compute the prompt.
func TestForksShareThePrompt(t *testing.T) {
	p := openChat(t, withPrograms)
	prompt := strings.Repeat("Once upon a time there was a fox. ", 20)
	body := fmt.Sprintf(`{"inputs":%q,"parameters":{"max_new_tokens":4,"plugins":[{"name":"vote","params":{"n":8}}]}}`, prompt)
	n := len(p.defaultModel().tokenizer.Encode(prompt, true))
	before := p.defaultModel().engine.Stats().PrefillTokens
	status, text := p.call(t, http.MethodPost, "/generate", []byte(body))
	computed := p.defaultModel().engine.Stats().PrefillTokens - before
	if status != http.StatusOK || n < 64 || computed > n+8*16 {
		t.Errorf("%d %s: %d tokens were computed of a prompt of %d", status, text, computed, n)
	}
}

// TestNextAnswerIsTried: where a guard refuses the best answer, the next one is sent.
func TestNextAnswerIsTried(t *testing.T) {
	p := openChat(t, withPrograms)
	judge := `,"plugins":[{"name":"best-of-judge","params":{"n":6}}%s]`
	best := answers(t, (&far{url: p.url}).chat(t, storyBody(asksForStory, 3, fmt.Sprintf(judge, "")))[0])[0]
	words := strings.Fields(best)
	if len(words) < 4 {
		t.Fatalf("too short: %q", best)
	}
	banned := strings.Join(words[len(words)-3:len(words)-1], " ")
	body := storyBody(asksForStory, 3, fmt.Sprintf(judge,
		`,{"name":"banned-strings","params":{"strings":[`+quoted(banned)+`]}}`))
	status, text := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(body))
	if status != http.StatusOK || !strings.Contains(text, `"usage"`) {
		t.Fatalf("%d %s", status, text)
	}
	if next := answers(t, text)[0]; next == best || strings.Contains(next, banned) || len(next) < 4 {
		t.Errorf("%q, the best was %q, banned %q", next, best, banned)
	}
}
