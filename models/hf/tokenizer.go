package hf

import "encoding/json"

// Names of the tokenizer's files in a model's folder.
const (
	TokenizerFile       = "tokenizer.json"
	TokenizerConfigFile = "tokenizer_config.json"
	ChatTemplateFile    = "chat_template.jinja"
)

// DefaultTemplate is the name of the template that has none of its own.
const DefaultTemplate = "default"

// TokenizerConfig is what serving needs of tokenizer_config.json.
type TokenizerConfig struct {
	// BOS, EOS, Pad and Unk are the tokens' texts; "" when there is none.
	BOS, EOS, Pad, Unk string
	// AddBOS is nil when the file does not say.
	AddBOS *bool
	// ChatTemplates maps a name to Jinja source; most models have DefaultTemplate only.
	ChatTemplates map[string]string
}

// ParseTokenizerConfig reads tokenizer_config.json. Its errors wrap ErrConfig.
func ParseTokenizerConfig(data []byte) (TokenizerConfig, error) {
	o, err := parseObject(TokenizerConfigFile, data)
	if err != nil {
		return TokenizerConfig{}, err
	}
	t := TokenizerConfig{
		BOS: o.token("bos_token"), EOS: o.token("eos_token"), Pad: o.token("pad_token"), Unk: o.token("unk_token"),
		ChatTemplates: o.templates("chat_template"),
	}
	if _, ok := o.raw("add_bos_token"); ok {
		add := o.bool("add_bos_token", false)
		t.AddBOS = &add
	}
	return t, o.err
}

// token reads a token's text, which is a string or an object with "content".
func (o *object) token(key string) string {
	v, ok := o.raw(key)
	if !ok {
		return ""
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	var added struct {
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(v, &added); err != nil || added.Content == nil {
		o.fail(key, "want a string or an object with content, got %s", show(v))
		return ""
	}
	return *added.Content
}

// templates reads chat_template: one source, or a list of {name, template}.
func (o *object) templates(key string) map[string]string {
	out := map[string]string{}
	v, ok := o.raw(key)
	if !ok {
		return out
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		out[DefaultTemplate] = s
		return out
	}
	var list []struct {
		Name     *string `json:"name"`
		Template *string `json:"template"`
	}
	if err := json.Unmarshal(v, &list); err != nil {
		o.fail(key, "want a string or a list of {name, template}, got %s", show(v))
		return out
	}
	for i, t := range list {
		if t.Name == nil || t.Template == nil {
			o.fail(key, "entry %d lacks name or template", i)
			return out
		}
		if _, twice := out[*t.Name]; twice {
			o.fail(key, "two templates are named %q", *t.Name)
			return out
		}
		out[*t.Name] = *t.Template
	}
	return out
}
