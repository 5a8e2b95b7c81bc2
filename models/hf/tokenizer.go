package hf

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Names of the tokenizer's files in a model's folder.
const (
	TokenizerFile       = "tokenizer.json"
	TokenizerConfigFile = "tokenizer_config.json"
	SpecialTokensFile   = "special_tokens_map.json"
)

// TokenizerConfig is the part of tokenizer_config.json, and of the files that replace it in older
// and newer folders, that serving needs.
type TokenizerConfig struct {
	// BOS, EOS, Pad and Unk are the tokens' texts; "" if there is none.
	BOS, EOS, Pad, Unk string
	// Tokens are the texts of all tokens that have a name, by that name:
	// bos_token, eos_token and others. Templates read them as variables.
	Tokens map[string]string
	// AddBOS is nil if the file does not have it.
	AddBOS *bool
	// AddEOS says that texts end with EOS, NotLegacy that tokenizer.model's spaces are those of transformers' newer
	// way; Added are the tokens of added_tokens_decoder, by id. They matter where there is no tokenizer.json.
	AddEOS, NotLegacy bool
	// MaxLength is model_max_length, the most tokens of a text; 0 where the file does not bound it.
	MaxLength int
	Added     map[int]AddedToken
	// ChatTemplates maps a name to Jinja source; most models have DefaultTemplate only.
	ChatTemplates map[string]string
	// TemplateFiles maps each name in ChatTemplates to its file, a slash-separated path in the
	// folder; "" if it is in a JSON file.
	TemplateFiles map[string]string
	// decoder says that the file lists its added tokens; special_tokens_map.json is then
	// ignored.
	decoder bool
}

// standardTokens are the names of the common special tokens.
var standardTokens = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token",
	"mask_token"}

// ParseTokenizerConfig reads tokenizer_config.json. Its errors wrap ErrConfig.
func ParseTokenizerConfig(data []byte) (TokenizerConfig, error) {
	o, err := parseObject(TokenizerConfigFile, data)
	if err != nil {
		return TokenizerConfig{}, err
	}
	t := TokenizerConfig{Tokens: map[string]string{}, ChatTemplates: o.templates("chat_template"),
		TemplateFiles: map[string]string{}}
	for name := range t.ChatTemplates {
		t.TemplateFiles[name] = ""
	}
	t.decoder = o.has("added_tokens_decoder")
	t.MaxLength = o.maxLength()
	t.Added = o.readAdded()
	t.AddEOS, t.NotLegacy = o.bool("add_eos_token", false), !o.bool("legacy", true)
	o.tokens(t.Tokens)
	t.nameTokens()
	if _, ok := o.raw("add_bos_token"); ok {
		add := o.bool("add_bos_token", false)
		t.AddBOS = &add
	}
	return t, o.err
}

// readSpecialTokens reads the tokens of special_tokens_map.json, as transformers does if
// tokenizer_config.json does not list added tokens.
func (t *TokenizerConfig) readSpecialTokens(data []byte) error {
	if t.decoder {
		return nil
	}
	o, err := parseObject(SpecialTokensFile, data)
	if err != nil {
		return err
	}
	if t.Tokens == nil {
		t.Tokens = map[string]string{}
	}
	o.tokens(t.Tokens)
	t.nameTokens()
	return o.err
}

func (t *TokenizerConfig) nameTokens() {
	t.BOS, t.EOS, t.Pad, t.Unk = t.Tokens["bos_token"], t.Tokens["eos_token"], t.Tokens["pad_token"],
		t.Tokens["unk_token"]
}

// tokens adds the texts of an object's tokens to out: the standard ones, others whose key ends
// with _token, and those of extra_special_tokens, if that is an object, under any name.
func (o *object) tokens(out map[string]string) {
	for _, key := range standardTokens {
		v, ok := o.raw(key)
		if !ok {
			continue
		}
		s, ok := tokenText(v)
		if !ok {
			o.fail(key, "want a string or an object with content, got %s", shorten(v))
			return
		}
		out[key] = s
	}
	for key, v := range o.values {
		if s, ok := tokenText(v); ok && strings.HasSuffix(key, "_token") {
			out[key] = s
		}
	}
	var extra map[string]json.RawMessage
	if v, ok := o.raw("extra_special_tokens"); ok && json.Unmarshal(v, &extra) == nil {
		for key, v := range extra {
			if s, ok := tokenText(v); ok {
				out[key] = s
			}
		}
	}
}

// tokenText returns a token's text: a string, or an object's "content".
func tokenText(v json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(v, &s) == nil && s != nil {
		return *s, true
	}
	var added struct {
		Content *string `json:"content"`
	}
	if json.Unmarshal(v, &added) != nil || added.Content == nil {
		return "", false
	}
	return *added.Content, true
}

// maxLength reads model_max_length. Files without a bound have a number beyond all lengths.
func (o *object) maxLength() int {
	v, _ := o.raw("model_max_length")
	n, err := strconv.ParseFloat(string(v), 64)
	if err != nil || n < 1 || n > maxPositions {
		return 0
	}
	return int(n)
}
