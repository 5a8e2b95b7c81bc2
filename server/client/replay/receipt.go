package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tgi/server/client/terminal"
)

// receipt is a receipt as replies have it.
type receipt struct {
	plain
	Plugins  []plugin
	Prompt   prompt
	Seed     seed
	Settings map[string]any
	Outputs  []output
}

// receiptsOf reads the receipts of a reply.
func receiptsOf(raw []json.RawMessage) ([]receipt, error) {
	list := make([]receipt, len(raw))
	for i := range raw {
		if json.Unmarshal(raw[i], &list[i]) != nil {
			return nil, errors.New("a receipt is of no known form")
		}
	}
	return list, nil
}

// drawn reports whether the seed shapes the tokens. Where none is drawn it does so at most through plugins that choose
// tokens: templates and parsers of calls do not.
func (r *receipt) drawn() bool {
	return r.Settings["sample"] != false || slices.ContainsFunc(r.Plugins, func(p plugin) bool {
		return p.Use != "template" && p.Use != "tools"
	})
}

// plain are the members that are texts.
type plain struct {
	Server, Model, Format, Kernels, Adapter, Jump string

	Cache      string `json:"kv_dtype"`
	Weights    string `json:"weights_sha256"`
	Tokenizer  string `json:"tokenizer_sha256"`
	AdapterSum string `json:"adapter_sha256"`
	Template   string `json:"template_sha256"`
	Grammar    string `json:"grammar_sha256"`
}

type plugin struct {
	Name, Use, Version, SHA256 string
	Config                     string `json:"config_sha256"`
}

func (p *plugin) key() string { return p.Name + " (" + p.Use + ")" }

func (p *plugin) String() string {
	text := p.SHA256
	if p.Version != "" {
		text = p.Version + " " + text
	}
	if p.Config != "" {
		text += " configured " + p.Config
	}
	return text
}

type output struct {
	Tokens int
	SHA256 string
}

type prompt struct {
	output
	Images string `json:"images_sha256"`
}

func (p prompt) String() string {
	if p.Images == "" {
		return p.output.String()
	}
	return p.output.String() + " with images " + p.Images
}

func (o output) String() string {
	return fmt.Sprintf("%s %s", terminal.Count(o.Tokens, "token"), o.SHA256)
}

// differences lists what r and is, which was made later, do not share.
func (r *receipt) differences(is *receipt) (list []Difference) {
	add := func(field, a, b string) {
		if a != b {
			list = append(list, Difference{field, a, b})
		}
	}
	add("server", r.Server, is.Server)
	add("model", r.Model, is.Model)
	add("weights", r.Weights, is.Weights)
	add("tokenizer", r.Tokenizer, is.Tokenizer)
	add("format", r.Format, is.Format)
	add("kernels", r.Kernels, is.Kernels)
	add("keys and values", r.Cache, is.Cache)
	add("jump", r.Jump, is.Jump)
	add("adapter", r.Adapter, is.Adapter)
	add("adapter's weights", r.AdapterSum, is.AdapterSum)
	add("template", r.Template, is.Template)
	add("grammar", r.Grammar, is.Grammar)
	before, now := byKey(r.Plugins), byKey(is.Plugins)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		p := before[key]
		if q, ok := now[key]; ok {
			add("plugin "+key, p.String(), q.String())
		} else {
			add("plugin "+key, p.String(), "")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if q := now[key]; before[key] == (plugin{}) {
			add("plugin "+key, "", q.String())
		}
	}
	add("prompt", r.Prompt.String(), is.Prompt.String())
	add("seed", r.Seed.shown(), is.Seed.shown())
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		add("setting "+name, fmt.Sprint(r.Settings[name]), fmt.Sprint(cmp.Or(is.Settings[name], any(""))))
	}
	for _, name := range slices.Sorted(maps.Keys(is.Settings)) {
		if _, ok := r.Settings[name]; !ok {
			add("setting "+name, "", fmt.Sprint(is.Settings[name]))
		}
	}
	for i := range max(len(r.Outputs), len(is.Outputs)) {
		var a, b string
		if i < len(r.Outputs) {
			a = r.Outputs[i].String()
		}
		if i < len(is.Outputs) {
			b = is.Outputs[i].String()
		}
		add(fmt.Sprintf("output %d", i), a, b)
	}
	return list
}

// byKey has plugins by name and kind.
func byKey(list []plugin) map[string]plugin {
	m := map[string]plugin{}
	for _, p := range list {
		m[p.key()] = p
	}
	return m
}
