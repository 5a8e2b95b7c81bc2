package plugins_test

// What a host does with the modules of version 0.1, and writes down of it. The file knows no host: record.sh builds it
// beside that of 0.1, which wrote testdata/v1/answers.json, and TestOldModules beside this one.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
)

// oldHost is a host that has all modules, by names such as c-every-mode.
type oldHost interface {
	// begin begins the token loop of a plugin. refused is the guest's own text where it refuses its parameters.
	begin(plugin, params string, prompt []uint32) (l oldLoop, refused string, err error)
	// compile begins a text of a grammar.
	compile(plugin, language, source, params string) (t oldText, refused string, err error)
	// render and parse are those of conversations. parse returns a line for each event.
	render(plugin, params, request string) (text string, err error)
	parse(plugin, request string, pieces []string) ([]string, error)
}

// oldLoop is a plugin in the token loop.
type oldLoop struct {
	process    func(prompt, output []uint32, row []float32) (temperature float32, force int64, stop bool, err error)
	candidates int // of a sampler, 0 for none
	sample     func(ids []uint32, logits, logprobs []float32) (int, error)
	close      func()
}

// oldText is a text that is held to a grammar.
type oldText struct {
	mask   func([]uint32) (bool, error)
	accept func(uint32) error
	close  func()
}

// oldCase is a case: what is asked of a module.
type oldCase struct {
	plugin, kind, params string
	language, source     string
}

// oldVocabulary has the bytes, some words, and the end of texts.
type oldVocabulary struct{}

var oldWords = []string{" the", "ing", "</s>", " a", "{\"", "\":", "true", " dog", "cat"}

func (oldVocabulary) Size() int { return 256 + len(oldWords) }

func (v oldVocabulary) Bytes(id uint32) []byte {
	switch {
	case id < 256:
		return []byte{byte(id)}
	case int(id) < v.Size():
		return []byte(oldWords[id-256])
	}
	return nil
}

func (oldVocabulary) Flags(id uint32) uint32 {
	if id == 258 {
		return 3 // special, and the end
	}
	return 0
}

func (v oldVocabulary) EncodeData(text string) []uint32 { return v.Encode(text) }

func (oldVocabulary) Encode(text string) (ids []uint32) {
	for text != "" {
		id, n := uint32(text[0]), 1
		for i, w := range oldWords {
			if len(w) > n && strings.HasPrefix(text, w) {
				id, n = uint32(256+i), len(w)
			}
		}
		ids, text = append(ids, id), text[n:]
	}
	return ids
}

// oldCases returns what is asked of the modules, which have these names.
func oldCases(modules []string) (list []oldCase) {
	byName := map[string][]oldCase{
		"banned-and-boost": loops("", `{"ban":[97,"b"," the"]}`, `{"ban":[97],"boost":{" the":2,"#98":-1.5}}`,
			`{"only":["a","</s>",98]}`, `{"only":["a","b"],"boost":{"a":1}}`, `{"boost":{"é":1}}`, `{"only":[]}`,
			`{"x":1}`),
		"epsilon-greedy": loops("", `{"epsilon":1,"margin":4}`, `{"epsilon":0.5}`, `{"epsilon":2}`),
		"every-mode": loops("", `{"mode":"allow","ids":[97,98,200]}`, `{"mode":"deny","ids":[97,98,200]}`,
			`{"mode":"sparse","ids":[97,98,200],"bias":-2.5}`, `{"mode":"sparse","ids":[97,98,200],"only":true}`,
			`{"mode":"bitmask","ids":[97,98,258],"temperature":0.5}`, `{"mode":"topk","ids":[97,98,200],"bias":0.25}`,
			`{"mode":"row","ids":[97,98,200],"bias":20,"temperature":0}`,
			`{"force_at":3,"force":[1,2,3,258],"stop_at":8,"random":true}`, `{"fail_at":5,"pick":3}`, `{"mode":"none"}`),
		"dry":             loops("", `{"multiplier":1,"allowed_length":1}`, `{"x":1}`),
		"xtc":             loops("", `{"probability":0.5}`, `{"probability":2}`),
		"mirostat":        loops("", `{"tau":3}`),
		"watermark":       loops("", `{"bias":3}`),
		"banned-words":    loops("", `{"words":["dog","the"]}`),
		"thinking-budget": loops("", `{"budget":2}`),
		"no-repeat-ngram": loops("", `{"n":2}`, `{"n":0}`),
		"picture": {{kind: "grammar", language: "picture", source: "A-## @@@"}, {kind: "grammar", language: "picture",
			source: "é#"}, {kind: "grammar", language: "picture", source: "</s>"}},
		"grammar": {{kind: "grammar", language: "regex", source: "(the|a) (dog|cat)[0-9]{2}"},
			{kind: "grammar", language: "json_schema", source: `{"type":"object","properties":{"a":{"type":"boolean"}},` +
				`"required":["a"],"additionalProperties":false}`},
			{kind: "grammar", language: "gbnf", source: "root ::= \"a\" root | \"b\""},
			{kind: "grammar", language: "choice", source: `["dog","the"]`},
			{kind: "grammar", language: "regex", source: "("}},
		"plain-chat": {{kind: "template"}, {kind: "template", params: `{"user":"Ann"}`}},
		"call-lines": {{kind: "tools"}},
		// the examples
		"top-n-sigma":     loops("", `{"n":0.5}`, `{"n":0}`),
		"no-long-numbers": loops(""),
		"marker-1":        loops("", `{"tokens":1}`, `{"x":1}`),
		"marker-2":        loops(""),
		"house-chat":      {{kind: "template"}},
		"short-calls": {{kind: "tools", source: `{"get_ti|me": {"place": "Zürich"}}`},
			{kind: "tools", source: `{"get_time": 7}`}, {kind: "tools", source: `{"other": 7}`},
			{kind: "tools", source: "One. |Two."}},
	}
	for _, m := range modules {
		_, name, _ := strings.Cut(m, "-") // behind the language
		for _, c := range byName[name] {
			c.plugin = m
			list = append(list, c)
		}
	}
	return list
}

func loops(params ...string) (list []oldCase) {
	for _, p := range params {
		list = append(list, oldCase{kind: "loop", params: p})
	}
	return list
}

// answers returns a line for each answer of a module in a case.
func (c *oldCase) answers(h oldHost) ([]string, error) {
	switch c.kind {
	case "loop":
		return c.loop(h)
	case "grammar":
		return c.grammar(h)
	case "template":
		const request = `{"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi</s>"}],
			"add_generation_prompt": true, "continue_final_message": false, "now": "2024-01-31T12:00:00+01:00"}`
		text, err := h.render(c.plugin, c.params, request)
		return []string{text}, err
	}
	const request = `{"tools": [{"type": "function", "function": {"name": "get_time"}}], "tool_choice": "auto"}`
	if c.source != "" { // its pieces
		return h.parse(c.plugin, request, strings.Split(c.source, "|"))
	}
	return h.parse(c.plugin, request, []string{"One.\nCALL get_ti", "me({\"place\": \"Zürich)\"})\nCALL get_time({})\n",
		"Two CALL get_time({}) three\nCALL other({})\nCALL get_time({\"place\""})
}

// name says which case it is.
func (c *oldCase) name() string {
	return strings.Join([]string{c.plugin, c.params, c.language, c.source}, " ")
}

// noise is a row of logits that looks random and is not.
func noise(step, n int) []float32 {
	row, x := make([]float32, n), uint32(step*2654435761+12345)
	for i := range row {
		x = x*1664525 + 1013904223
		row[i] = float32(x>>16)/6553.6 - 5
	}
	return row
}

// digest names bits.
func digest(words func(yield func(uint32) bool)) string {
	h := fnv.New64a()
	var b [4]byte
	for w := range words {
		binary.LittleEndian.PutUint32(b[:], w)
		h.Write(b[:])
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

func (c *oldCase) loop(h oldHost) (lines []string, err error) {
	prompt := oldVocabulary{}.Encode("the dog the dog a cat <think>")
	l, refused, err := h.begin(c.plugin, c.params, prompt)
	if err != nil || refused != "" {
		return []string{"refused: " + refused}, err
	}
	defer l.close()
	var output []uint32
	for step := range 10 {
		row := noise(step%3, oldVocabulary{}.Size()) // which repeats itself
		line, force := fmt.Sprint(step), int64(-1)
		if l.process != nil {
			temperature, forced, stop, err := l.process(prompt, output, row)
			if err != nil {
				return append(lines, line+": failed"), nil
			}
			force = forced
			line += fmt.Sprintf(": row %s, temperature %v, force %d, stop %t", digest(bitsOf(row)), temperature, force, stop)
		}
		ids := make([]uint32, len(row))
		for i := range ids {
			ids[i] = uint32(i)
		}
		slices.SortFunc(ids, func(a, b uint32) int { return cmp.Or(cmp.Compare(row[b], row[a]), cmp.Compare(a, b)) })
		token := ids[0]
		if l.sample != nil {
			if token, err = l.choose(ids, row); err != nil {
				return append(lines, line+": failed to choose"), nil
			}
		}
		if force >= 0 {
			token = uint32(force)
		}
		lines = append(lines, fmt.Sprintf("%s: token %d", line, token))
		output = append(output, token)
	}
	return lines, nil
}

func bitsOf(row []float32) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for _, v := range row {
			if !yield(math.Float32bits(v)) {
				return
			}
		}
	}
}

// choose lets a sampler choose among the likeliest of ids, which are sorted.
func (l *oldLoop) choose(ids []uint32, row []float32) (uint32, error) {
	ids = ids[:min(l.candidates, len(ids))]
	sum := 0.0
	for _, id := range ids {
		sum += math.Exp(float64(row[id]))
	}
	var logits, logprobs []float32
	for _, id := range ids {
		logits = append(logits, row[id])
		logprobs = append(logprobs, float32(float64(row[id])-math.Log(sum)))
	}
	i, err := l.sample(ids, logits, logprobs)
	if err != nil {
		return 0, err
	}
	return ids[i], nil
}

func (c *oldCase) grammar(h oldHost) (lines []string, err error) {
	t, refused, err := h.compile(c.plugin, c.language, c.source, c.params)
	if err != nil || refused != "" {
		return []string{"refused: " + refused}, err
	}
	defer t.close()
	bits := make([]uint32, (oldVocabulary{}.Size()+31)/32)
	for step := range 20 {
		constrained, err := t.mask(bits)
		if err != nil {
			return append(lines, "failed"), nil
		}
		var allowed []uint32
		for id := range uint32(oldVocabulary{}.Size()) {
			if !constrained || bits[id/32]>>(id%32)&1 != 0 {
				allowed = append(allowed, id)
			}
		}
		if len(allowed) == 0 {
			return append(lines, "nothing is allowed"), nil
		}
		token := allowed[(step*7+3)%len(allowed)]
		lines = append(lines, fmt.Sprintf("%d: %t, %d allowed %s, token %d", step, constrained, len(allowed),
			digest(slices.Values(allowed)), token))
		if err := t.accept(token); err != nil {
			return append(lines, "not accepted"), nil
		}
		if token == 258 {
			break
		}
	}
	return lines, nil
}
