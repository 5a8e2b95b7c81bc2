package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"tgi/conformance/cuda/serving"
)

// prompts are of the kind that the demo model was trained on.
var prompts = []string{"Once upon a time", "Tell me a story about a fox and a lantern.", "Mia found a red hat.",
	"The sun was", "There was a small dog who", "In the garden", "Tom and his sister", "One day the wind",
	"A bird sat on", "The old man had", "Please tell me about the sea.", "It was raining and"}

const newTokens = 32

var (
	greedyTokens = serving.Parameters{"max_new_tokens": newTokens, "ignore_eos": true}
	withBeams    = serving.Parameters{"max_new_tokens": newTokens, "num_beams": 3}
)

// each sends prompts one after the other.
func (o *online) each(ctx context.Context, prompts []string, p serving.Parameters) (replies []serving.Reply,
	err error) {
	for _, prompt := range prompts {
		r, err := o.Generate(ctx, prompt, p)
		if err != nil {
			return nil, err
		}
		replies = append(replies, r)
	}
	return replies, nil
}

// request is one of many at once, with what its reply must satisfy.
type request struct {
	prompt     string
	parameters serving.Parameters
	check      func(serving.Reply) error
}

// together sends requests at once.
func (o *online) together(ctx context.Context, requests []request) ([]serving.Reply, error) {
	replies, errs := make([]serving.Reply, len(requests)), make([]error, len(requests))
	var wg sync.WaitGroup
	for i, q := range requests {
		wg.Go(func() {
			replies[i], errs[i] = o.Generate(ctx, q.prompt, q.parameters)
			if errs[i] == nil && q.check != nil {
				errs[i] = q.check(replies[i])
			}
		})
	}
	wg.Wait()
	return replies, errors.Join(errs...)
}

func (o *online) isGPU(ctx context.Context) (string, error) {
	var info struct {
		Device string `json:"model_device_type"`
		Type   string `json:"model_dtype"`
	}
	err := o.Get(ctx, "/info", &info)
	if err == nil && info.Device != "cuda" {
		err = fmt.Errorf("it is %q", info.Device)
	}
	return info.Device + ", " + info.Type, err
}

// greedy compares texts with the CPU's. Rounding sends some of them another way, after some tokens.
func (o *online) greedy(ctx context.Context) (string, error) {
	got, err := o.each(ctx, prompts, greedyTokens)
	if err != nil {
		return "", err
	}
	whole, leading := equal(got, o.cpu.greedy)
	saw := fmt.Sprintf("%d of %d are those of the CPU in 32 bits, and %.0f %% of all tokens up to the first other one",
		whole, len(got), 100*leading)
	if !o.r.o.NoNumbers && leading < 0.5 {
		return "", errors.New(saw)
	}
	return saw, nil
}

// equal returns how many replies have the same tokens, and the share of tokens before the first that differs.
func equal(got, want []serving.Reply) (whole int, leading float64) {
	same, all := 0, 0
	for i := range want {
		a, b, n := got[i].Details.Tokens, want[i].Details.Tokens, 0
		for n < min(len(a), len(b)) && a[n].ID == b[n].ID {
			n++
		}
		if n == len(b) && n == len(a) {
			whole++
		}
		same, all = same+n, all+len(b)
	}
	return whole, float64(same) / float64(max(all, 1))
}

// A schema and an expression, which all texts satisfy within the tokens they have.
const (
	schema = `{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer",` +
		`"minimum":0,"maximum":99},"kind":{"enum":["cat","dog"]}},"required":["name","age","kind"],"additionalProperties":false}`
	expression = `[a-f]{2,5}-[0-9]{3}`
)

// grammars sends requests of all kinds at once.
func (o *online) grammars(ctx context.Context) (string, error) {
	requests := make([]request, 64)
	for i := range requests {
		p := serving.Parameters{"max_new_tokens": 100, "seed": i}
		q := request{prompt: prompts[i%len(prompts)], parameters: p}
		switch i % 4 {
		case 0:
			p["grammar"] = map[string]any{"type": "json", "value": json.RawMessage(schema)}
			q.check = satisfies
		case 1:
			p["do_sample"], p["grammar"] = true, map[string]any{"type": "regex", "value": expression}
			q.check = matches
		case 2:
			p["do_sample"], p["temperature"], p["max_new_tokens"] = true, 0.8, 40
		case 3:
			p["do_sample"], p["grammar"] = true, map[string]any{"type": "json", "value": json.RawMessage(schema)}
			p["top_p"], p["repetition_penalty"], q.check = 0.9, 1.1, satisfies
		}
		requests[i] = q
	}
	_, err := o.together(ctx, requests)
	return "all answered, and all texts with a grammar satisfy it", err
}

// satisfies holds a text against the schema.
func satisfies(r serving.Reply) error {
	var v struct {
		Name *string
		Age  *int
		Kind string
	}
	d := json.NewDecoder(strings.NewReader(r.Text))
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	if err != nil || v.Name == nil || len([]rune(*v.Name)) > 8 || v.Age == nil || *v.Age < 0 || *v.Age > 99 ||
		v.Kind != "cat" && v.Kind != "dog" {
		return fmt.Errorf("%q does not satisfy the schema: %v (%s)", r.Text, err, r.Details.Finish)
	}
	return nil
}

// matches holds a text against the expression.
func matches(r serving.Reply) error {
	if !regexp.MustCompile(`^` + expression + `$`).MatchString(r.Text) {
		return fmt.Errorf("%q does not match %s (%s)", r.Text, expression, r.Details.Finish)
	}
	return nil
}

// plugins has one keep pairs of tokens from coming twice, and another draw each token.
func (o *online) plugins(ctx context.Context) (string, error) {
	const tokens = 60
	p := serving.Parameters{"max_new_tokens": tokens, "ignore_eos": true}
	without, err := o.Generate(ctx, prompts[2], p)
	if err != nil {
		return "", err
	}
	p["plugins"] = []map[string]any{{"name": "no-repeat"}}
	with, err := o.Generate(ctx, prompts[2], p)
	if err != nil {
		return "", err
	}
	before, err := o.Metrics(ctx)
	if err != nil {
		return "", err
	}
	_, err = o.Generate(ctx, prompts[2], serving.Parameters{"max_new_tokens": tokens, "ignore_eos": true,
		"do_sample": true,
		"seed":      1, "plugins": []map[string]any{{"name": "mirostat"}}})
	if err != nil {
		return "", err
	}
	after, err := o.Metrics(ctx)
	if err != nil {
		return "", err
	}
	const metric = "tgi_plugin_calls_total"
	calls := after[metric] - before[metric]
	saw := fmt.Sprintf("%d pairs of tokens come twice without no-repeat-ngram, %d with it; the sampler is called %.0f "+
		"times for %d tokens", repeated(without), repeated(with), calls, tokens)
	if repeated(with) > 0 || with.Details.Generated != tokens || calls < tokens {
		return "", errors.New(saw)
	}
	return saw, nil
}

// repeated counts pairs of tokens that a text had before.
func repeated(r serving.Reply) (n int) {
	seen := map[[2]int]bool{}
	for i := 1; i < len(r.Details.Tokens); i++ {
		pair := [2]int{r.Details.Tokens[i-1].ID, r.Details.Tokens[i].ID}
		if seen[pair] {
			n++
		}
		seen[pair] = true
	}
	return n
}

// several asks for several texts of a prompt.
func (o *online) several(ctx context.Context) (string, error) {
	beams, err1 := o.Generate(ctx, prompts[0], withBeams)
	best, err2 := o.Generate(ctx, prompts[0], serving.Parameters{"max_new_tokens": newTokens, "best_of": 2,
		"do_sample": true})
	var completions struct{ Choices []json.RawMessage }
	err3 := o.Post(ctx, "/v1/completions", map[string]any{"model": "tgi-demo", "prompt": prompts[0], "n": 2,
		"max_tokens": newTokens, "temperature": 1}, &completions)
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	as := "another text than"
	if beams.Text == o.cpu.beams.Text {
		as = "the text of"
	}
	saw := fmt.Sprintf("3 beams end in %s the CPU's; best_of 2 has %d texts, n 2 has %d", as,
		1+len(best.Details.Others),
		len(completions.Choices))
	if len(best.Details.Others) != 1 || len(completions.Choices) != 2 || beams.Details.Generated == 0 {
		return "", errors.New(saw)
	}
	return saw, nil
}

// prefix sends a prompt of several cache blocks again and again.
func (o *online) prefix(ctx context.Context) (string, error) {
	prompt := longPrompt(700)
	p := serving.Parameters{"max_new_tokens": newTokens, "ignore_eos": true}
	before, err := o.Metrics(ctx)
	if err != nil {
		return "", err
	}
	first, err := o.Generate(ctx, prompt, p)
	if err != nil {
		return "", err
	}
	again := make([]request, 8)
	for i := range again {
		again[i] = request{prompt: prompt, parameters: p}
	}
	replies, err := o.together(ctx, again)
	if err != nil {
		return "", err
	}
	after, err := o.Metrics(ctx)
	if err != nil {
		return "", err
	}
	hit := after["tgi_prefix_hit_tokens"] - before["tgi_prefix_hit_tokens"]
	firsts := make([]serving.Reply, len(replies))
	for i := range firsts {
		firsts[i] = first
	}
	whole, leading := equal(replies, firsts)
	saw := fmt.Sprintf("8 equal prompts found %.0f tokens in the cache; %d of 8 texts are that of the first, and %.0f %% of "+
		"all tokens up to the first other one", hit, whole, 100*leading)
	if hit < 8*256 || !o.r.o.NoNumbers && leading < 0.5 {
		return "", errors.New(saw)
	}
	return saw, nil
}

// longPrompt is a prompt of about so many tokens, of the kind that the demo model knows.
func longPrompt(tokens int) string {
	const sentence = "Mia found a red hat and showed it to her friend Tom. "
	return strings.Repeat(sentence, max(1, tokens/13))
}

// disconnect closes streams in the middle, whose cache blocks must be free then.
func (o *online) disconnect(ctx context.Context) (string, error) {
	const streams, tokens = 16, 900
	before, err := o.Metrics(ctx)
	if err != nil {
		return "", err
	}
	errs := make([]error, streams)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = o.Stream(ctx, prompts[i%len(prompts)], serving.Parameters{"max_new_tokens": tokens,
				"ignore_eos": true, "do_sample": true, "seed": i}, func(string) bool { return false })
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	closed := time.Now()
	for {
		now, err := o.Metrics(ctx)
		if err != nil {
			return "", err
		}
		steps := now["tgi_device_steps_total"] - before["tgi_device_steps_total"]
		saw := fmt.Sprintf("%d streams of %d tokens were closed; after %.1f s and %.0f steps %.0f cache blocks are held",
			streams, tokens, time.Since(closed).Seconds(), steps, now["tgi_kv_blocks_used"])
		switch {
		case now["tgi_kv_blocks_used"] == 0 && steps < tokens:
			return saw, nil
		case steps >= tokens || time.Since(closed) > 10*time.Second:
			return "", errors.New(saw)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// metrics are those of the device.
func (o *online) metrics(ctx context.Context) (string, error) {
	m, err := o.Metrics(ctx)
	if err != nil {
		return "", err
	}
	saw := fmt.Sprintf("%.0f steps, %.0f of them by %.0f CUDA graphs; %.0f MiB of cache, %.0f of %.0f MiB free",
		m["tgi_device_steps_total"], m["tgi_cuda_graph_replays_total"], m["tgi_cuda_graphs"],
		m["tgi_device_cache_bytes"]/(1<<20), m["tgi_device_memory_free_bytes"]/(1<<20),
		m["tgi_device_memory_bytes"]/(1<<20))
	for _, name := range []string{"tgi_device_steps_total", "tgi_cuda_graph_replays_total", "tgi_cuda_graphs",
		"tgi_device_cache_bytes", "tgi_device_memory_free_bytes"} {
		if m[name] <= 0 {
			return "", fmt.Errorf("%s is %v: %s", name, m[name], saw)
		}
	}
	if m["tgi_device_memory_free_bytes"] >= m["tgi_device_memory_bytes"] {
		return "", errors.New(saw)
	}
	return saw, nil
}

// preemption sends more at once than the cache holds.
func (o *online) preemption(ctx context.Context) (string, error) {
	const tokens = 150
	p := serving.Parameters{"max_new_tokens": tokens, "ignore_eos": true}
	alone := make([]serving.Reply, 8)
	requests := make([]request, len(alone))
	for i := range requests {
		prompt := prompts[i] + " " + longPrompt(180)
		requests[i] = request{prompt: prompt, parameters: p, check: func(r serving.Reply) error {
			if r.Details.Generated != tokens {
				return fmt.Errorf("%d of %d tokens", r.Details.Generated, tokens)
			}
			return nil
		}}
		var err error
		if alone[i], err = o.Generate(ctx, prompt, p); err != nil {
			return "", err
		}
	}
	replies, err := o.together(ctx, requests)
	if err != nil {
		return "", err
	}
	m, err := o.Metrics(ctx)
	if err != nil {
		return "", err
	}
	whole, leading := equal(replies, alone)
	saw := fmt.Sprintf("%.0f preemptions in %.0f blocks; all texts are whole, %d of %d are as alone, and %.0f %% of all "+
		"tokens up to the first other one", m["tgi_preemption_count"], m["tgi_kv_blocks"], whole, len(alone),
		100*leading)
	if m["tgi_preemption_count"] == 0 || !o.r.o.NoNumbers && leading < 0.5 {
		return "", errors.New(saw)
	}
	return saw, nil
}
