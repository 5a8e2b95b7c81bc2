package hf

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Kinds of tokens in the GGUF format. The others are ordinary ones.
const (
	ggufUnknown = 2
	ggufControl = 3
	ggufUser    = 4
	ggufUnused  = 5
	ggufByte    = 6
)

// space stands for a space in SentencePiece vocabularies.
const space = "▁"

// ggufVocab is the vocabulary of a file.
type ggufVocab struct {
	tokens []string
	kinds  []float64
	scores []float64
}

func (v *ggufVocab) kind(i int) int {
	if i < len(v.kinds) {
		return int(v.kinds[i])
	}
	return 1
}

// tokenizer makes tokenizer.json and what tokenizer_config.json says out of the metadata, as transformers converts them
// (integrations/ggml.py). The JSON is nil if the file has no vocabulary.
func (g *ggufModel) tokenizer() (TokenizerConfig, []byte) {
	t := TokenizerConfig{Tokens: map[string]string{}, ChatTemplates: map[string]string{},
		TemplateFiles: map[string]string{}}
	g.templates(&t)
	model := g.text("tokenizer.ggml.model")
	if model == "none" || model == "" {
		return t, nil
	}
	var v ggufVocab
	var errs [3]error
	v.tokens, errs[0] = g.Strings("tokenizer.ggml.tokens")
	v.kinds, errs[1] = g.Numbers("tokenizer.ggml.token_type")
	v.scores, errs[2] = g.Numbers("tokenizer.ggml.scores")
	g.err = cmp.Or(g.err, errs[0], errs[1], errs[2])
	v.check(g)
	if g.err != nil {
		return t, nil
	}
	g.special(&t, &v, model)
	g.ends = v.ends()
	var file map[string]any
	switch model {
	case "gpt2":
		file = g.byteLevel(&v)
	case "llama":
		file = g.sentencePiece(&v)
	default:
		g.fail("tokenizer.ggml.model: %s is not supported, want gpt2 or llama", quoted(model))
		return t, nil
	}
	if g.err != nil {
		return t, nil
	}
	file["version"] = "1.0"
	file["added_tokens"] = v.added()
	end, _ := g.number("tokenizer.ggml.add_eos_token")
	file["post_processor"] = postProcessor(&v, map[bool]string{true: t.BOS}[*t.AddBOS],
		map[bool]string{true: t.EOS}[end != 0])
	data, err := json.Marshal(file)
	if err != nil {
		g.fail("tokenizer: %v", err)
	}
	return t, data
}

// Limits of a vocabulary, far above those of any model that is read: its tokens, and those that are found in text
// before anything else.
const (
	maxTokens     = 1 << 20
	maxAdded      = 1 << 16
	maxTokenBytes = 1 << 10
)

// check refuses vocabularies that no model has.
func (v *ggufVocab) check(g *ggufModel) {
	rows, added := g.dim("token_embd.weight", 1), 0
	for i, text := range v.tokens {
		if len(text) > maxTokenBytes {
			g.fail("tokenizer.ggml.tokens: entry %d has %d bytes, at most %d are allowed", i, len(text), maxTokenBytes)
			return
		}
		if k := v.kind(i); k == ggufControl || k == ggufUser {
			added++
		}
	}
	switch n := len(v.tokens); {
	case n == 0:
		g.fail("tokenizer.ggml.tokens is missing")
	case n > maxTokens:
		g.fail("tokenizer.ggml.tokens: has %d, at most %d are allowed", n, maxTokens)
	case n > rows:
		g.fail("tokenizer.ggml.tokens: has %d, but the embedding has %d rows", n, rows)
	case added > maxAdded:
		g.fail("tokenizer.ggml.token_type: has %d special and added tokens, at most %d are allowed", added, maxAdded)
	}
}

// templates reads the chat templates.
func (g *ggufModel) templates(t *TokenizerConfig) {
	names, err := g.Strings("tokenizer.chat_templates")
	g.err = cmp.Or(g.err, err)
	keys := map[string]string{DefaultTemplate: "tokenizer.chat_template"}
	for i, name := range names {
		if !plainName(name) {
			g.fail("tokenizer.chat_templates: entry %d is %s, want 1 to 64 letters, digits, \"_\" and \"-\"", i, quoted(name))
			return
		}
		keys[name] = "tokenizer.chat_template." + name
	}
	for name, key := range keys {
		source := g.text(key)
		if len(source) > MaxTemplate {
			g.fail("%s: the template has %d bytes, at most %d", key, len(source), MaxTemplate)
		}
		if source != "" {
			t.ChatTemplates[name], t.TemplateFiles[name] = source, ""
		}
	}
}

// plainName reports whether a text is the name of a template.
func plainName(s string) bool {
	return len(s) > 0 && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
}

// special reads the special tokens.
func (g *ggufModel) special(t *TokenizerConfig, v *ggufVocab, model string) {
	names := map[string]string{"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token",
		"seperator": "sep_token", "mask": "mask_token", "cls": "cls_token"}
	for key, name := range names {
		key = "tokenizer.ggml." + key + "_token_id"
		id, ok := g.number(key)
		if !ok || id < 0 || id >= 1<<32-1 { // the largest number is none
			continue
		}
		if int(id) >= len(v.tokens) {
			g.fail("%s: is %d, but there are %d tokens", key, int(id), len(v.tokens))
			return
		}
		t.Tokens[name] = v.tokens[int(id)]
	}
	t.nameTokens()
	add := model == "llama" || slices.Contains(beginners, g.text("tokenizer.ggml.pre"))
	if n, ok := g.number("tokenizer.ggml.add_bos_token"); ok {
		add = n != 0
	}
	t.AddBOS = &add
}

// enders are tokens that end a text in some models, as llama.cpp lists them: files often name one of several.
var enders = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
	"<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
	"<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~["}

// ends returns the special tokens that are enders. Between <|return|> and <|call|>, as gpt-oss has them, <|end|> ends
// only a part of an answer.
func (v *ggufVocab) ends() (ids []uint32) {
	parts := slices.Contains(v.tokens, "<|return|>") && slices.Contains(v.tokens, "<|call|>")
	for i, text := range v.tokens {
		if v.kind(i) == ggufControl && slices.Contains(enders, text) && !(parts && text == "<|end|>") {
			ids = append(ids, uint32(i))
		}
	}
	return ids
}

// beginners are the pre-tokenizers whose texts begin with a token unless the file says something else.
var beginners = []string{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
	"tekken"}

// added lists the tokens that are found in text before anything else.
func (v *ggufVocab) added() []map[string]any {
	list := []map[string]any{}
	for i, text := range v.tokens {
		kind := v.kind(i)
		if kind != ggufControl && kind != ggufUser && kind != ggufUnknown || text == "" {
			continue
		}
		list = append(list, map[string]any{"id": i, "content": text, "special": kind != ggufUser, "single_word": false,
			"lstrip": false, "rstrip": false, "normalized": false})
	}
	return list
}

// byID maps tokens to their ids. Of two with the same text the first wins.
func (v *ggufVocab) byID() map[string]int {
	out := make(map[string]int, len(v.tokens))
	for i, text := range v.tokens {
		if _, twice := out[text]; !twice {
			out[text] = i
		}
	}
	return out
}

// postProcessor adds a token at the beginning and one at the end, unless they are empty.
func postProcessor(v *ggufVocab, begin, end string) any {
	type piece map[string]map[string]any
	single, pair := []piece{}, []piece{}
	tokens := map[string]any{}
	put := func(text string) {
		if text == "" {
			return
		}
		id := slices.Index(v.tokens, text)
		if id < 0 {
			return
		}
		tokens[text] = map[string]any{"id": text, "ids": []int{id}, "tokens": []string{text}}
		single = append(single, piece{"SpecialToken": {"id": text, "type_id": 0}})
		pair = append(pair, piece{"SpecialToken": {"id": text, "type_id": 0}})
	}
	put(begin)
	single = append(single, piece{"Sequence": {"id": "A", "type_id": 0}})
	pair = append(pair, piece{"Sequence": {"id": "A", "type_id": 0}}, piece{"Sequence": {"id": "B", "type_id": 1}})
	put(end)
	if len(tokens) == 0 {
		return nil
	}
	return map[string]any{"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}
}

// sentencePiece is a tokenizer of the kind of Llama 2: pieces with scores, which are merged in the order of the
// scores of what they give.
func (g *ggufModel) sentencePiece(v *ggufVocab) map[string]any {
	if len(v.scores) != len(v.tokens) {
		g.fail("tokenizer.ggml.scores: has %d numbers for %d tokens", len(v.scores), len(v.tokens))
		return nil
	}
	prefix, ok := g.number("tokenizer.ggml.add_space_prefix")
	return sentencePieceFile(v, !ok || prefix != 0, false)
}

// sentencePieceFile is tokenizer.json of pieces with scores. prefixed puts a space before a text, or with once before
// its first part alone, and not behind each special token.
func sentencePieceFile(v *ggufVocab, prefixed, once bool) map[string]any {
	var normalizer, pre any
	normalizers := []any{map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": space}}
	decoders := []any{map[string]any{"type": "Replace", "pattern": map[string]any{"String": space}, "content": " "},
		map[string]any{"type": "ByteFallback"}, map[string]any{"type": "Fuse"}}
	if prefixed && !once {
		normalizers = slices.Insert(normalizers, 0, any(map[string]any{"type": "Prepend", "prepend": space}))
	}
	if prefixed {
		decoders = append(decoders, map[string]any{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	normalizer = map[string]any{"type": "Sequence", "normalizers": normalizers}
	if once {
		normalizer = nil
		pre = map[string]any{"type": "Metaspace", "replacement": space, "split": false,
			"prepend_scheme": map[bool]string{true: "first", false: "never"}[prefixed]}
	}
	unk := any(nil)
	for i, text := range v.tokens {
		if v.kind(i) == ggufUnknown {
			unk = text
		}
	}
	return map[string]any{
		"normalizer":    normalizer,
		"pre_tokenizer": pre,
		"decoder":       map[string]any{"type": "Sequence", "decoders": decoders},
		"model": map[string]any{"type": "BPE", "unk_token": unk, "fuse_unk": true, "byte_fallback": true,
			"vocab": v.byID(), "merges": v.merges()},
	}
}

// merges returns the pairs of pieces that make another one, those of the highest score first.
func (v *ggufVocab) merges() [][2]string {
	ids := v.byID()
	ordinary := func(i int) bool { k := v.kind(i); return k != ggufControl && k != ggufUnknown && k != ggufByte }
	type merge struct {
		pair        [2]string
		score       float64
		left, right int
	}
	var list []merge
	for i, text := range v.tokens {
		if !ordinary(i) || ids[text] != i {
			continue
		}
		for at := range text {
			left, ok := ids[text[:at]]
			right, also := ids[text[at:]]
			if at > 0 && ok && also && ordinary(left) && ordinary(right) {
				list = append(list, merge{[2]string{text[:at], text[at:]}, v.scores[i], left, right})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b merge) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.left, b.left), cmp.Compare(a.right, b.right))
	})
	out := make([][2]string, len(list))
	for i, m := range list {
		out[i] = m.pair
	}
	return out
}

// byteLevel is a tokenizer of the kind of GPT-2.
func (g *ggufModel) byteLevel(v *ggufVocab) map[string]any {
	name := g.text("tokenizer.ggml.pre")
	pre, ok := splitOf(cmp.Or(name, "default"))
	if !ok {
		g.fail("tokenizer.ggml.pre: %s is not supported", quoted(name))
		return nil
	}
	lines, err := g.Strings("tokenizer.ggml.merges")
	g.err = cmp.Or(g.err, err)
	ids := v.byID()
	merges := make([][2]string, 0, len(lines))
	for i, line := range lines {
		at := strings.IndexByte(line[min(1, len(line)):], ' ') + 1 // a piece may begin with a space
		if at < 1 {
			g.fail("tokenizer.ggml.merges: entry %d is %s, want two pieces", i, quoted(line))
			return nil
		}
		pair := [2]string{line[:at], line[at+1:]}
		if v.knows(ids, pair) { // llama.cpp takes no notice of others
			merges = append(merges, pair)
		}
	}
	steps := pre.steps
	if !slices.ContainsFunc(steps, func(s any) bool { return s.(map[string]any)["type"] == "ByteLevel" }) {
		steps = append(slices.Clone(steps), byteLevelStep(pre.gpt2))
	}
	var normalizer any
	if pre.nfc {
		normalizer = map[string]any{"type": "NFC"}
	}
	return map[string]any{
		"normalizer":    normalizer,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": steps},
		"decoder": map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
			"use_regex": true},
		"model": map[string]any{"type": "BPE", "fuse_unk": false, "byte_fallback": false,
			"ignore_merges": pre.ignoreMerges,
			"vocab":         ids, "merges": merges},
	}
}

// knows reports whether the vocabulary has both pieces and what they make.
func (v *ggufVocab) knows(ids map[string]int, pair [2]string) bool {
	_, a := ids[pair[0]]
	_, b := ids[pair[1]]
	_, both := ids[pair[0]+pair[1]]
	return a && b && both
}

// ggufSplit is how a pre-tokenizer divides text.
type ggufSplit struct {
	// names are those in the metadata.
	names string
	// steps are parts of tokenizer.json, each for what the one before has left together.
	steps []any
	// gpt2 adds GPT-2's at the end.
	gpt2 bool
	// nfc composes characters first.
	nfc bool
	// ignoreMerges takes a whole word that is a token as it is.
	ignoreMerges bool
}

// Regular expressions of tokenizers.
const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	words        = `|[^\r\n\p{L}\p{N}]?\p{L}+|`
	others       = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	threeDigits  = contractions + words + `\p{N}{1,3}` + others
	oneDigit     = contractions + words + `\p{N}` + others
	upperLower   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	upperOnly    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	slashes      = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gptSplit     = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	deepSeek     = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" +
		` ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// deepSeekLetters are letters of alphabets with two cases.
const deepSeekLetters = "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ" +
	"ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛ" +
	"Ꜣ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"

// split is a step that cuts out what a regular expression matches.
func split(regex string) any {
	return map[string]any{"type": "Split", "pattern": map[string]any{"Regex": regex}, "behavior": "Isolated",
		"invert": false}
}

// digits is a step that cuts out numbers, or each digit.
func digits(each bool) any { return map[string]any{"type": "Digits", "individual_digits": each} }

// byteLevelStep is a step that turns bytes into characters, and cuts as GPT-2 does first if it is to.
func byteLevelStep(cut bool) any {
	return map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": cut}
}

// ggufSplits are the pre-tokenizers, as the tokenizer.json of their models have them (llama.cpp has forms of its own).
// Files from before there were names have the default, which is llama.cpp's.
var ggufSplits = []ggufSplit{
	{names: "gpt-2 phi-2 olmo jais trillion granite-docling gigachat mellum exaone4", gpt2: true},
	{names: "mpt", gpt2: true, nfc: true},
	{names: "starcoder refact smollm codeshell exaone minerva-7b mellum2", steps: []any{digits(true)}, gpt2: true},
	{names: "command-r", steps: []any{digits(true)}, gpt2: true, nfc: true},
	{names: "falcon", steps: []any{map[string]any{"type": "Punctuation", "behavior": "Contiguous"}, byteLevelStep(true),
		digits(false), split("[0-9][0-9][0-9]")}},
	{names: "default", steps: []any{split(`[\p{P}\$\+<=>\^~\|]+`), split(gptSplit), split(`\p{N}+`),
		split("[0-9][0-9][0-9]")}},
	{names: "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2", steps: []any{split(threeDigits)},
		ignoreMerges: true},
	{names: "dbrx smaug-bpe chatglm-bpe", steps: []any{split(threeDigits)}},
	{names: "glm4 glm5", steps: []any{split(threeDigits)}, ignoreMerges: true},
	{names: "qwen2 deepseek-r1-qwen kormo megrez", steps: []any{split(oneDigit)}, nfc: true},
	{names: "qwen35", steps: []any{split(contractions + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}` +
		`| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`)}},
	{names: "deepseek-coder", steps: []any{split("[\r\n]"), split(`\s?\p{L}+`), split(`\s?\p{P}+`),
		split("[一-龥ࠀ-一가-퟿]+"), digits(true)}},
	{names: "deepseek-llm", steps: []any{split("[\r\n]"), split(deepSeekLetters), split("\\s?[!-/:-~！-／：-～‘-‟　-。]+"),
		split(`\s+$`), split("[一-龥ࠀ-一가-퟿]+"), digits(true)}},
	{names: "stablelm2 hunyuan solar-open grok-2", steps: []any{split(oneDigit)}},
	{names: "tekken", steps: []any{split(upperLower + "|" + upperOnly + `|\p{N}` + slashes)}, ignoreMerges: true},
	{names: "gpt-4o llama4 kanana2", steps: []any{split(upperLower + contractions + "?|" + upperOnly + contractions +
		`?|\p{N}{1,3}` + slashes)}},
	{names: "deepseek-v3 hunyuan-dense joyai-llm", steps: []any{split(`\p{N}{1,3}`), split(`[一-龥぀-ゟ゠-ヿ]+`),
		split(deepSeek)}},
	{names: "seed-coder", steps: []any{split(contractions + words +
		`\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`)}},
	{names: "bloom poro-chat gpt3-finnish", steps: []any{split(` ?[^(\s|[.,!?…。，、।۔،])]+`)}},
}

// splitOf finds a pre-tokenizer by its name.
func splitOf(name string) (ggufSplit, bool) {
	i := slices.IndexFunc(ggufSplits, func(s ggufSplit) bool { return slices.Contains(strings.Fields(s.names), name) })
	if i < 0 {
		return ggufSplit{}, false
	}
	return ggufSplits[i], true
}
