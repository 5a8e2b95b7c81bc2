package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// read reads the body, or refuses it as axum does.
func (c *fakeCall) read() bool {
	b, _ := io.ReadAll(c.r.Body)
	kind, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	switch {
	case kind != "application/json" && !strings.HasSuffix(kind, "+json"):
		c.plain(415, "Expected request with `Content-Type: application/json`")
		return false
	case len(b) > 2_000_000:
		c.plain(413, "Failed to buffer the request body: length limit exceeded")
		return false
	}
	v, err := parse(b)
	if err != nil {
		c.plain(400, unparsable+fmt.Sprintf("EOF while parsing a value at line 1 column %d", len(b)))
		return false
	}
	c.body, _ = v.any.(map[string]any)
	return true
}

// shape refuses a body of another shape and says that it did.
func (c *fakeCall) shape(format string, args ...any) bool {
	c.plain(422, misshapen+fmt.Sprintf(format, args...)+" at line 1 column 2")
	return true
}

func (c *fakeCall) post() {
	path := c.r.URL.Path
	if c.gone.Load() && c.fake.stuck {
		c.refuse(500, "stuck", "stuck")
		return
	}
	if c.ours {
		var refused bool
		if c.model, refused = c.chosen(); refused {
			return
		}
	}
	switch path {
	case chatPath:
		c.chat()
	case completionPath:
		c.complete()
	case responsesPath:
		c.response()
	case batchesPath:
		c.batches()
	case embeddingsPath, rerankPath, embedPath, teiRankPath, similarPath:
		c.embedded()
	case messagesPath, messagesPath + "/count_tokens":
		c.message()
	case "/invocations":
		_, inputs := c.body["inputs"]
		_, messages := c.body["messages"]
		_, prompt := c.body["prompt"]
		switch {
		case inputs || !c.invocationsAny:
			c.generate(true)
		case messages:
			c.chat()
		case prompt:
			c.complete()
		default:
			c.plain(422, misshapen+"data did not match any variant of untagged enum SagemakerRequest")
		}
	case "/chat_tokenize":
		text := rendered(c.body, c.deaf)
		c.json(200, map[string]any{"tokenize_response": spots(split(text)), "templated_text": text})
	case "/vertex":
		c.vertex()
	case "/v2/models/m/versions/1/infer":
		c.infer()
	case "/tokenize":
		if text, ok := c.inputs(); ok {
			c.json(200, spots(split(text)))
		}
	case "/", "/generate", "/generate_stream", sharedPath + "/generate", sharedPath + "/generate_stream":
		c.generate(path == "/")
	default:
		c.w.WriteHeader(http.StatusNotFound)
	}
}

func spots(all []spot) (out []map[string]any) {
	out = []map[string]any{}
	for _, s := range all {
		out = append(out, map[string]any{"id": s.id, "text": s.text, "start": s.start, "stop": s.stop})
	}
	return out
}

func rendered(body map[string]any, deaf bool) string {
	text := ""
	for _, m := range (value{body, true}).at("messages").list() {
		content := m.at("content")
		if parts := content.list(); len(parts) > 0 && !deaf {
			content = parts[0].at("text")
		}
		text += "<user> " + content.text() + " <bot>"
	}
	return text
}

func (c *fakeCall) inputs() (string, bool) {
	text, ok := c.body["inputs"].(string)
	if !ok {
		c.shape("missing field `inputs`")
	}
	return text, ok
}

// field reads a number.
func number(m map[string]any, name string) (float64, bool) {
	n, ok := m[name].(json.Number)
	f, _ := n.Float64()
	return f, ok
}

// typed refuses parameters of the wrong type.
func (c *fakeCall) typed(p map[string]any) bool {
	for _, name := range []string{"do_sample", "details", "watermark", "decoder_input_details", "stop"} {
		v, there := p[name]
		if !there {
			continue
		}
		if s, ok := v.(string); ok {
			return c.shape("parameters.%s: invalid type: string %q, expected a boolean", name, s)
		}
		if v == nil {
			return c.shape("parameters.%s: invalid type: null, expected a boolean", name)
		}
	}
	if text := misfit(p); text != "" {
		return c.shape("%s", text)
	}
	for name, want := range map[string]string{"max_new_tokens": "u32", "seed": "u64", "best_of": "usize"} {
		if n, ok := number(p, name); ok && n < 0 {
			return c.shape("parameters.%s: invalid value: integer `%v`, expected %s", name, n, want)
		}
	}
	if s, ok := p["temperature"].(string); ok {
		return c.shape("parameters.temperature: invalid type: string %q, expected f32", s)
	}
	if v, there := p["max_new_tokens"]; there && v == nil && !c.nullLength {
		return c.shape("parameters.max_new_tokens: invalid type: null, expected u32")
	}
	return false
}

// validate returns the first rule of TGI's that the request breaks.
func (c *fakeCall) validate(inputs string, p map[string]any, stream bool) string {
	get := func(name string) (float64, bool) { return number(p, name) }
	if c.hasty && inputs == "" {
		return "`inputs` cannot be empty"
	}
	best, hasBest := get("best_of")
	t, hasT := get("temperature")
	if stream && hasBest && best != 1 {
		return "`best_of` != 1 is not supported when streaming tokens"
	}
	if stream && p["decoder_input_details"] == true {
		return "`decoder_input_details` == true is not supported when streaming tokens"
	}
	if best > 2 {
		return fmt.Sprintf("`best_of` must be > 0 and <= 2. Given: %v", best)
	}
	if best > 1 && p["do_sample"] != true && !hasT {
		return "you must use sampling when `best_of` is > 1"
	}
	if hasT && t <= 0 {
		return "`temperature` must be strictly positive"
	}
	if n, ok := get("repetition_penalty"); ok && n <= 0 {
		return "`repetition_penalty` must be strictly positive"
	}
	if n, ok := get("frequency_penalty"); ok && n > 2 {
		return "`frequency_penalty` must be >= -2.0 and <= 2.0"
	}
	for _, name := range []string{"top_p", "typical_p"} {
		if n, ok := get(name); ok && (n <= 0 || n >= 1) {
			return "`" + name + "` must be > 0.0 and < 1.0"
		}
	}
	for _, name := range []string{"top_k", "max_new_tokens"} {
		if n, ok := get(name); ok && n <= 0 {
			return "`" + name + "` must be strictly positive"
		}
	}
	if stop, _ := p["stop"].([]any); len(stop) > 4 {
		return fmt.Sprintf("`stop` supports up to 4 stop sequences. Given: %d", len(stop))
	}
	if _, ok := get("seed"); ok && best > 1 {
		return "`seed` must not be set when `best_of` > 1"
	}
	if n, ok := get("top_n_tokens"); ok && n > 5 {
		return fmt.Sprintf("`top_n_tokens` must be >= 0 and <= 5. Given: %.0f", n)
	}
	if inputs == "" {
		return "`inputs` cannot be empty"
	}
	cut, hasCut := get("truncate")
	if hasCut && (cut == 0 || cut > fakeInput) {
		return fmt.Sprintf("`truncate` must be strictly positive and less than %d. Given: %v", fakeInput, cut)
	}
	n := len(split(inputs))
	if hasCut {
		n = min(n, int(cut))
	}
	if most := c.most(p, n); n+most > fakeTotal {
		return fmt.Sprintf(
			"`inputs` tokens + `max_new_tokens` must be <= %d. Given: %d `inputs` tokens and %d `max_new_tokens`",
			fakeTotal, n, most)
	}
	return ""
}

// most is how many tokens a request may get.
func (c *fakeCall) most(p map[string]any, prompt int) int {
	n, ok := number(p, "max_new_tokens")
	_, there := p["max_new_tokens"]
	switch {
	case ok:
		return int(n)
	case !there && c.maxNewTokens > 0:
		return c.maxNewTokens
	}
	return fakeTotal - prompt
}

func (c *fakeCall) asked(inputs string, p map[string]any) *ask {
	a := &ask{prompt: split(inputs), sample: p["do_sample"] == true || p == nil && c.draws != c.contrary,
		endless: p["ignore_eos"] == true}
	if cut, ok := number(p, "truncate"); ok {
		a.prompt = a.prompt[max(0, len(a.prompt)-int(cut)):]
	}
	a.most = c.most(p, len(a.prompt))
	if t, ok := number(p, "temperature"); ok && t != 1 {
		a.sample = true
	}
	for _, name := range []string{"top_p", "typical_p", "top_k"} {
		if _, ok := number(p, name); ok {
			a.sample = true
		}
	}
	a.held, _ = held(c.body)
	if n, ok := p["seed"].(json.Number); ok {
		a.seed, _ = strconv.ParseUint(string(n), 10, 64)
	} else if a.sample {
		a.seed = uint64(c.ids.Add(1)) << 40
	}
	stop, _ := p["stop"].([]any)
	for _, s := range stop {
		a.stop = append(a.stop, s.(string))
	}
	if c.model != fakeFirst {
		a.shift = 5
	}
	if c.restless {
		a.shift = int(c.ids.Add(1))
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	if key := fmt.Sprint(c.body); c.fake.mixed {
		if c.seen[key] {
			a.prompt = split("something else")
		}
		c.seen[key] = true
	}
	return a
}

func (a *ask) seedOf() any {
	if a.sample {
		return a.seed
	}
	return nil
}

func (c *fakeCall) prefill(a *ask, p map[string]any) []map[string]any {
	out := []map[string]any{}
	if !c.prefillAlways && p["decoder_input_details"] != true {
		return out
	}
	for i, s := range a.prompt {
		t := map[string]any{"id": s.id, "text": s.text, "logprob": any(logprob(i))}
		if i == 0 {
			t["logprob"] = nil
		}
		out = append(out, t)
	}
	return out
}

func (c *fakeCall) generate(compat bool) {
	inputs, ok := c.inputs()
	if !ok {
		return
	}
	var p map[string]any
	if v, there := c.body["parameters"]; there {
		if p, _ = v.(map[string]any); p == nil {
			c.shape("parameters: invalid type: null, expected struct GenerateParameters")
			return
		}
	}
	if c.typed(p) {
		return
	}
	full := ""
	if p["return_full_text"] == true || compat && p["return_full_text"] == nil {
		full = inputs
	}
	if stream := strings.HasSuffix(c.r.URL.Path, "/generate_stream"); stream || compat && c.body["stream"] == true {
		c.generateStream(inputs, p, full)
		return
	}
	if c.fake.inside.Load() >= fakePermits && !c.boundless {
		if c.fake.ours {
			c.w.Header().Set("Retry-After", "1")
		}
		c.refuse(429, "overloaded", "Model is overloaded")
		return
	}
	if text := c.validate(inputs, p, false); text != "" {
		c.refuse(422, "validation", validation+text)
		return
	}
	if _, text := held(c.body); text != "" {
		c.refuse(422, "validation", text)
		return
	}
	a := c.asked(inputs, p)
	s := a.run()
	v := map[string]any{"generated_text": full + s.text}
	c.costs(inputs, len(a.prompt), len(s.tokens))
	if p["details"] == true || p["decoder_input_details"] == true {
		d := map[string]any{"finish_reason": s.reason, "generated_tokens": len(s.tokens), "seed": a.seedOf(),
			"prefill": c.prefill(a, p), "tokens": s.tokens}
		if _, ok := number(p, "top_n_tokens"); ok {
			var all []any
			for _, t := range s.tokens {
				all = append(all, tops(t))
			}
			d["top_tokens"] = all
		}
		if n, _ := number(p, "best_of"); n > 1 {
			d["best_of_sequences"] = []any{map[string]any{"generated_text": "x", "finish_reason": "length",
				"generated_tokens": 0, "seed": 1, "prefill": []any{}, "tokens": []any{}}}
		}
		v["details"] = d
	}
	if compat {
		c.json(200, []any{v})
		return
	}
	c.json(200, v)
}

func (c *fakeCall) generateStream(inputs string, p map[string]any, full string) {
	c.known(inputs)
	send := c.events()
	if text := c.validate(inputs, p, true); text != "" {
		send(map[string]any{"error": validation + text, "error_type": "validation"})
		return
	}
	a := c.asked(inputs, p)
	long := a.most >= 60 && p["truncate"] == nil && a.held == ""
	if long { // it takes until its client leaves
		c.fake.inside.Add(1)
		defer func() {
			if !c.leaky {
				c.fake.inside.Add(-1)
			}
		}()
	}
	s := a.run()
	for i, t := range s.tokens {
		e := map[string]any{"token": t, "generated_text": nil, "details": nil}
		if c.index {
			e["index"] = i + 1
		}
		if _, ok := number(p, "top_n_tokens"); ok {
			e["top_tokens"] = tops(t)
		}
		if i == len(s.tokens)-1 {
			e["generated_text"] = full + s.text
			if p["details"] == true {
				d := map[string]any{"finish_reason": s.reason, "generated_tokens": len(s.tokens), "seed": a.seedOf()}
				if c.inputLength {
					d["input_length"] = len(a.prompt)
				}
				e["details"] = d
			}
		}
		if !send(e) {
			break
		}
	}
	if long {
		<-c.r.Context().Done()
		c.gone.Store(true)
	}
}

func (c *fakeCall) vertex() {
	list := (value{c.body, true}).at("instances").list()
	if len(list) == 0 {
		c.refuse(422, "Input validation error", "Input validation error")
		return
	}
	texts := []string{}
	for _, one := range list {
		inputs := one.at("inputs").text()
		p, _ := one.at("parameters").any.(map[string]any)
		if one.at("messages").there {
			inputs, p = rendered(one.any.(map[string]any), c.deaf),
				map[string]any{"max_new_tokens": one.at("max_tokens").any}
		}
		if inputs == "" {
			c.refuse(500, "Incomplete generation", "Incomplete generation")
			return
		}
		texts = append(texts, c.asked(inputs, p).run().text)
	}
	c.json(200, map[string]any{"predictions": texts})
}

func (c *fakeCall) infer() {
	v := value{c.body, true}
	var data []byte
	for _, b := range v.at("inputs", 0, "data").list() {
		data = append(data, byte(b.number()))
	}
	outputs := v.at("outputs").list()
	switch {
	case !utf8.Valid(data):
		c.refuse(422, "utf8", "invalid utf-8 sequence of 1 bytes from index 1")
	case len(outputs) != 1:
		c.refuse(422, "length mismatch", "Inputs and outputs length mismatch")
	default:
		p, _ := v.at("parameters").any.(map[string]any)
		text := c.asked(string(data), p).run().text
		c.json(200, map[string]any{"id": v.at("id").any, "outputs": []any{map[string]any{
			"name": outputs[0].at("name").any, "shape": []int{1, len(text)}, "datatype": "BYTES",
			"data": json.RawMessage(octets(text)),
		}}})
	}
}
