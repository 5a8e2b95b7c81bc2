package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/server/config"
)

// programming opens a server with the built-in programs, and one that does what its parameter says: the folder
// testdata/hostile has its source. TGI_VERIFY's checks run after each step.
func programming(t *testing.T, change func(*config.Config)) *plugged {
	return openChat(t, func(c *config.Config) {
		c.Runtime.Verify = true
		c.Limits.MaxBestOf = 3
		add := func(name, source string) {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: source, OnError: config.OnErrorFail,
				Apply: config.ApplyRequest})
		}
		add("hostile", "testdata/hostile.wasm")
		for _, name := range []string{"best-of-judge", "vote", "json-repair", "budget-then-answer", "banned-strings"} {
			add(name, config.Builtin+name)
		}
		if change != nil {
			change(c)
		}
	})
}

// do is the list of plugins of a request with the program that does something.
func do(what string) string {
	return fmt.Sprintf(`[{"name":"hostile","params":{"do":%q}}]`, what)
}

// TestProgramAsARequest: a program that generates and emits once gives the reply that there is without it: on each
// route, with seeds, stop strings, log-probabilities and n.
func TestProgramAsARequest(t *testing.T) {
	p := programming(t, nil)
	for _, r := range spokenRoutes() {
		if r.name == "chat, tools" {
			continue // calls are not held to their tools, a program writes them
		}
		_, want := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, ""))
		for _, what := range []string{"plain", "stream"} {
			member := "," + fmt.Sprintf(r.plugins, do(what))
			status, got := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, member))
			if w, g := tell(t, want), tell(t, got); status != http.StatusOK || fmt.Sprint(w) != fmt.Sprint(g) {
				t.Errorf("%s, %s: %d %v, want %v", r.name, what, status, g, w)
			}
			path := r.path
			if strings.HasPrefix(r.stream, "/") {
				path = r.stream
			} else {
				member += "," + r.stream
			}
			_, pieces := p.call(t, http.MethodPost, path, fmt.Appendf(nil, r.body, member))
			if a, b := joined(tell(t, want)), joined(tell(t, pieces)); a != b {
				t.Errorf("%s, %s, streamed: %q, want %q", r.name, what, b, a)
			}
		}
	}
}

// TestForkOfLongContext: a context that is too long to be a prompt can be forked, rewound and go on.
func TestForkOfLongContext(t *testing.T) {
	p := programming(t, func(c *config.Config) { c.Limits.MaxInputTokens, c.Limits.MaxTotalTokens = 40, 100 })
	status, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
		`{"inputs":"Once upon a time","parameters":{"max_new_tokens":24,"plugins":%s}}`, do("long fork")))
	if status != http.StatusOK || got != `{"generated_text":"forked"}` {
		t.Errorf("%d %s", status, got)
	}
}

// TestProgramContexts: what was forked, rewound and generated in pieces is what is generated at once, and scores,
// candidates and rows agree.
func TestProgramContexts(t *testing.T) {
	p := programming(t, nil)
	const body = `{"inputs":"Once upon a time","parameters":{"max_new_tokens":24%s}}`
	_, want := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body, ""))
	_, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body, `,"plugins":`+do("split")))
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, got = p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body, `,"plugins":`+do("score"))); got !=
		`{"generated_text":"even"}` {
		t.Error(got)
	}
}

// TestProgramMixesByHand: a program that mixes two contexts step by step, by their rows of logits, writes what guidance
// does, which is why there is no import for it; it takes a step for each token, as that does.
func TestProgramMixesByHand(t *testing.T) {
	p := programming(t, nil)
	const body = `{"inputs":"Once upon a time there","parameters":{"max_new_tokens":20,"ignore_eos":true%s}}`
	for _, scale := range []string{"1.5", "3", "0.25"} {
		_, want := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body, `,"guidance_scale":`+scale))
		before := p.defaultModel().engine.Stats().Steps
		status, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body, fmt.Sprintf(
			`,"plugins":[{"name":"hostile","params":{"do":"mix","scale":%s}}]`, scale)))
		steps := p.defaultModel().engine.Stats().Steps - before
		if status != http.StatusOK || got != want || steps > 20+2 {
			t.Errorf("scale %s: %s in %d steps, guidance %s", scale, got, steps, want)
		}
	}
}

// TestProgramUsage: a reply of a program counts the tokens of its prompt that the cache held, as one without does.
func TestProgramUsage(t *testing.T) {
	p := programming(t, nil)
	cached := func(prompt, more string) (n int) {
		t.Helper()
		status, got := p.call(t, http.MethodPost, "/v1/completions", fmt.Appendf(nil,
			`{"prompt":%q,"max_tokens":4,"temperature":0%s}`, prompt, more))
		var r struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(got), &r); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, got)
		}
		return r.Usage.Details.Cached
	}
	for _, what := range []string{"plain", "stream", "split", "score"} {
		prompt := what + strings.Repeat(" once upon a time there was a fox", 20)
		plugins := `,"plugins":` + do(what)
		if n := cached(prompt, plugins); n != 0 {
			t.Errorf("%s: %d of a new prompt", what, n)
		}
		want := cached(prompt, "")
		if n := cached(prompt, plugins); n != want || n == 0 {
			t.Errorf("%s: %d, want %d", what, n, want)
		}
	}
}

// TestProgramIsExplained: tokens that a run of a program picked are explained as those of a reply without it, on each
// route, streamed and not; those that it wrote itself are told as such; and replies have the receipt that they would
// have, with the program in it.
func TestProgramIsExplained(t *testing.T) {
	p := programming(t, func(c *config.Config) { c.Model.Speculation = config.Speculation{} })
	for _, r := range spokenRoutes() {
		if r.name == "chat, tools" {
			continue // calls are not held to their tools, a program writes them
		}
		for _, stream := range []bool{false, true} {
			path, more := r.path, `,"explain":{"tokens":12}`
			switch {
			case stream && strings.HasPrefix(r.stream, "/"):
				path = r.stream
			case stream:
				more += "," + r.stream
			}
			_, plain := p.call(t, http.MethodPost, path, fmt.Appendf(nil, r.body, more))
			want, _ := explanations(t, plain)
			for _, what := range []string{"plain", "stream"} {
				status, text := p.call(t, http.MethodPost, path, fmt.Appendf(nil, r.body, more+","+
					fmt.Sprintf(r.plugins, do(what))))
				got, receipts := explanations(t, text)
				if status != http.StatusOK || len(want) == 0 || inAnyOrder(got) != inAnyOrder(want) {
					t.Errorf("%s, stream %v, %s: %d, %d explanations\n%v\nwant %d\n%v", r.name, stream, what, status,
						len(got), got, len(want), want)
				}
				if n := strings.Count(fmt.Sprint(receipts), "name:hostile"); n == 0 {
					t.Errorf("%s, stream %v, %s: no receipt names the program: %v", r.name, stream, what, receipts)
				}
			}
		}
	}
	for plugins, picked := range map[string]string{do("texts"): "program", do("split"): "best",
		`[{"name":"vote","params":{"n":3}}]`: "draw"} {
		_, text := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, `{"inputs":"Once upon a time","parameters":`+
			`{"max_new_tokens":9,"explain":{"tokens":6},"plugins":%s}}`, plugins))
		list, _ := explanations(t, text)
		said := ""
		for _, e := range list {
			if e["picked"] != picked {
				t.Errorf("%s: %v", plugins, e)
			}
			said += fmt.Sprint(e["text"])
		}
		if len(list) < 3 || len(list) > 6 || !strings.HasPrefix(tell(t, text).texts["generated_text"], said) {
			t.Errorf("%s: %d explanations of %q: %s", plugins, len(list), said, text)
		}
	}
}

// inAnyOrder writes explanations so that the order of choices in a stream does not matter.
func inAnyOrder(list []map[string]any) string {
	var all []string
	for _, e := range list {
		all = append(all, fmt.Sprint(e))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// explanations are those in a reply or a stream, in their order, and its receipts.
func explanations(t *testing.T, reply string) (list []map[string]any, receipts []any) {
	t.Helper()
	var find func(v any)
	find = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				find(x)
			}
		case map[string]any:
			if _, ok := v["raw_logprob"]; ok && v["picked"] != nil {
				list = append(list, v)
				return
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if strings.HasPrefix(key, "receipt") {
					receipts = append(receipts, v[key])
				} else {
					find(v[key])
				}
			}
		}
	}
	for line := range strings.SplitSeq(reply, "\n") {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &v) == nil {
			find(v)
		}
	}
	return list, receipts
}

// TestProgramIsRefused: what a program excludes.
func TestProgramIsRefused(t *testing.T) {
	p := programming(t, nil)
	for want, body := range map[string]string{
		"`best_of` and program `hostile`":  `"best_of":2,"do_sample":true,"plugins":` + do("plain"),
		"`decoder_input_details` and prog": `"decoder_input_details":true,"plugins":` + do("plain"),
		"plugin vote: cannot take part beside hostile: both are programs, and a request has one": `"plugins":[` +
			`{"name":"hostile"},{"name":"vote"}]`,
		"plugin vote: n": `"plugins":[{"name":"vote","params":{"n":99}}]`,
	} {
		status, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
			`{"inputs":"Hi","parameters":{"max_new_tokens":4,%s}}`, body))
		if status != http.StatusUnprocessableEntity || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", want, status, got)
		}
	}
	for param, members := range map[string]string{"echo": `"echo":true,"logprobs":1`,
		"use_beam_search": `"use_beam_search":true,"n":2`, "token_healing": `"token_healing":true`} {
		status, got := p.call(t, http.MethodPost, "/v1/completions", fmt.Appendf(nil,
			`{"prompt":"Hi","max_tokens":4,%s,"plugins":%s}`, members, do("plain")))
		want := "Input validation error: `" + param + "` and program `hostile` in `plugins` exclude each other"
		if status != http.StatusUnprocessableEntity || !strings.Contains(got, want) ||
			!strings.Contains(got, `"param":"`+param+`"`) {
			t.Errorf("%s: %d %s", param, status, got)
		}
	}
}

// TestBeamsNameTheirField: a beam search beside a guard is refused by the name that its client has for it.
func TestBeamsNameTheirField(t *testing.T) {
	p := programming(t, nil)
	for param, members := range map[string]string{"num_beams": `"num_beams":2`,
		"use_beam_search": `"use_beam_search":true,"n":2`} {
		status, got := p.call(t, http.MethodPost, "/v1/completions", fmt.Appendf(nil,
			`{"prompt":"Hi","max_tokens":4,%s,"plugins":[{"name":"banned-strings","params":{"strings":["x"]}}]}`, members))
		want := `"Input validation error: ` + "`" + param + "`: beam search compares whole texts and cannot run beside " +
			"guard banned-strings, which holds tokens back"
		if status != http.StatusUnprocessableEntity || !strings.Contains(got, want) ||
			!strings.Contains(got, `"param":"`+param+`"`) {
			t.Errorf("%s: %d %s", param, status, got)
		}
	}
}

// hostilePrograms are what a program does over and over, with what its client is told in the end.
var hostilePrograms = map[string]string{
	"fork": "refused Room", "render": "refused Room", "append": "refused Room", "nothing": "refused Argument",
	"grammar": "refused Argument", "rewind": "refused Purse", "race": "refused Purse",
	"kids": "goes on to fork and render",
	// It pays for the prompts of runs that it drops. When it can't, it keeps the forks that do not start.
	"abandon": "refused Room",
	"wait":    "out of fuel", "spin": "out of fuel",
	"memory": "out of memory", "error": "no, thank you", "trap": "unreachable", "emit": "more and more",
}

// TestHostilePrograms: whatever a program does over and over, it comes to an end that its client is told of, while
// neighbours get the tokens that they get alone; nothing of it is left. BenchmarkNeighbours measures the neighbours.
func TestHostilePrograms(t *testing.T) {
	p := programming(t, nil)
	const body = `{"inputs":"Once upon a time","parameters":{"max_new_tokens":12,"plugins":%s}}`
	nb := p.watchNeighbours(t, 2)
	var all sync.WaitGroup
	for what, want := range hostilePrograms {
		all.Go(func() {
			_, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body, do(what)))
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		})
	}
	all.Wait()
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("no neighbour came to its end")
	}
	p.settled(t)
}

// settled waits until no sequence and no cache block is in use.
func (p *plugged) settled(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, text := p.call(t, http.MethodGet, "/metrics", nil)
		blocks, rows := "\ntgi_kv_blocks_used 0\n", "\ntgi_batch_current_size 0\n"
		if strings.Contains(text, blocks) && strings.Contains(text, rows) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("blocks or sequences are left")
		}
	}
}

// TestProgramClientLeaves: a client that goes away ends its program, whatever that waits for.
func TestProgramClientLeaves(t *testing.T) {
	p := programming(t, nil)
	client := http.Client{Timeout: 150 * time.Millisecond}
	for _, what := range []string{"rewind", "kids", "spin", "look"} {
		res, err := client.Post(p.url+"/generate", "application/json", strings.NewReader(fmt.Sprintf(
			`{"inputs":"Once upon a time","parameters":{"max_new_tokens":900,"plugins":%s}}`, do(what))))
		if err == nil {
			res.Body.Close()
		}
	}
	client.CloseIdleConnections()
	p.settled(t)
}

// TestProgramErrorIsShort: of a program's own text a client sees 256 bytes, without control characters.
func TestProgramErrorIsShort(t *testing.T) {
	p := programming(t, nil)
	_, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
		`{"inputs":"Hi","parameters":{"max_new_tokens":4,"plugins":%s}}`, do("long error")))
	if !strings.Contains(got, " [31mno  [31mno") || !strings.Contains(got, `..."`) || len(got) > 400 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
