package hf

import (
	"maps"
	"slices"
	"strings"
)

// ConfigFile is the name of a model's configuration in its folder.
const ConfigFile = "config.json"

// Limits of config.json. They are far above any model of the supported families and keep products
// of sizes within an int64.
const (
	maxVocab     = 1 << 24
	maxWidth     = 1 << 20
	maxLayers    = 1 << 12
	maxHeads     = 1 << 12
	maxHeadDim   = 1 << 10
	maxPositions = 1 << 24
)

// Config is a decoder's architecture, with the same names for all families.
type Config struct {
	// Architecture is the class that config.json names, e.g. LlamaForCausalLM.
	Architecture string
	// Vocab is the number of rows of the embedding and of logits.
	Vocab int
	// Hidden is the width of the residual stream, Intermediate of the MLP.
	Hidden, Intermediate int
	Layers               int
	// Heads is a multiple of KVHeads.
	Heads, KVHeads int
	// HeadDim may differ from Hidden/Heads.
	HeadDim int
	// MaxPositions is the maximum length of a sequence.
	MaxPositions int
	// NormEps is added to the mean square in every RMSNorm.
	NormEps float64
	// QKVBias, OutBias and MLPBias say which linear layers have a bias.
	QKVBias, OutBias, MLPBias bool
	// QKNorm says that queries and keys are normalised per head before the rotary embedding.
	QKNorm bool
	// Tied says that the output head is tied to the embedding.
	Tied bool
	// Windows holds, for each layer, the size of the sliding window: how many keys a query
	// attends to, itself included; 0 is all.
	Windows []int
	Rope    Rope
	// BOS and EOS are the ids that config.json names; EOS may be empty.
	BOS, EOS []uint32
	// Vision describes how the model reads images; nil for a model of text only.
	Vision *Vision
}

// family holds the differences of a supported architecture.
type family struct {
	modelType string
	// qkvBias is fixed by the architecture unless biasKey allows attention_bias.
	qkvBias, biasKey bool
	mlpBiasKey       bool
	qkNorm           bool
	// headDim is the default; 0 derives it.
	headDim int
	// kvDefaultsToHeads: older checkpoints of the family have no num_key_value_heads.
	kvDefaultsToHeads bool
	window            func(o *object, layers int) []int
}

var families = map[string]family{
	"LlamaForCausalLM": {modelType: "llama", biasKey: true, mlpBiasKey: true, kvDefaultsToHeads: true,
		window: noWindow},
	"MistralForCausalLM": {modelType: "mistral", window: everyLayerWindow},
	"Qwen2ForCausalLM":   {modelType: "qwen2", qkvBias: true, window: switchedWindow},
	"Qwen3ForCausalLM":   {modelType: "qwen3", biasKey: true, qkNorm: true, headDim: 128, window: switchedWindow},
}

// Architectures lists the supported classes for error texts and documentation.
func Architectures() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(families)),
		slices.Collect(maps.Keys(composites)))))
}

// ParseConfig reads config.json. Its errors wrap ErrConfig.
func ParseConfig(data []byte) (Config, error) {
	o, err := parseObject(ConfigFile, data)
	if err != nil {
		return Config{}, err
	}
	if names := o.strings("architectures"); len(names) == 1 {
		if c, ok := composites[names[0]]; ok {
			return parseComposite(o, names[0], c)
		}
	}
	return parseText(o)
}

// parseText reads the configuration of a model of text.
func parseText(o *object) (Config, error) {
	name, fam := o.architecture()
	if o.err != nil {
		return Config{}, o.err
	}
	c := Config{
		Architecture: name,
		Vocab:        o.requireInt("vocab_size", 1, maxVocab),
		Hidden:       o.requireInt("hidden_size", 1, maxWidth),
		Intermediate: o.requireInt("intermediate_size", 1, maxWidth),
		Layers:       o.requireInt("num_hidden_layers", 1, maxLayers),
		Heads:        o.requireInt("num_attention_heads", 1, maxHeads),
		MaxPositions: o.requireInt("max_position_embeddings", 1, maxPositions),
		NormEps:      o.float("rms_norm_eps", 1e-6, 0, 1),
		Tied:         o.bool("tie_word_embeddings", false),
		QKVBias:      fam.qkvBias,
		QKNorm:       fam.qkNorm,
		BOS:          o.ids("bos_token_id"),
		EOS:          o.ids("eos_token_id"),
	}
	c.readHeads(o, fam)
	if act := o.string("hidden_act", "silu"); act != "silu" && act != "swish" {
		o.fail("hidden_act", "%q is not supported, want \"silu\"", act)
	}
	if fam.biasKey {
		c.QKVBias = o.bool("attention_bias", false)
		c.OutBias = c.QKVBias
	}
	if fam.mlpBiasKey {
		c.MLPBias = o.bool("mlp_bias", false)
	}
	c.Windows = fam.window(o, c.Layers)
	c.Rope = readRope(o, &c)
	o.checkUnread(name)
	return c, o.err
}

// architecture finds the family by the class name, or by model_type if there is no class name.
func (o *object) architecture() (string, family) {
	names := o.strings("architectures")
	modelType := o.string("model_type", "")
	if len(names) > 1 {
		o.fail("architectures", "names %d classes, want 1", len(names))
		return "", family{}
	}
	if len(names) == 0 {
		for name, fam := range families {
			if fam.modelType == modelType {
				return name, fam
			}
		}
		o.fail("model_type", "%q is not supported, want llama, mistral, qwen2 or qwen3", modelType)
		return "", family{}
	}
	fam, ok := families[names[0]]
	if !ok {
		o.fail("architectures", "%q is not supported, want one of %s", names[0], strings.Join(Architectures(), ", "))
		return "", family{}
	}
	if modelType != "" && modelType != fam.modelType {
		o.fail("model_type", "is %q, but architectures names %s, whose type is %q", modelType, names[0], fam.modelType)
	}
	return names[0], fam
}

func (c *Config) readHeads(o *object, fam family) {
	if fam.kvDefaultsToHeads {
		c.KVHeads = o.int("num_key_value_heads", c.Heads, 1, maxHeads)
	} else {
		c.KVHeads = o.requireInt("num_key_value_heads", 1, maxHeads)
	}
	if o.err != nil {
		return
	}
	if c.Heads%c.KVHeads != 0 {
		o.fail("num_key_value_heads", "%d does not divide num_attention_heads %d", c.KVHeads, c.Heads)
	}
	c.HeadDim = o.int("head_dim", fam.headDim, 1, maxHeadDim)
	if c.HeadDim == 0 {
		if c.Hidden%c.Heads != 0 {
			o.fail("hidden_size", "%d is not a multiple of num_attention_heads %d, and head_dim is not given", c.Hidden,
				c.Heads)
		}
		c.HeadDim = c.Hidden / c.Heads
	}
	if c.HeadDim%2 != 0 || c.HeadDim > maxHeadDim {
		o.fail("head_dim", "%d: want an even number of at most %d", c.HeadDim, maxHeadDim)
	}
}

// noWindow is for families without a sliding window.
func noWindow(o *object, layers int) []int {
	if v, ok := o.raw("sliding_window"); ok {
		o.fail("sliding_window", "%s: LlamaForCausalLM has no sliding window", shorten(v))
	}
	for i, t := range o.layerTypes(layers) {
		if t != fullAttention {
			o.fail("layer_types", "layer %d is %q: LlamaForCausalLM has only %q", i, t, fullAttention)
		}
	}
	return make([]int, layers)
}

// everyLayerWindow is Mistral's: one window for all layers, null for none. A missing key means
// 4096, as in the first checkpoints.
func everyLayerWindow(o *object, layers int) []int {
	w := 4096
	if o.has("sliding_window") {
		w = o.int("sliding_window", 0, 1, maxPositions)
	}
	for i, t := range o.layerTypes(layers) {
		if (t == slidingAttention) != (w > 0) {
			o.fail("layer_types", "layer %d is %q, but sliding_window is %d for all layers", i, t, w)
		}
	}
	out := make([]int, layers)
	for i := range out {
		out[i] = w
	}
	return out
}

// switchedWindow is Qwen's: with use_sliding_window there is a window in the layers that
// layer_types names, by default those from max_window_layers on.
func switchedWindow(o *object, layers int) []int {
	w := o.int("sliding_window", 4096, 1, maxPositions)
	from := o.int("max_window_layers", 28, 0, maxLayers)
	on := o.bool("use_sliding_window", false)
	if on && o.has("sliding_window") && string(o.values["sliding_window"]) == "null" {
		on = false
	}
	out := make([]int, layers)
	types := o.layerTypes(layers)
	for i := range out {
		sliding := on && i >= from
		if types != nil {
			sliding = types[i] == slidingAttention
		}
		if sliding && !on {
			o.fail("layer_types", "layer %d is %q, but use_sliding_window is off", i, types[i])
		}
		if sliding {
			out[i] = w
		}
	}
	return out
}

const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// layerTypes reads layer_types and checks its length and values; nil if absent.
func (o *object) layerTypes(layers int) []string {
	types := o.strings("layer_types")
	if types == nil {
		return nil
	}
	if len(types) != layers {
		o.fail("layer_types", "has %d entries, want num_hidden_layers %d", len(types), layers)
		return nil
	}
	for i, t := range types {
		if t != fullAttention && t != slidingAttention {
			o.fail("layer_types", "layer %d is %q, want %q or %q", i, t, fullAttention, slidingAttention)
			return nil
		}
	}
	return types
}
