package hf

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Encoder is what a model that turns texts into vectors or scores has beside a decoder's parts.
type Encoder struct {
	// Causal says that a token sees those before it only; else it sees all, or those of a window on both sides.
	Causal bool
	// PostNorm says that norms are behind the sums of residuals, where AttnNorm and MLPNorm then are.
	PostNorm bool
	// BareFirst says that the first layer has no norm before its attention.
	BareFirst bool
	// TokenTypes is the number of kinds of tokens that have vectors of their own; 0 is none.
	TokenTypes int
	// Buckets, if not 0, is the number of classes of distances that scores have biases for (MPNet).
	Buckets int
	// Classifier says that Stages give the scores of labels; else they change the vector of a text.
	Classifier bool
	// Stages are applied one after another to the pooled vector.
	Stages []Stage
	// Labels are the names of a classifier's scores; nil otherwise.
	Labels []string
	// Pooling is what a classifier reads: "cls", "mean" or "lasttoken".
	Pooling string
	// Masked are the stages that give the scores of all tokens in a token's place, of a class ForMaskedLM; nil for
	// others.
	Masked []Stage
	// Extra are the beginnings of names of tensors, without Base, that a checkpoint may have for other tasks.
	Extra []string
}

// Stage is a linear layer, an activation and a norm behind it.
type Stage struct {
	// Folder is where the tensors are if not among the model's, with a slash at its end. Tensor is the name of the
	// matrix [Out, In] without ".weight".
	Folder, Tensor string
	In, Out        int
	// Rows, if not nil, are the row of the tensor that the result is of and, behind it, one whose result is taken from
	// that; Of is how many rows the tensor has.
	Rows []int
	Of   int
	Bias bool
	// BiasFrom is the name of a bias that is not called as the matrix is; "" is none.
	BiasFrom string
	// Activation is as in ONNX: Tanh, Relu, Gelu, Sigmoid; "" is none.
	Activation string
	// Norm is the name of a LayerNorm's weight; "" is none. NormBias says that it has a bias.
	Norm     string
	NormBias bool
}

// encoderFamily is a class of models that do not generate, by the beginning of the classes' names.
type encoderFamily struct {
	family
	encoder Encoder
	// classifier returns the stages of the family's ForSequenceClassification.
	classifier func(o *object, c *Config) []Stage
	// masked returns those of the family's ForMaskedLM; nil knows none.
	masked func(o *object, c *Config) []Stage
}

// bertTensors names the tensors of BERT and most that came after it.
var bertTensors = Tensors{
	Base: "bert.", Embed: "embeddings.word_embeddings", Positions: "embeddings.position_embeddings",
	Types: "embeddings.token_type_embeddings", EmbedNorm: "embeddings.LayerNorm", Layer: "encoder.layer.%d.",
	Q: "attention.self.query", K: "attention.self.key", V: "attention.self.value", Out: "attention.output.dense",
	AttnNorm: "attention.output.LayerNorm", Up: "intermediate.dense", Down: "output.dense", MLPNorm: "output.LayerNorm",
}

const encoderIgnored = "hidden_dropout_prob attention_probs_dropout_prob classifier_dropout type_vocab_size " +
	"position_embedding_type dropout seq_classif_dropout qa_dropout directionality pooler_fc_size " +
	"pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type mask_token_id cls_token_id"

// bert are the settings that BERT's family shares.
func bert(modelType string, change func(f *family)) family {
	f := family{modelType: modelType, norm: Norm{Layer: true, Bias: true, Eps: 1e-12},
		keys: layerNormKeys, qkvBias: true, outBias: true, mlpBias: true, ungated: true, tied: true,
		activation: "gelu", positions: 512, noKVKey: true, window: noWindow, noRope: true, tensors: bertTensors,
		ignored: encoderIgnored}
	change(&f)
	return f
}

// bertExtra are tensors of other tasks than the encoder's own.
var bertExtra = []string{"pooler.", "cls.", "lm_head.", "embeddings.position_ids", "classifier."}

var encoders = map[string]encoderFamily{
	"Bert": {family: bert("bert", func(f *family) { f.more = tokenTypes }),
		encoder: Encoder{PostNorm: true}, classifier: pooled, masked: maskedHead("hidden_act",
			"cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias")},
	"Roberta": {family: bert("roberta", func(f *family) {
		f.tensors.Base, f.more = "roberta.", behindPadding
	}), encoder: Encoder{PostNorm: true}, classifier: denseAndOut, masked: robertaMasked},
	"XLMRoberta": {family: bert("xlm-roberta", func(f *family) {
		f.tensors.Base, f.more = "roberta.", behindPadding
	}), encoder: Encoder{PostNorm: true}, classifier: denseAndOut, masked: robertaMasked},
	"MPNet": {family: bert("mpnet", func(f *family) {
		f.tensors.Base, f.tensors.Types = "mpnet.", ""
		f.tensors.Q, f.tensors.K, f.tensors.V = "attention.attn.q", "attention.attn.k", "attention.attn.v"
		f.tensors.Out, f.tensors.AttnNorm = "attention.attn.o", "attention.LayerNorm"
		f.tensors.Relative = "encoder.relative_attention_bias"
		f.more = func(o *object, c *Config) {
			c.Encoder.Buckets = o.int("relative_attention_num_buckets", 32, 4, 1<<10)
			c.offsetPositions(o, 1)
		}
	}), encoder: Encoder{PostNorm: true}, classifier: denseAndOut, masked: robertaMasked},
	"DistilBert": {family: bert("distilbert", func(f *family) {
		f.fixedEps = true
		f.keys = map[string][]string{"hidden_size": {"dim", "hidden_size"}, "intermediate_size": {"hidden_dim"},
			"num_hidden_layers":   {"n_layers", "num_hidden_layers"},
			"num_attention_heads": {"n_heads", "num_attention_heads"}, "hidden_act": {"activation"}}
		f.tensors = bertTensors.with(func(t *Tensors) {
			t.Base, t.Types, t.Layer = "distilbert.", "", "transformer.layer.%d."
			t.Q, t.K, t.V, t.Out = "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"
			t.AttnNorm, t.Up, t.Down, t.MLPNorm = "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"
		})
		f.ignored += " sinusoidal_pos_embds"
	}), masked: maskedHead("activation", "vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
		encoder: Encoder{PostNorm: true, Extra: []string{"vocab_"}}, classifier: func(_ *object, c *Config) []Stage {
			return []Stage{{Tensor: "pre_classifier", In: c.Hidden, Out: c.Hidden, Bias: true, Activation: "Relu"},
				{Tensor: "classifier", In: c.Hidden, Bias: true}}
		}},
	"ModernBert": {family: family{modelType: "modernbert", norm: Norm{Layer: true, Eps: 1e-5},
		keys: map[string][]string{"rms_norm_eps": {"norm_eps"}, "hidden_act": {"hidden_activation"},
			"rope_theta": {"global_rope_theta"}, "rope_local_base_freq": {"local_rope_theta"}},
		biasKey: true, mlpBiasKey: true, tied: true, activation: "gelu", positions: 8192, noKVKey: true,
		window: modernWindow, theta: 160000, windowTheta: 10000, tensors: Tensors{
			Base: "model.", Embed: "embeddings.tok_embeddings", EmbedNorm: "embeddings.norm", Norm: "final_norm",
			Layer: "layers.%d.", AttnNorm: "attn_norm", QKV: "attn.Wqkv", Out: "attn.Wo", MLPNorm: "mlp_norm",
			GateUp: "mlp.Wi", Down: "mlp.Wo",
		}, more: func(o *object, c *Config) { c.Norm.Bias = o.bool("norm_bias", false) },
		ignored: encoderIgnored + " embedding_dropout mlp_dropout decoder_bias deterministic_flash_attn sparse_prediction " +
			"sparse_pred_ignore_index initializer_cutoff_factor classifier_pooling classifier_bias layer_norm_eps " +
			"classifier_activation reference_compile repad_logits_with_grad"},
		encoder: Encoder{BareFirst: true, Extra: []string{"head.", "decoder."}}, classifier: modernHead},
	"NomicBert": {family: bert("nomic_bert", func(f *family) {
		f.keys = map[string][]string{"hidden_size": {"n_embd", "hidden_size"},
			"num_hidden_layers":       {"n_layer", "num_hidden_layers"},
			"num_attention_heads":     {"n_head", "num_attention_heads"},
			"intermediate_size":       {"n_inner", "intermediate_size"},
			"max_position_embeddings": {"n_positions", "max_position_embeddings"},
			"rms_norm_eps":            {"layer_norm_epsilon", "layer_norm_eps"}, "rope_theta": {"rotary_emb_base"}}
		f.qkvBias, f.outBias, f.mlpBias, f.ungated, f.noRope, f.theta = false, false, false, false, false, 1000
		f.activation = "silu"
		f.tensors = Tensors{Base: "nomic_bert.", Embed: "embeddings.word_embeddings",
			Types: "embeddings.token_type_embeddings", EmbedNorm: "emb_ln", Layer: "encoder.layers.%d.",
			QKV: "attn.Wqkv", Out: "attn.out_proj", AttnNorm: "norm1", Gate: "mlp.fc12", Up: "mlp.fc11",
			Down: "mlp.fc2", MLPNorm: "norm2"}
		f.more = readNomic
		f.ignored += " activation_function attn_pdrop resid_pdrop embd_pdrop fused_bias_fc fused_dropout_add_ln " +
			"max_trained_positions pad_vocab_size_multiple use_rms_norm use_xentropy summary_activation " +
			"summary_first_dropout summary_proj_to_labels summary_type summary_use_proj rotary_emb_scale_base " +
			"scale_attn_weights reorder_and_upcast_attn scale_attn_by_inverse_layer_idx"
	}), encoder: Encoder{PostNorm: true}, classifier: pooled},
	// Gemma 3 as EmbeddingGemma has it.
	"Gemma3Text": {family: families["Gemma3ForCausalLM"]},
}

// encoderTasks are the ends of class names.
var encoderTasks = []string{"Model", "ForMaskedLM", "ForPreTraining", classification}

const classification = "ForSequenceClassification"

// Encoders lists the classes that texts can be embedded or classified with, beside the decoders.
func Encoders() []string {
	var out []string
	for name, f := range encoders {
		out = append(out, name+"Model")
		if f.classifier != nil {
			out = append(out, name+classification)
		}
	}
	slices.Sort(out)
	return out
}

// encoderOf returns the family of a class, and whether the class is a classifier. A decoder's class may be one, too.
func encoderOf(class string) (f encoderFamily, classifies, ok bool) {
	for _, task := range encoderTasks {
		stem, found := strings.CutSuffix(class, task)
		if !found {
			continue
		}
		classifies = task == classification
		if f, ok = encoders[stem]; ok && (!classifies || f.classifier != nil) {
			f.encoder.Extra = slices.Concat(f.encoder.Extra, bertExtra)
			return f, classifies, true
		}
		if own, decodes := families[stem+"ForCausalLM"]; decodes && classifies {
			score := func(_ *object, c *Config) []Stage { return []Stage{{Tensor: "score", In: c.Hidden}} }
			return encoderFamily{family: own, encoder: Encoder{Causal: true}, classifier: score}, true, true
		}
	}
	return encoderFamily{}, false, false
}

// parseEncoder reads the configuration of a class that encoderOf knows.
func parseEncoder(o *object, class string) (Config, error) {
	f, classifies, _ := encoderOf(class)
	e := f.encoder
	inner := f.more
	f.more = func(o *object, c *Config) {
		c.Encoder = &e
		if inner != nil {
			inner(o, c)
		}
		if strings.HasPrefix(class, "Gemma3Text") {
			c.readBidirectional(o)
		}
		if classifies {
			e.readClassifier(o, c, f)
		}
		if strings.HasSuffix(class, "ForMaskedLM") && f.masked != nil {
			e.Masked = f.masked(o, c)
		}
		c.asEncoder()
	}
	if t := o.string("model_type", ""); t != "" && t != f.modelType {
		o.fail("model_type", "is %q, but architectures names %s, whose type is %q", t, class, f.modelType)
	}
	return parseFamily(o, class, f.family)
}

// asEncoder leaves the output head out.
func (c *Config) asEncoder() {
	c.Encoder.Extra = append(c.Encoder.Extra, "lm_head.")
	c.Tied, c.HeadBias, c.Tensors.Head = true, false, ""
	c.Scales.Logits, c.LogitCap = 1, 0
}

// Embeds makes of a decoder's configuration that of a model that turns texts into vectors.
func (c *Config) Embeds() {
	if c.Encoder == nil {
		c.Encoder = &Encoder{Causal: true, Extra: []string{c.Tensors.Head + "."}}
		c.asEncoder()
	}
}

// readClassifier reads the labels and sets the stages.
func (e *Encoder) readClassifier(o *object, c *Config, f encoderFamily) {
	e.Classifier, e.Pooling = true, "cls"
	if e.Causal {
		e.Pooling = "lasttoken"
	}
	names := map[string]string{}
	if labels := o.object("id2label"); labels != nil {
		for id := range labels.values {
			names[id] = labels.string(id, "")
		}
	}
	n := cmp.Or(len(names), o.int("num_labels", 2, 1, maxLabels))
	if n > maxLabels {
		o.fail("id2label", "names %d labels, at most %d are supported", n, maxLabels)
		return
	}
	for i := range n {
		id := strconv.Itoa(i)
		if _, ok := names[id]; !ok && len(names) > 0 {
			o.fail("id2label", "names %d labels, but not label %d", n, i)
		}
		e.Labels = append(e.Labels, cmp.Or(names[id], "LABEL_"+id))
	}
	e.Stages = f.classifier(o, c)
	e.Stages[len(e.Stages)-1].Out = n
}

// maxLabels bounds a classifier's labels.
const maxLabels = 1 << 16

// tokenTypes reads BERT's table of them.
func tokenTypes(o *object, c *Config) {
	c.Encoder.TokenTypes = o.int("type_vocab_size", 2, 0, maxVocab)
	if kind := o.string("position_embedding_type", "absolute"); kind != "absolute" {
		o.fail("position_embedding_type", "%q is not supported, want absolute", kind)
	}
}

// behindPadding is RoBERTa's: positions are counted from behind the padding token's id.
func behindPadding(o *object, c *Config) {
	tokenTypes(o, c)
	c.offsetPositions(o, 1)
}

// offsetPositions says that the first position is behind pad_token_id, whose default is given.
func (c *Config) offsetPositions(o *object, pad int) {
	c.Learned = o.int("pad_token_id", pad, 0, maxVocab) + 1
	if c.MaxPositions -= c.Learned; c.MaxPositions < 1 {
		o.fail("max_position_embeddings", "leaves no positions behind pad_token_id %d", c.Learned-1)
	}
}

// pooled is BERT's head: a layer for the first token, and a classifier.
func pooled(_ *object, c *Config) []Stage {
	return []Stage{
		{Tensor: c.Tensors.Base + "pooler.dense", In: c.Hidden, Out: c.Hidden, Bias: true, Activation: "Tanh"},
		{Tensor: "classifier", In: c.Hidden, Bias: true},
	}
}

// denseAndOut is RoBERTa's head.
func denseAndOut(_ *object, c *Config) []Stage {
	return []Stage{{Tensor: "classifier.dense", In: c.Hidden, Out: c.Hidden, Bias: true, Activation: "Tanh"},
		{Tensor: "classifier.out_proj", In: c.Hidden, Bias: true}}
}

// maskedHead returns the head of a masked language model: a layer with a norm behind it, and the embedding again. key
// names the activation; "" is GELU.
func maskedHead(key, dense, norm, bias string) func(o *object, c *Config) []Stage {
	return func(o *object, c *Config) []Stage {
		act := "Gelu"
		if key != "" {
			act = stageActivations[o.string(key, "gelu")] // "" is refused where the head is used
		}
		return []Stage{
			{Tensor: dense, In: c.Hidden, Out: c.Hidden, Bias: true, Activation: act, Norm: norm, NormBias: true},
			{Tensor: c.Tensors.Whole(c.Tensors.Embed), In: c.Hidden, Out: c.Vocab, BiasFrom: bias},
		}
	}
}

// robertaMasked is RoBERTa's head of this kind.
var robertaMasked = maskedHead("", "lm_head.dense", "lm_head.layer_norm", "lm_head.bias")

// modernHead is ModernBERT's.
func modernHead(o *object, c *Config) []Stage {
	c.Encoder.Pooling = o.string("classifier_pooling", "cls")
	if p := c.Encoder.Pooling; p != "cls" && p != "mean" {
		o.fail("classifier_pooling", "%q is not supported, want cls or mean", p)
	}
	act, ok := stageActivations[o.string("classifier_activation", "gelu")]
	if !ok {
		o.fail("classifier_activation", "%q is not supported", o.string("classifier_activation", ""))
	}
	return []Stage{{Tensor: "head.dense", In: c.Hidden, Out: c.Hidden, Bias: o.bool("classifier_bias", false),
		Activation: act, Norm: "head.norm", NormBias: c.Norm.Bias}, {Tensor: "classifier", In: c.Hidden, Bias: true}}
}

// stageActivations maps the names of activations to ONNX's.
var stageActivations = map[string]string{"gelu": "Gelu", "relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}

// modernWindow is ModernBERT's: half of local_attention on both sides, in the layers that layer_types names; by default
// in all but each n-th, the first among these.
func modernWindow(o *object, layers int) []int {
	reach := o.int("local_attention", 128, 0, maxPositions) / 2
	every := o.int("global_attn_every_n_layers", 3, 1, maxLayers)
	types := o.layerTypes(layers)
	out := make([]int, layers)
	for i := range out {
		local := i%every != 0
		if types != nil {
			local = types[i] == slidingAttention
		}
		if local {
			out[i] = reach + 1
		}
	}
	return out
}

// readBidirectional reads whether tokens see those behind them, and halves windows then.
func (c *Config) readBidirectional(o *object) {
	c.Encoder.Causal = !o.bool("use_bidirectional_attention", false)
	if c.Encoder.Causal {
		return
	}
	for i, w := range c.Windows {
		if w > 0 {
			c.Windows[i] = w/2 + 1
		}
	}
}

// readNomic reads the keys of Nomic's own code.
func readNomic(o *object, c *Config) {
	tokenTypes(o, c)
	for _, key := range []string{"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "parallel_block",
		"rotary_emb_interleaved", "causal"} {
		if o.bool(key, false) {
			o.fail(key, "true is not supported")
		}
	}
	switch act := o.string("activation_function", "swiglu"); act {
	case "swiglu", "silu":
	default:
		o.fail("activation_function", "%q is not supported, want swiglu", act)
	}
	if share := o.float("rotary_emb_fraction", 1, 0, 1); share != 1 {
		o.fail("rotary_emb_fraction", "%g is not supported, want 1", share)
	}
	if scale := o.float("rotary_scaling_factor", 0, 0, math.MaxFloat64); scale != 0 {
		// Beyond max_trained_positions frequencies depend on the length: texts end there.
		c.MaxPositions = min(c.MaxPositions, o.int("max_trained_positions", 2048, 1, maxPositions))
	}
}

// encoderTypes are the classes of the model types of encoders, for configurations without a class. Gemma 3 is a decoder
// then.
func encoderTypes() map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(encoders)) {
		if f := encoders[name]; f.classifier != nil {
			out[f.modelType] = name + "Model"
		}
	}
	return out
}
