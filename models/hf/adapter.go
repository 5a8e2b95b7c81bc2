package hf

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Files of a PEFT adapter's folder.
const (
	AdapterConfigFile = "adapter_config.json"
	AdapterFile       = "adapter_model.safetensors"
	// AdapterPickle is the older form of AdapterFile. It is Python's pickle, which can run code, and is not read.
	AdapterPickle = "adapter_model.bin"
)

// MaxRank is the highest rank of an adapter.
const MaxRank = 1024

// maxPatterns bounds rank_pattern and alpha_pattern, each of whose entries is held against each module.
const maxPatterns = 4096

// AdapterConfig is what adapter_config.json says about a low-rank adapter (LoRA), as PEFT writes it.
type AdapterConfig struct {
	rank          float64
	alpha         float64
	rsLoRA        bool
	ranks, alphas []modulePattern
	// targets are the modules that the adapter changes, excluded those that it does not; layers, if not nil, the
	// layers.
	targets, excluded moduleNames
	layers            []int
}

// moduleNames are modules of an adapter as PEFT selects them: by the ends of their names, or by one expression for the
// whole name. The zero value selects nothing, all everything.
type moduleNames struct {
	ends []string
	name *regexp.Regexp
	all  bool
}

func (m moduleNames) match(module string) bool {
	return m.all || m.name != nil && m.name.MatchString(module) || slices.ContainsFunc(m.ends, func(end string) bool {
		return module == end || strings.HasSuffix(module, "."+end)
	})
}

// modules reads the names of modules: a list, an expression, or "all-linear".
func (o *object) modules(key string) (m moduleNames) {
	v, ok := o.raw(key)
	if !ok {
		return m
	}
	var text string
	switch {
	case json.Unmarshal(v, &m.ends) == nil:
		return m
	case json.Unmarshal(v, &text) != nil:
		o.fail(key, "want a list of names or an expression, got %s", shorten(v))
	case text == "all-linear":
		m.all = true
	default:
		name, err := regexp.Compile(`^(?:` + text + `)$`)
		if err != nil {
			o.fail(key, "%q is not a regular expression that Go can read: %v", shorten([]byte(text)), err)
		}
		m.name = name
	}
	return m
}

// layerNumber is the first number between dots in a module's name, which is its layer's.
var layerNumber = regexp.MustCompile(`\.(\d+)\.`)

// Selects reports whether the settings select a module; PEFT leaves its tensors alone if not.
func (c AdapterConfig) Selects(module string) bool {
	if !c.targets.match(module) || c.excluded.match(module) {
		return false
	}
	at := layerNumber.FindStringSubmatch(module)
	if c.layers == nil || at == nil {
		return c.layers == nil
	}
	layer, err := strconv.Atoi(at[1])
	return err == nil && slices.Contains(c.layers, layer)
}

// modulePattern gives some modules another value.
type modulePattern struct {
	module *regexp.Regexp
	value  float64
}

// unsupportedAdapter are settings of PEFT that change what is computed and that this server does not have, with the
// values that switch them off.
var unsupportedAdapter = []struct {
	key  string
	none []string
	text string
}{
	{"use_dora", []string{"false"}, "DoRA is not supported"},
	{"use_qalora", []string{"false"}, "QALoRA is not supported"},
	{"use_bdlora", []string{"false"}, "BD-LoRA is not supported"},
	{"lora_bias", []string{"false"}, "biases of adapters are not supported"},
	{"alora_invocation_tokens", []string{"[]"}, "activated LoRA is not supported"},
	{"modules_to_save", []string{"[]"}, "whole modules beside the adapter are not supported"},
	{"trainable_token_indices", []string{"[]", "{}"}, "trained tokens are not supported"},
	{"target_parameters", []string{"[]"}, "adapters of parameters are not supported"},
	{"layer_replication", []string{"[]"}, "replicated layers are not supported"},
	{"arrow_config", nil, "Arrow is not supported"},
	{"kasa_config", nil, "KaSA is not supported"},
	{"monteclora_config", nil, "MonteCLoRA is not supported"},
}

// changesBase are the values of init_lora_weights with which PEFT trains against changed base weights.
var changesBase = []string{"pissa", "olora", "loftq", "corda", "lora_ga"}

// ParseAdapterConfig reads adapter_config.json. It refuses, naming the key, what would be computed otherwise than PEFT
// does; errors wrap ErrConfig.
func ParseAdapterConfig(data []byte) (AdapterConfig, error) {
	o, err := parseObject(AdapterConfigFile, data)
	if err != nil {
		return AdapterConfig{}, err
	}
	if kind := o.string("peft_type", ""); kind != "LORA" {
		o.fail("peft_type", "is %q, only LORA adapters can be loaded", kind)
	}
	if bias := o.string("bias", "none"); bias != "none" {
		o.fail("bias", "is %q: biases of adapters are not supported", bias)
	}
	for _, u := range unsupportedAdapter {
		if v, ok := o.raw(u.key); ok && !slices.Contains(u.none, string(compact(v))) {
			o.fail(u.key, "is %s: %s", shorten(v), u.text)
		}
	}
	if v, ok := o.raw("init_lora_weights"); ok {
		for _, name := range changesBase {
			if strings.HasPrefix(strings.Trim(string(v), `"`), name) {
				o.fail("init_lora_weights", "is %s, which changes the base model; let PEFT convert the adapter: "+
					"save_pretrained(..., path_initial_model_for_weight_conversion=...)", shorten(v))
			}
		}
	}
	c := AdapterConfig{
		rank:   float64(o.requireInt("r", 1, MaxRank)),
		alpha:  o.float("lora_alpha", 8, -1e6, 1e6),
		rsLoRA: o.bool("use_rslora", false),
		ranks:  o.patterns("rank_pattern", 1, MaxRank),
		alphas: o.patterns("alpha_pattern", -1e6, 1e6),

		targets: o.modules("target_modules"), excluded: o.modules("exclude_modules"),
	}
	if _, ok := o.raw("target_modules"); !ok {
		c.targets.all = true
	}
	if v, ok := o.values["lora_alpha"]; ok && string(v) == "null" {
		o.fail("lora_alpha", "is null, want a number")
	}
	if v, ok := o.raw("layers_to_transform"); ok {
		var one int
		switch {
		case json.Unmarshal(v, &one) == nil:
			c.layers = []int{one}
		case json.Unmarshal(v, &c.layers) != nil:
			o.fail("layers_to_transform", "want a number or a list of numbers, got %s", shorten(v))
		}
	}
	return c, o.err
}

func compact(v json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return v
	}
	return b.Bytes()
}

// patterns reads an object of numbers by regular expressions of module names, in the file's order: PEFT takes the
// first that matches.
func (o *object) patterns(key string, lo, hi float64) (list []modulePattern) {
	v, ok := o.raw(key)
	if !ok {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(v))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		o.fail(key, "want an object, got %s", shorten(v))
		return nil
	}
	for dec.More() {
		if len(list) == maxPatterns {
			o.fail(key, "has more than %d entries", maxPatterns)
			return nil
		}
		t, err := dec.Token()
		if err != nil {
			o.fail(key, "%v", err)
			return nil
		}
		name, _ := t.(string) // keys are strings
		var value float64
		if err := dec.Decode(&value); err != nil || !(value >= lo && value <= hi) {
			o.fail(key, "%q: want a number from %g to %g", shorten([]byte(name)), lo, hi)
			return nil
		}
		module, err := regexp.Compile(`^(.*\.)?(` + name + `)$`)
		if err != nil {
			o.fail(key, "%q is not a regular expression that Go can read: %v", shorten([]byte(name)), err)
			return nil
		}
		list = append(list, modulePattern{module, value})
	}
	return list
}

// Of returns the rank of a module's adapter and what its product is multiplied with. module is the name in the base
// model, such as model.layers.0.self_attn.q_proj.
func (c AdapterConfig) Of(module string) (rank int, scale float64) {
	r := valueOf(c.ranks, module, c.rank)
	alpha := valueOf(c.alphas, module, c.alpha)
	if c.rsLoRA {
		return int(r), alpha / math.Sqrt(r)
	}
	return int(r), alpha / r
}

func valueOf(list []modulePattern, module string, fallback float64) float64 {
	for _, p := range list {
		if p.module.MatchString(module) {
			return p.value
		}
	}
	return fallback
}
