package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tgi/server/client/terminal"
	"tgi/server/wire"
)

// receipt is a receipt as replies have it.
type receipt struct {
	Server, Model, Format, Kernels, Adapter, Jump string

	Cache      string `json:"kv_dtype"`
	Weights    string `json:"weights_sha256"`
	Tokenizer  string `json:"tokenizer_sha256"`
	AdapterSum string `json:"adapter_sha256"`
	Template   string `json:"template_sha256"`
	Grammar    string `json:"grammar_sha256"`

	Plugins  []plugin
	Prompt   prompt
	Seed     seed
	Settings settings
	Outputs  []output
}

// known is the version of receipts that this program reads.
const known = 1

// readReceipt reads a receipt. Its error names the field, whatever API the receipt came by.
func readReceipt(raw json.RawMessage) (r receipt, err error) {
	if given := wire.Kind(raw); given != "an object" {
		return r, fmt.Errorf("receipt: want an object, given %s", given)
	}
	var form struct {
		Version json.RawMessage
		// What has to be there of each.
		Plugins, Outputs json.RawMessage
	}
	_ = json.Unmarshal(raw, &form) // which cannot fail: it was read as JSON
	switch v, err := strconv.ParseFloat(string(form.Version), 64); {
	case len(form.Version) == 0:
		return r, fmt.Errorf("receipt.version is missing: this tgi reads version %d", known)
	case err != nil || v != known:
		return r, fmt.Errorf("receipt.version: this tgi reads version %d, given %s", known, quoted(form.Version))
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("receipt.%w", wire.Told(err))
	}
	if err := given(raw, reflect.TypeOf(r), "receipt"); err != nil {
		return r, err
	}
	if err := complete(form.Plugins, "plugins", "name", "use"); err != nil {
		return r, err
	}
	if err := complete(form.Outputs, "outputs", "tokens", "sha256"); err != nil {
		return r, err
	}
	return r, r.checksums()
}

// checksums returns an error where what is to be a checksum is none. Where it is not needed it may be empty.
func (r *receipt) checksums() error {
	type member struct{ field, sum string }
	list := []member{{"weights", r.Weights}, {"tokenizer", r.Tokenizer}, {"adapter", r.AdapterSum},
		{"template", r.Template}, {"grammar", r.Grammar}, {"prompt.", r.Prompt.SHA256},
		{"prompt.images", r.Prompt.Images}}
	for i, p := range r.Plugins {
		at := fmt.Sprintf("plugins[%d].", i)
		list = append(list, member{at, p.SHA256})
		if p.Config != "" && !macs.MatchString(p.Config) {
			return fmt.Errorf("receipt.%sconfig_mac: want 16 of 0-9 and a-f, a full stop and 64 of these, given %s", at,
				shown(p.Config))
		}
	}
	for _, m := range list {
		if m.sum != "" && !sums.MatchString(m.sum) {
			return sumError(m.field, m.sum)
		}
	}
	for i, o := range r.Outputs {
		if !sums.MatchString(o.SHA256) {
			return sumError(fmt.Sprintf("outputs[%d].", i), o.SHA256)
		}
	}
	return nil
}

// given returns an error where a member that t, a struct, has is null in raw: a server leaves out what there is not. It
// is for a seed to say what it may be.
func given(raw json.RawMessage, t reflect.Type, at string) error {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(raw, &members) // it was read as a t
	for i := range t.NumField() {
		f := t.Field(i)
		name := cmp.Or(f.Tag.Get("json"), strings.ToLower(f.Name))
		value, there := members[name]
		at := at + "." + name
		switch {
		case !there || f.Type == reflect.TypeFor[seed]():
		case !set(value):
			return fmt.Errorf("%s: want %s, given null", at, wanted(f.Type, name))
		case f.Type.Kind() == reflect.Struct:
			if err := given(value, f.Type, at); err != nil {
				return err
			}
		case f.Type.Kind() == reflect.Slice:
			for i, one := range wire.Elements(value) {
				if err := given(one, f.Type.Elem(), fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// wanted is what a member of a receipt has to be.
func wanted(t reflect.Type, name string) string {
	switch t.Kind() {
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Uint32:
		return "a whole number from 0 to 2^32-1"
	}
	if strings.HasSuffix(name, "sha256") {
		return checksum.name
	}
	return word.name
}

// sumError says that a member whose name begins so is no checksum.
func sumError(field, given string) error {
	name := "receipt." + field + "_sha256"
	return fmt.Errorf("%s: want %s, given %s", strings.Replace(name, "._", ".", 1), checksum.name, shown(given))
}

// complete returns an error where an element of a member lacks something.
func complete(raw json.RawMessage, member string, want ...string) error {
	var list []map[string]json.RawMessage
	_ = json.Unmarshal(raw, &list) // which cannot fail, nor can it for null: the receipt was read
	for i, one := range list {
		for _, name := range want {
			if !set(one[name]) {
				return fmt.Errorf("receipt.%s[%d].%s is missing", member, i, name)
			}
		}
	}
	return nil
}

// quoted is a value of JSON as its writer has to write it, in a line and not all of it where it is long.
func quoted(raw []byte) string { return terminal.Line(cut(string(raw))) }

// settings are those of a receipt, by their names, as JSON.
type settings map[string]json.RawMessage

// UnmarshalJSON checks the kinds of those that [generate.AppendReceipt] writes.
func (s *settings) UnmarshalJSON(data []byte) error {
	var list map[string]json.RawMessage
	if given := wire.Kind(data); given != "an object" {
		return fmt.Errorf("settings: want an object, given %s", given)
	}
	_ = json.Unmarshal(data, &list) // it is one
	for _, name := range slices.Sorted(maps.Keys(list)) {
		raw := list[name]
		if k, known := settingKinds[name]; known && !(set(raw) && k.is(raw)) {
			return fmt.Errorf("settings.%s: want %s, given %s", name, k.name, quoted(raw))
		}
	}
	*s = list
	return nil
}

// valueKind is what values of a receipt have to be.
type valueKind struct {
	name string
	is   func(raw json.RawMessage) bool
}

// reads is the check of a value that is a T.
func reads[T any](raw json.RawMessage) bool { return json.Unmarshal(raw, new(T)) == nil }

var (
	flag   = valueKind{"true or false", reads[bool]}
	number = valueKind{"a number", reads[float64]}
	// whole takes 5.0, too, which something that wrote the receipt anew may have made of 5.
	whole = valueKind{"a whole number", func(raw json.RawMessage) bool {
		var f float64
		return json.Unmarshal(raw, &f) == nil && f == math.Trunc(f)
	}}
	word     = valueKind{"a string", reads[string]}
	numbers  = valueKind{"an array of numbers", reads[[]float64]}
	checksum = valueKind{"a checksum, 64 of 0-9 and a-f", func(raw json.RawMessage) bool {
		var text string
		return json.Unmarshal(raw, &text) == nil && sums.MatchString(text)
	}}
)

// sums are checksums as receipts have them.
var sums = regexp.MustCompile("^[0-9a-f]{64}$")

// macs are checksums that only a server with the key makes, behind the name of that.
var macs = regexp.MustCompile(`^[0-9a-f]{16}\.[0-9a-f]{64}$`)

// settingKinds are those of the known settings. Others may be of a later version, and are
// compared alone.
var settingKinds = map[string]valueKind{
	"sample": flag, "ignore_eos": flag, "temperature": number, "top_p": number, "typical_p": number, "min_p": number,
	"repetition_penalty": number, "frequency_penalty": number, "count_penalty": number, "presence_penalty": number,
	"top_k": whole, "max_new_tokens": whole, "watermark_gamma": number, "watermark_delta": number, "num_beams": whole,
	"length_penalty": number, "early_stopping": whole, "guidance": word, "guidance_weights": numbers,
	"guidance_alpha": number, "healed_bytes": whole, "guidance_prompt_sha256": checksum,
	"stop_sha256": checksum, "logit_bias_sha256": checksum,
}

// samples reports whether tokens were drawn as far as the settings say, which is so where they say nothing.
func (s settings) samples() bool { return string(s["sample"]) != "false" }

// equal reports whether two settings are the same, however numbers are written.
func equal(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y) // which cannot fail: they were read as JSON
	return reflect.DeepEqual(x, y)
}

// drawn reports whether the seed shapes the tokens. Where none is drawn it does so at most through plugins that choose
// tokens: templates and parsers of calls do not.
func (r *receipt) drawn() bool {
	return r.Settings.samples() || slices.ContainsFunc(r.Plugins, func(p plugin) bool {
		return p.Use != "template" && p.Use != "tools"
	})
}

type plugin struct {
	Name, Use, Version, SHA256 string
	// Config is an HMAC, whose beginning names the key.
	Config string `json:"config_mac"`
}

// comparable reports whether what two plugins are configured with can be compared: the same key made the checksums. One
// that is configured differs from one that is not, whatever the key is.
func (p *plugin) comparable(q plugin) bool {
	before, _, _ := strings.Cut(p.Config, ".")
	now, _, _ := strings.Cut(q.Config, ".")
	return before == now || p.Config == "" || q.Config == ""
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
	Tokens uint32
	SHA256 string
}

type prompt struct {
	Tokens uint32
	SHA256 string
	Images string `json:"images_sha256"`
}

func (p prompt) String() string {
	text := output{p.Tokens, p.SHA256}.String()
	if p.Images != "" {
		text += " with images " + p.Images
	}
	return text
}

func (o output) String() string {
	return fmt.Sprintf("%s %s", terminal.Count(int(o.Tokens), "token"), o.SHA256)
}

// origin lists of what r and is, which was made later, follow from the things that they do not share.
func (r *receipt) origin(is *receipt) (list []Difference) {
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
			if !p.comparable(q) {
				p.Config, q.Config = "", ""
			}
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
	if r.Seed.digits() != is.Seed.digits() { // it may be a text in one of them
		add("seed", r.Seed.shown(), is.Seed.shown())
	}
	names := map[string]bool{}
	for _, s := range []settings{r.Settings, is.Settings} {
		for name := range s {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := r.Settings[name], is.Settings[name]; !equal(a, b) {
			list = append(list, Difference{"setting " + name, quoted(a), quoted(b)})
		}
	}
	return list
}

// tokenDifferences lists the sequences of r and is whose tokens are not the same.
func (r *receipt) tokenDifferences(is *receipt) (list []Difference) {
	for i := range max(len(r.Outputs), len(is.Outputs)) {
		d := Difference{Field: fmt.Sprintf("output %d", i)}
		if i < len(r.Outputs) {
			d.Was = r.Outputs[i].String()
		}
		if i < len(is.Outputs) {
			d.Is = is.Outputs[i].String()
		}
		if d.Was != d.Is {
			list = append(list, d)
		}
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
