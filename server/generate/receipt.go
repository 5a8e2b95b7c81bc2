package generate

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"slices"
	"strconv"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/wire"
)

// Origin is what a model's replies follow from beside their requests. Empty fields are not known.
type Origin struct {
	// Server is the program's version, Model the model's id.
	Server, Model string
	// Weights and Tokenizer are checksums in hex (SHA-256): of the weights as they are computed with, and of the
	// tokenizer's description.
	Weights, Tokenizer string
	// Format is that of the weights, Kernels the instruction sets of attention and of products with weights.
	Format, Kernels string
	// Cache is what keys and values are stored as.
	Cache string
	// Jump is how text without a choice becomes tokens, empty where the model decides.
	Jump string
}

// Receipt is what a reply follows from: the same request with the same seed, on a server whose receipt is the same,
// gets the same tokens. It is small, whatever the request is: what may be long is in it by its checksum, SHA-256 in
// hex.
type Receipt struct {
	Origin
	// Adapter is the fine-tuned variant of the model, AdapterSum the checksum of its weights; empty for none.
	Adapter, AdapterSum string
	// Plugins took part, in their order.
	Plugins []llm.UsedPlugin
	// Template is the checksum of the chat template's text, Grammar that of language and source; empty for none.
	Template, Grammar string
	// PromptTokens is how many tokens the model read, Prompt their checksum, each token as four bytes, the lowest
	// first.
	PromptTokens int
	Prompt       string
	// Params are the settings with the seed that was used, CountPenalty is the request's. Healed counts the bytes of
	// its prompt that the text began with again.
	Params       llm.Params
	CountPenalty float32
	Healed       int
	// Images is the checksum of the images in the prompt, empty for none.
	Images string
	// Guidance is its kind, empty for none, Mix its weights and Twin the checksum of the second prompt.
	Guidance string
	Mix      sample.Mix
	Twin     string
	// Outputs are the sequences as far as they have ended, by their index.
	Outputs []Output
}

// Output is the tokens of a sequence.
type Output struct {
	Tokens int
	// SHA256 is their checksum, as that of a prompt.
	SHA256 string
}

// WithOrigin gives receipts to the requests that want them. It is called before the first request.
func (s *Service) WithOrigin(o Origin) *Service {
	s.origin = &o
	return s
}

// tokenSum computes the checksum of tokens as they come.
type tokenSum struct {
	n int
	hash.Hash
}

func newTokenSum() *tokenSum { return &tokenSum{Hash: sha256.New()} }

func (t *tokenSum) add(id llm.Token) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], id)
	t.n++
	_, _ = t.Write(b[:])
}

func (t *tokenSum) hex() string { return hex.EncodeToString(t.Sum(nil)) }

// sumOf is the checksum of texts, each behind its length.
func sumOf(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(t)))
		_, _ = h.Write(n[:])
		_, _ = h.Write([]byte(t))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sumOfGrammar is the checksum of a grammar: of what it says, however its JSON is written. Members keep their order,
// which a schema's texts follow.
func sumOfGrammar(g *Grammar) string {
	source := g.Source
	switch known := g.Language == JSONSchema || g.Language == Choice || g.Language == StructuralTag; {
	case known, len(source) > 0 && source[0] == '{': // texts of other notations may be arrays by chance, as regexes may
		source = plain(source)
	}
	return sumOf(g.Plugin, g.Language, string(source), string(plain(g.Params)))
}

// plain returns JSON without white space between its parts and with its strings written in one way. What is no JSON
// stays as it is.
func plain(text []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	out := make([]byte, 0, b.Len())
	for rest := b.Bytes(); len(rest) > 0; {
		at := bytes.IndexByte(rest, '"')
		if at < 0 {
			return append(out, rest...)
		}
		end := at + 1
		for rest[end] != '"' { // it was read as JSON, so there is one
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		var said string
		_ = json.Unmarshal(rest[at:end+1], &said) // likewise
		out = wire.AppendString(append(out, rest[:at]...), said)
		rest = rest[end+1:]
	}
	return out
}

// countOutput counts a token for the receipt, if there is to be one.
func (r *Run) countOutput(e *Event) {
	if r.outputs != nil {
		r.outputs[e.Index].add(e.Token)
	}
}

// sumOfImages is the checksum of the images in a prompt, empty for none.
func sumOfImages(list []llm.Embedding) string {
	if len(list) == 0 {
		return ""
	}
	h := sha256.New()
	for _, e := range list {
		_, _ = h.Write(e.Sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// wantReceipt prepares the receipt of a request that wants one.
func (r *Run) wantReceipt(d *Draft) {
	if !d.Receipt && d.Explain == nil || r.service.origin == nil {
		return
	}
	q := &r.Request
	r.outputs = make([]*tokenSum, q.Sequences)
	for i := range r.outputs {
		r.outputs[i] = newTokenSum()
	}
	if d.Grammar != nil {
		r.grammarSum = sumOfGrammar(d.Grammar)
	}
}

// Receipt returns the receipt of a request that wanted one, nil for others. Its outputs are those of the tokens that
// Next has returned.
func (r *Run) Receipt() *Receipt {
	if r.outputs == nil {
		return nil
	}
	q := &r.Request
	prompt := newTokenSum()
	for _, t := range q.Prompt {
		prompt.add(t)
	}
	r.skipMu.Lock()
	used := slices.Clone(r.used.Plugins)
	r.skipMu.Unlock()
	out := &Receipt{Origin: *r.service.origin, Adapter: r.adapterName, AdapterSum: r.adapter.Sum,
		Plugins: used, Template: r.used.Template, Grammar: r.grammarSum,
		PromptTokens: len(q.Prompt), Prompt: prompt.hex(), Params: q.Params,
		CountPenalty: q.CountPenalty, Images: r.imageSum}
	if q.healed != nil {
		out.Healed = len(q.healed.Text)
	}
	if len(q.twins) > 0 {
		twin := newTokenSum()
		for _, t := range q.twins[0] {
			twin.add(t)
		}
		out.Guidance, out.Mix, out.Twin = q.Guidance, q.mix, twin.hex()
	}
	for _, o := range r.outputs {
		out.Outputs = append(out.Outputs, Output{o.n, o.hex()})
	}
	return out
}

// ReceiptVersion is the form of receipts that AppendReceipt writes.
const ReceiptVersion = 1

// AppendReceipt writes a receipt as an object.
func AppendReceipt(b []byte, r *Receipt) []byte {
	b = wire.AppendInt(append(b, '{'), "version", ReceiptVersion)
	for _, m := range []struct{ name, value string }{
		{"server", r.Server}, {"model", r.Model}, {"weights_sha256", r.Weights}, {"tokenizer_sha256", r.Tokenizer},
		{"format", r.Format}, {"kernels", r.Kernels}, {"kv_dtype", r.Cache}, {"jump", r.Jump},
		{"adapter", r.Adapter}, {"adapter_sha256", r.AdapterSum}, {"template_sha256", r.Template},
		{"grammar_sha256", r.Grammar},
	} {
		b = appendText(b, m.name, m.value)
	}
	if len(r.Plugins) > 0 {
		b = append(b, `,"plugins":[`...)
		for i, p := range r.Plugins {
			b = wire.AppendString(append(wire.Comma(b, i), `{"name":`...), p.Name)
			b = appendText(appendText(b, "use", p.Use), "version", p.Version)
			b = appendText(appendText(b, "sha256", p.SHA256), "config_mac", p.Config)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	b = wire.AppendInt(append(b, `,"prompt":{`...), "tokens", r.PromptTokens)
	b = append(appendText(appendText(b, "sha256", r.Prompt), "images_sha256", r.Images), '}')
	b = strconv.AppendUint(append(b, `,"seed":`...), r.Params.Seed, 10)
	b = r.appendSettings(append(b, `,"settings":`...))
	b = append(b, `,"outputs":[`...)
	for i, o := range r.Outputs {
		b = wire.AppendInt(append(wire.Comma(b, i), '{'), "tokens", o.Tokens)
		b = append(appendText(b, "sha256", o.SHA256), '}')
	}
	return append(b, "]}"...)
}

// appendText writes a member behind others, unless it is empty.
func appendText(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return wire.AppendString(append(append(append(b, `,"`...), name...), `":`...), value)
}

// appendSettings writes all settings that shape a text, with their values whether they were given or not.
func (r *Receipt) appendSettings(b []byte) []byte {
	p := &r.Params
	b = strconv.AppendBool(append(b, `{"sample":`...), p.Sample)
	for _, m := range []struct {
		name  string
		value float32
	}{
		{"temperature", p.Temperature}, {"top_p", p.TopP}, {"typical_p", p.TypicalP}, {"min_p", p.MinP},
		{"repetition_penalty", p.RepetitionPenalty}, {"frequency_penalty", p.FrequencyPenalty},
		{"count_penalty", r.CountPenalty}, {"presence_penalty", p.PresencePenalty},
	} {
		b = wire.AppendFloat32(append(append(append(b, `,"`...), m.name...), `":`...), m.value)
	}
	b = wire.AppendInt(append(b, ','), "top_k", p.TopK)
	b = wire.AppendInt(append(b, ','), "max_new_tokens", p.MaxNewTokens)
	b = strconv.AppendBool(append(b, `,"ignore_eos":`...), p.IgnoreEOS)
	if p.Watermark {
		b = wire.AppendFloat32(append(b, `,"watermark_gamma":`...), p.WatermarkGamma)
		b = wire.AppendFloat32(append(b, `,"watermark_delta":`...), p.WatermarkDelta)
	}
	if p.BeamSearch() {
		b = wire.AppendInt(append(b, ','), "num_beams", p.NumBeams)
		b = wire.AppendFloat32(append(b, `,"length_penalty":`...), p.LengthPenalty)
		b = wire.AppendInt(append(b, ','), "early_stopping", int(p.EarlyStopping))
	}
	if r.Guidance != "" {
		b = appendText(appendText(b, "guidance", r.Guidance), "guidance_prompt_sha256", r.Twin)
		b = append(b, `,"guidance_weights":[`...)
		for i, w := range r.Mix.Weights {
			b = wire.AppendFloat32(wire.Comma(b, i), w)
		}
		b = wire.AppendFloat32(append(b, `],"guidance_alpha":`...), r.Mix.Alpha)
	}
	if r.Healed > 0 {
		b = wire.AppendInt(append(b, ','), "healed_bytes", r.Healed)
	}
	if len(p.Stop) > 0 {
		b = appendText(b, "stop_sha256", sumOf(p.Stop...))
	}
	if len(p.LogitBias) > 0 {
		sum := newTokenSum()
		for _, e := range p.LogitBias {
			sum.add(e.Token)
			_, _ = sum.Write(wire.AppendFloat32(nil, e.Add))
		}
		b = appendText(b, "logit_bias_sha256", sum.hex())
	}
	return append(b, '}')
}
