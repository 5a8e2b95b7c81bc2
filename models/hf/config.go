package hf

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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

// Config describes a decoder in the same terms for all families, so that one builder makes them all.
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
	// Latent describes latent attention. To the rest of the attention it has one key head of HeadDim numbers.
	Latent Latent
	// MaxPositions is the maximum length of a sequence.
	MaxPositions int
	// OriginalPositions, if not 0, is the length beyond which all tokens of a sequence are rotated otherwise: see
	// Rope.Long.
	OriginalPositions int
	// Norm is the kind of the residual stream's norms. Where they are, Tensors says.
	Norm Norm
	// QKNorm is how queries and keys are normalised.
	QKNorm QKNorm
	// QKVBias, OutBias and MLPBias say which linear layers have a bias; HeadBias: the output head.
	QKVBias, OutBias, MLPBias, HeadBias bool
	// ClipQKV, if not 0, bounds queries, keys and values after their norms and before they are rotated.
	ClipQKV float64
	// Parallel says that the MLP reads what the attention reads, not what it wrote. Without a norm of its own
	// (Tensors.MLPNorm) it shares the attention's.
	Parallel bool
	// Activation is the MLP's; Gated says that it multiplies a second projection.
	Activation Activation
	Gated      bool
	// Experts describes the mixture that layers have in place of the MLP.
	Experts Experts
	// Tied says that the output head is tied to the embedding.
	Tied bool
	// Windows holds, for each layer, the size of the sliding window: how many keys a query
	// attends to, itself included; 0 is all.
	Windows []int
	// Rope is the rotary embedding. WindowRope, if set, is that of layers with a window; NoRope, if not nil, names the
	// layers without one.
	Rope       Rope
	WindowRope *Rope
	NoRope     []bool
	// Learned is the number of the position of a sequence's first token in the table of positions, if there is such a
	// table instead of a rotary embedding (Tensors.Positions).
	Learned int
	// ALiBi says that scores fall with distance instead of a rotary embedding.
	ALiBi bool
	// Scales; 1 where the family has none. Attention is the scale of scores, and is never 0.
	Scales Scales
	// AttentionCap and LogitCap, if not 0, bound scores and logits: x becomes cap * tanh(x / cap).
	AttentionCap, LogitCap float64
	// Stretch is what queries far from the beginning are multiplied by.
	Stretch Stretch
	// Tensors says where the parts are in the checkpoint.
	Tensors Tensors
	// BOS and EOS are the ids that config.json names; EOS may be empty.
	BOS, EOS []uint32
	// Unused are beginnings of names of tensors that take no part in answers, such as layers that guess further tokens.
	Unused []string
	// Packing is how the linear layers are quantised in the checkpoint.
	Packing Packing
	// Vision describes how the model reads images; nil for a model of text only.
	Vision *Vision
	// Encoder describes a model that turns texts into vectors or scores; nil for one that generates.
	Encoder *Encoder
}

// Norm is a kind of norm.
type Norm struct {
	// Layer is LayerNorm, which subtracts the mean; else it is RMSNorm.
	Layer bool
	// Bias says that a vector is added. Plain, that there are no weights.
	Bias, Plain bool
	// Offset is added to the weights.
	Offset float64
	// Eps is added to the mean square.
	Eps float64
}

// QKNorm is how queries and keys are normalised. Weights have the Offset and Eps of Config.Norm.
type QKNorm struct {
	// Over is what a mean square is taken over.
	Over QKNormOver
	// Layer is LayerNorm; else it is RMSNorm. Bias says that a vector is added.
	Layer, Bias bool
	// AfterRotary says that heads are rotated first.
	AfterRotary bool
}

// QKNormOver is what a norm of queries and keys works on.
type QKNormOver int

// Without norm; over each head, all with the same weights; over each head, with weights of its own; over all heads
// together.
const (
	QKNormNone QKNormOver = iota
	QKNormHead
	QKNormEachHead
	QKNormAll
)

// Activation is the MLP's function.
type Activation string

// The activations. GELUTanh is the approximation by tanh; ReLU2 is relu(x)^2; XIELU has two numbers of each layer
// (Tensors.Act; Huang and Schlag 2024).
const (
	SiLU     Activation = "silu"
	GELU     Activation = "gelu"
	GELUTanh Activation = "gelu_tanh"
	ReLU     Activation = "relu"
	ReLU2    Activation = "relu2"
	XIELU    Activation = "xielu"
)

// Experts is a mixture of gated MLPs, of which each token takes those with the highest scores of a router.
type Experts struct {
	// N is how many there are; 0 is none. PerToken is how many a token takes.
	N, PerToken int
	// Intermediate is the width of each.
	Intermediate int
	// Normalise says that the weights of a token's experts add up to 1; else those of all experts do.
	Normalise bool
	// Alternate says that rows of gate and up alternate where they are stacked. Packed says that these are MXFP4
	// tensors, [experts, out, in].
	Alternate, Packed bool
	// Bias says that experts and router have biases.
	Bias bool
	// Clamp, if its limit is not 0, is gpt-oss' activation in place of Config.Activation.
	Clamp Clamp
	// Shared is the width of an MLP that all tokens take beside them; 0 is none. SharedGate says that its result is
	// multiplied by the sigmoid of a product of its own.
	Shared     int
	SharedGate bool
	// Plain names layers with an ordinary MLP of Config.Intermediate; nil is none.
	Plain []bool
	// Sigmoid says that an expert's share is the sigmoid of its score; else shares are the softmax of all.
	Sigmoid bool
	// Corrected says that a number for each expert is added to shares to choose by, and not to weigh by.
	// CorrectionRow says that they are the one row of a matrix in the checkpoint.
	Corrected, CorrectionRow bool
	// Groups, if more than 1, is how many groups of neighbours the experts are divided into, of which a token takes
	// GroupsPerToken: those whose GroupBest best experts have the highest sums.
	Groups, GroupsPerToken, GroupBest int
	// Scale multiplies the weights of a token's experts; 0 is 1. Least is what their sum is at least taken for.
	Scale, Least float64
}

// Clamp is the activation min(gate, Limit) * sigmoid(Alpha * min(gate, Limit)) * (1 + up), with up within Limit.
type Clamp struct{ Alpha, Limit float64 }

// HasExperts reports whether layer i is a mixture.
func (c *Config) HasExperts(i int) bool {
	return c.Experts.N > 0 && (c.Experts.Plain == nil || !c.Experts.Plain[i])
}

// Scales multiply what flows through a model.
type Scales struct {
	// Embed multiplies embeddings; Residual what attention and MLP add; Attention the scores; Logits the logits.
	Embed, Residual, Attention, Logits float64
}

// Stretch multiplies the query at a position by 1 + Factor * log(1 + floor(position / From)), if From is not 0
// (Llama 4's temperature).
type Stretch struct {
	From   int
	Factor float64
}

// Rotates reports whether layer i has a rotary embedding.
func (c *Config) Rotates(i int) bool {
	return !c.ALiBi && c.Tensors.Positions == "" && (c.NoRope == nil || !c.NoRope[i])
}

// RopeOf returns the rotary embedding of layer i.
func (c *Config) RopeOf(i int) *Rope {
	if c.WindowRope != nil && c.Windows[i] > 0 {
		return c.WindowRope
	}
	return &c.Rope
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
		if _, _, ok := encoderOf(names[0]); ok {
			return parseEncoder(o, names[0])
		}
	} else if class := encoderTypes()[o.string("model_type", "")]; class != "" && len(names) == 0 {
		return parseEncoder(o, class)
	}
	return parseText(o)
}

// parseText reads the configuration of a model of text.
func parseText(o *object) (Config, error) {
	name, fam := o.architecture()
	if o.err != nil {
		return Config{}, o.err
	}
	return parseFamily(o, name, fam)
}

// parseFamily reads the configuration of a class of a family.
func parseFamily(o *object, name string, fam family) (Config, error) {
	o.names = fam.keys
	c := Config{
		Architecture: name,
		Vocab:        o.requireInt("vocab_size", 1, maxVocab),
		Hidden:       o.requireInt("hidden_size", 1, maxWidth),
		Layers:       o.requireInt("num_hidden_layers", 1, maxLayers),
		Heads:        o.requireInt("num_attention_heads", 1, maxHeads),
		Tied:         o.bool("tie_word_embeddings", fam.tied),
		Norm:         fam.norm,
		QKNorm:       fam.qkNorm,
		QKVBias:      fam.qkvBias,
		OutBias:      fam.outBias,
		MLPBias:      fam.mlpBias,
		Parallel:     fam.parallel,
		Gated:        !fam.ungated,
		Scales:       Scales{Embed: 1, Residual: 1, Logits: 1},
		Tensors:      fam.tensors,
		BOS:          o.ids("bos_token_id"),
		EOS:          o.ids("eos_token_id"),
	}
	if fam.inner == 0 {
		c.Intermediate = o.requireInt("intermediate_size", 1, maxWidth)
	} else if c.Intermediate = o.int("intermediate_size", 0, 1, maxWidth); c.Intermediate == 0 {
		c.Intermediate = fam.inner * c.Hidden
	}
	if fam.positions == 0 {
		c.MaxPositions = o.requireInt("max_position_embeddings", 1, maxPositions)
	} else {
		c.MaxPositions = o.int("max_position_embeddings", fam.positions, 1, maxPositions)
	}
	if !fam.fixedEps {
		c.Norm.Eps = o.float("rms_norm_eps", fam.norm.Eps, 0, 1)
	}
	if fam.latent {
		c.readLatent(o)
	} else {
		c.readHeads(o, fam)
	}
	if o.err != nil {
		return Config{}, o.err
	}
	if fam.biasKey {
		c.QKVBias = o.bool("attention_bias", fam.qkvBias)
		c.OutBias = c.QKVBias && !fam.noOutBias
	}
	if fam.mlpBiasKey {
		c.MLPBias = o.bool("mlp_bias", fam.mlpBias)
	}
	c.Activation = o.mlpActivation("hidden_act", fam)
	c.Windows = fam.window(o, c.Layers)
	if !fam.noRope {
		c.Rope = readRope(o, &c, fam)
	}
	if fam.latent {
		c.latentScale(o)
	}
	if fam.more != nil && o.err == nil {
		fam.more(o, &c)
	}
	if c.Scales.Attention == 0 {
		c.Scales.Attention = 1 / math.Sqrt(float64(c.HeadDim))
	}
	if !c.Experts.Packed { // gpt-oss' is read with its mixture
		c.Packing = readPacking(o)
	}
	for _, key := range strings.Fields(fam.ignored) {
		o.read[key] = true
	}
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
		o.fail("model_type", "%q is not supported%s", modelType, nearest(modelType, modelTypes()))
		return "", family{}
	}
	fam, ok := families[names[0]]
	if base, headless := strings.CutSuffix(names[0], "Model"); !ok && headless { // saved without its head
		for name, other := range families {
			if other.modelType == modelType && strings.HasPrefix(name, base) {
				return name, other
			}
		}
	}
	if !ok {
		o.fail("architectures", "%q is not supported%s", names[0], nearest(names[0], Architectures()))
		return "", family{}
	}
	if modelType != "" && modelType != fam.modelType && !slices.Contains(fam.modelTypes, modelType) {
		o.fail("model_type", "is %q, but architectures names %s, whose type is %q", modelType, names[0], fam.modelType)
	}
	return names[0], fam
}

// nearest says which of the supported names begins most like name, if any does, and where all are.
func nearest(name string, supported []string) string {
	best, most := "", 2
	for _, s := range supported {
		n := 0
		for n < min(len(s), len(name)) && s[n] == name[n] {
			n++
		}
		if n > most {
			best, most = s, n
		}
	}
	if best == "" {
		return "; docs/models.md lists what is"
	}
	return fmt.Sprintf("; the nearest that is: %s; docs/models.md lists all", best)
}

func modelTypes() []string {
	var types []string
	for _, fam := range families {
		types = append(types, fam.modelType)
	}
	slices.Sort(types)
	return types
}

// activations maps Hugging Face's names.
var activations = map[string]Activation{
	"silu": SiLU, "swish": SiLU, "gelu": GELU, "gelu_new": GELUTanh, "gelu_pytorch_tanh": GELUTanh,
	"gelu_fast": GELUTanh, "relu": ReLU, "relu2": ReLU2, "xielu": XIELU,
}

// mlpActivation reads the MLP's function.
func (o *object) mlpActivation(key string, fam family) Activation {
	name := o.string(key, cmp.Or(fam.activation, "silu"))
	a, ok := activations[name]
	if !ok {
		o.fail(key, "%q is not supported, want one of %s", name,
			strings.Join(slices.Sorted(maps.Keys(activations)), ", "))
	}
	return a
}

func (c *Config) readHeads(o *object, fam family) {
	switch {
	case fam.noKVKey:
		c.KVHeads = c.Heads
	case fam.kvDefaultsToHeads:
		c.KVHeads = o.int("num_key_value_heads", c.Heads, 1, maxHeads)
	default:
		c.KVHeads = o.requireInt("num_key_value_heads", 1, maxHeads)
	}
	if o.err != nil {
		return
	}
	if c.Heads%c.KVHeads != 0 {
		o.fail("num_key_value_heads", "%d does not divide num_attention_heads %d", c.KVHeads, c.Heads)
	}
	if o.has("head_dim") { // null derives it
		fam.headDim = 0
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
