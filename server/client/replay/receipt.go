package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"tgi/server/client/terminal"
)

// receipt is a receipt as replies have it.
type receipt struct {
	plain
	Plugins  []plugin
	Prompt   prompt
	Seed     json.Number
	Settings map[string]any
	Outputs  []output
}

// whole reports whether there is a seed of 64 bits, as a number or as a text.
func (r *receipt) whole() bool {
	_, err := strconv.ParseUint(r.Seed.String(), 10, 64)
	return err == nil
}

// lostDigits says that the seed may not be the one that was used: who reads numbers as JavaScript does keeps 53 bits.
func (r *receipt) lostDigits() []string {
	text := r.Seed.String()
	f, err := r.Seed.Float64()
	switch {
	case text == "" || err != nil:
	case !r.whole():
		return []string{fmt.Sprintf("the receipt's seed, %s, is no whole number of 64 bits: something that reads "+
			"numbers as JavaScript does changed it", terminal.Line(text))}
	case f > 1<<53 && strconv.FormatFloat(f, 'f', -1, 64) == text:
		return []string{fmt.Sprintf("the receipt's seed, %s, may have been rounded by something that reads numbers as "+
			"JavaScript does", text)}
	}
	return nil
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
	add("seed", r.Seed.String(), is.Seed.String())
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
