package hf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tgi/models/tensors"
)

// VisionKind is how a model turns a picture into embeddings.
type VisionKind string

// The kinds of models that read images.
const (
	// Idefics3 cuts a picture into tiles, each encoded by SigLIP and shuffled into fewer, wider rows. SmolVLM is one.
	Idefics3 VisionKind = "idefics3"
	// LLaVA encodes a picture as one square by CLIP.
	LLaVA VisionKind = "llava"
	// LLaVANext encodes a picture as a square and as tiles of a larger size.
	LLaVANext VisionKind = "llava_next"
	// QwenVL encodes a picture of any size as one grid of patches, Qwen2.5-VL's.
	QwenVL VisionKind = "qwen2_5_vl"
	// Gemma3Vision encodes a picture as one square by SigLIP, and means of its patches; more of it as further squares.
	Gemma3Vision VisionKind = "gemma3"
)

// Vision describes the vision tower of a model that reads images, and what connects it to the text model.
type Vision struct {
	Kind VisionKind
	// Hidden is the width of the tower, Intermediate that of its MLPs.
	Hidden, Intermediate int
	// Layers counts those that are computed, Unused the checkpoint's behind them.
	Layers, Unused, Heads int
	// Side is the width and height of a tile in pixels, Patch those of a patch. Side is 0 if pictures are not cut into
	// tiles.
	Side, Patch int
	NormEps     float64
	// Activation of the MLPs, as transformers names it: gelu, gelu_pytorch_tanh, quick_gelu, or silu with a gate.
	Activation string
	// Class says that a class token comes before the patches, and DropClass that the features are without it.
	Class, DropClass bool
	// Shuffle is the number of patches in each direction that become one row; 1 if each does.
	Shuffle int
	// Mutual says that the text model lets the tokens of a tile see each other, also those behind them.
	Mutual bool
	// Projector names the activation between the two linear layers to the text model's width; "" is one layer.
	Projector     string
	ProjectorBias bool
	// Pinpoints are the sizes, height and width, of which LLaVA-NeXT takes one for the tiles of a picture; nil is the
	// image processor's default.
	Pinpoints [][2]int
	// Window is how many rows of the features, in each direction, see each other, but in the layers Full: there all do.
	// RopeTheta is the base of the rotary embedding of their places. QwenVL has them.
	Window    int
	Full      []int
	RopeTheta float64
	// ImageToken is the token of a prompt that an embedding takes the place of.
	ImageToken uint32
}

// Patches returns the number of patches in each direction of a tile.
func (v Vision) Patches() int { return v.Side / v.Patch }

// TileRows returns the number of embeddings of a tile; 0 without tiles.
func (v Vision) TileRows() int {
	if v.Side == 0 {
		return 0
	}
	n := v.Patches() / v.Shuffle
	rows := n * n
	if v.Class && !v.DropClass {
		rows++
	}
	return rows
}

// composite is a family of models of a vision tower and a text model.
type composite struct {
	kind      VisionKind
	modelType string
	// tower is the model_type of vision_config; "" is any.
	tower string
	// defaults of vision_config and of the keys beside it.
	defaults map[string]string
	own      map[string]string
}

var composites = map[string]composite{
	"Idefics3ForConditionalGeneration":  {Idefics3, "idefics3", "", siglipDefaults, idefics3Defaults},
	"SmolVLMForConditionalGeneration":   {Idefics3, "smolvlm", "", siglipDefaults, idefics3Defaults},
	"LlavaForConditionalGeneration":     {LLaVA, "llava", "clip_vision_model", clipDefaults, nil},
	"LlavaNextForConditionalGeneration": {LLaVANext, "llava_next", "clip_vision_model", clipDefaults, nil},
	"Gemma3ForConditionalGeneration":    {Gemma3Vision, "gemma3", "siglip_vision_model", siglipDefaults, gemma3Defaults},
	// whose parts are read by functions of their own
	"Qwen2_5_VLForConditionalGeneration": {QwenVL, "qwen2_5_vl", "", nil, nil},
}

// Defaults of transformers 5.23 for keys that a config.json may leave out.
var (
	idefics3Defaults = map[string]string{"image_token_id": "128257"}
	gemma3Defaults   = map[string]string{"tie_word_embeddings": "true"}

	siglipDefaults = map[string]string{"hidden_size": "1152", "intermediate_size": "3072", "num_hidden_layers": "12",
		"num_attention_heads": "16", "image_size": "224", "patch_size": "32", "hidden_act": `"gelu_pytorch_tanh"`,
		"layer_norm_eps": "1e-6"}
	clipDefaults = map[string]string{"hidden_size": "768", "intermediate_size": "3072", "num_hidden_layers": "12",
		"num_attention_heads": "12", "image_size": "224", "patch_size": "32", "hidden_act": `"quick_gelu"`,
		"layer_norm_eps": "1e-5"}
	textDefaults = map[string]map[string]string{
		"llama": {"vocab_size": "32000", "hidden_size": "4096", "intermediate_size": "11008", "num_hidden_layers": "32",
			"num_attention_heads": "32", "max_position_embeddings": "2048"},
		"mistral": {"vocab_size": "32000", "hidden_size": "4096", "intermediate_size": "14336",
			"num_hidden_layers": "32", "num_attention_heads": "32", "num_key_value_heads": "8",
			"max_position_embeddings": "131072"},
		"gemma3_text": {"vocab_size": "262208", "hidden_size": "2304", "intermediate_size": "9216",
			"num_hidden_layers": "26", "num_attention_heads": "8", "num_key_value_heads": "4",
			"max_position_embeddings": "131072"},
		"qwen2": {"vocab_size": "151936", "hidden_size": "4096", "intermediate_size": "22016",
			"num_hidden_layers": "32", "num_attention_heads": "32", "num_key_value_heads": "32",
			"max_position_embeddings": "32768"},
	}
)

// ignoredVision lists keys of a vision_config, or beside it, without effect on the embeddings. The image processor's
// own configuration says how pictures are cut.
var ignoredVision = setOf(`max_image_size size projection_dim vocab_size initializer_factor image_seq_length
	perceiver_config neftune_noise_alpha pixel_shuffle_factor use_image_newline_parameter
	ignore_index boi_token_index eoi_token_index boi_token_id eoi_token_id`)

// imageKeys are those of Gemma 3 beside its parts, which a checkpoint of the text model alone has, too.
var imageKeys = setOf("image_token_index image_token_id mm_tokens_per_image")

// fill gives keys that are absent their defaults.
func (o *object) fill(defaults map[string]string) {
	for key, value := range defaults {
		if !o.has(key) {
			o.values[key] = json.RawMessage(value)
		}
	}
}

// parseComposite reads the config.json of a model of several parts: Config is its text model's.
func parseComposite(o *object, name string, c composite) (Config, error) {
	if t := o.string("model_type", c.modelType); t != c.modelType {
		o.fail("model_type", "is %q, but architectures names %s, whose type is %q", t, name, c.modelType)
	}
	o.fill(c.own)
	text, sections := o.textConfig(c.kind)
	tower := o.object("vision_config")
	for key, part := range map[string]*object{"text_config": text, "vision_config": tower} {
		blind := part == tower && c.kind == Gemma3Vision // a checkpoint of the text model alone
		if part == nil && !blind && o.err == nil {
			o.fail(key, "is missing")
		}
	}
	if o.err != nil {
		return Config{}, o.err
	}
	modelType := text.string("model_type", "llama")
	text.fill(textDefaults[modelType])
	text.ignore(ignoredVision)
	const tie = "tie_word_embeddings"
	if tied := o.bool(tie, false); tied || c.kind == Idefics3 { // with LLaVA, either decides
		text.values[tie] = strconv.AppendBool(nil, tied)
	}
	delete(text.values, "architectures") // names of classes that only train; the type decides
	config, err := parseText(text)
	if err != nil {
		return Config{}, err
	}
	config.Architecture = name
	if tower != nil {
		config.Rope.Sections = sections
		config.Vision = readVision(o, text, tower, c, config)
	} else {
		o.ignore(imageKeys)
	}
	if own := o.ids("bos_token_id"); own != nil {
		config.BOS = own
	}
	if own := o.ids("eos_token_id"); own != nil {
		config.EOS = own
	}
	o.read["vocab_size"] = true // the text model's decides
	o.ignore(ignoredVision)
	o.checkUnread(name)
	return config, o.err
}

// readVision reads the vision tower of a model whose text model is config.
func readVision(o, text, tower *object, c composite, config Config) *Vision {
	var v Vision
	if c.kind == QwenVL {
		v = readQwenTower(o, tower, config.Hidden)
		text.checkSections(config)
	} else {
		v = readTower(o, tower, c)
	}
	o.err = cmp.Or(o.err, text.err, tower.err)
	if o.err == nil && int(v.ImageToken) >= config.Vocab {
		o.fail("image_token_id", "%d is not below text_config.vocab_size %d", v.ImageToken, config.Vocab)
	}
	return &v
}

// textConfig returns the configuration of the text model, and the parts of its rotary embedding, if it has such.
func (o *object) textConfig(kind VisionKind) (*object, [3]int) {
	if kind == QwenVL {
		return qwenTextOf(o)
	}
	return o.object("text_config"), [3]int{}
}

// ignore counts keys as read.
func (o *object) ignore(keys map[string]bool) { maps.Copy(o.read, keys) }

// readTower reads vision_config and the keys beside it.
func readTower(o, tower *object, c composite) Vision {
	tower.fill(c.defaults)
	if t := tower.string("model_type", c.tower); c.tower != "" && t != c.tower {
		tower.fail("model_type", "%q is not supported, want %q", t, c.tower)
	}
	v := Vision{
		Kind:         c.kind,
		Hidden:       tower.requireInt("hidden_size", 1, maxWidth),
		Intermediate: tower.requireInt("intermediate_size", 1, maxWidth),
		Layers:       tower.requireInt("num_hidden_layers", 1, maxLayers),
		Heads:        tower.requireInt("num_attention_heads", 1, maxHeads),
		Side:         tower.requireInt("image_size", 1, maxSide),
		Patch:        tower.requireInt("patch_size", 1, maxSide),
		NormEps:      tower.float("layer_norm_eps", 1e-6, 0, 1),
		Activation:   tower.activation("hidden_act", ""),
		Shuffle:      1,
	}
	if n := tower.int("num_channels", 3, 0, 1<<10); n != 3 {
		tower.fail("num_channels", "%d: want 3", n)
	}
	switch c.kind {
	case Idefics3:
		v.Shuffle = o.int("scale_factor", 2, 1, maxSide)
		v.ImageToken = uint32(o.requireInt("image_token_id", 0, maxVocab))
	case Gemma3Vision:
		v.readGemma(o, tower)
	default:
		v.readLLaVA(o)
	}
	if v.Side%v.Patch != 0 || v.Patches()%v.Shuffle != 0 {
		tower.fail("image_size", "%d is not a multiple of patch_size %d times scale_factor %d", v.Side, v.Patch,
			v.Shuffle)
	}
	if v.Hidden%v.Heads != 0 {
		tower.fail("hidden_size", "%d is not a multiple of num_attention_heads %d", v.Hidden, v.Heads)
	}
	tower.ignore(ignoredVision)
	tower.checkUnread(string(c.kind))
	return v
}

// maxSide bounds the pixels of a tile's side.
const maxSide = 1 << 13

// readGemma reads what Gemma 3 adds: rows that are means of squares of patches, so that a tile has mm_tokens_per_image.
func (v *Vision) readGemma(o, tower *object) {
	tokens := o.int("mm_tokens_per_image", 256, 1, maxSide*maxSide)
	side := int(math.Sqrt(float64(tokens)))
	if v.Patch == 0 || side*side != tokens || v.Patches()%side != 0 {
		o.fail("mm_tokens_per_image", "%d is not a square whose root divides the %d patches in a line", tokens,
			v.Side/max(v.Patch, 1))
		return
	}
	v.Shuffle, v.Mutual = v.Patches()/side, true
	tower.read["vision_use_head"] = true // of a part that the features do not pass
	key := "image_token_index"
	if !o.has(key) && o.has("image_token_id") {
		key = "image_token_id"
	}
	v.ImageToken = uint32(o.int(key, 262144, 0, maxVocab))
}

// readLLaVA reads what LLaVA adds: CLIP's class token, the layer that the features come from, and a projector of two
// layers.
func (v *Vision) readLLaVA(o *object) {
	v.Class, v.DropClass = true, true
	switch s := o.string("vision_feature_select_strategy", "default"); s {
	case "default":
	case "full":
		v.DropClass = false
	default:
		o.fail("vision_feature_select_strategy", "%q is not supported, want \"default\" or \"full\"", s)
	}
	if v.Kind == LLaVANext && !v.DropClass {
		o.fail("vision_feature_select_strategy",
			"\"full\" has no places for the class token in a picture of several tiles")
	}
	if raw, ok := o.raw("image_grid_pinpoints"); ok && v.Kind == LLaVANext {
		if err := json.Unmarshal(raw, &v.Pinpoints); err != nil {
			o.fail("image_grid_pinpoints", "want a list of pairs of integers, got %s", shorten(raw))
		}
	}
	layer := o.int("vision_feature_layer", -2, -maxLayers, maxLayers)
	if layer < 0 {
		layer += v.Layers + 1
	}
	if layer < 1 || layer > v.Layers {
		o.fail("vision_feature_layer", "want a layer of 1 to %d, or of -%d to -1", v.Layers, v.Layers)
	}
	v.Layers, v.Unused = layer, v.Layers-layer
	v.Projector = o.activation("projector_hidden_act", "gelu")
	v.ProjectorBias = o.bool("multimodal_projector_bias", true)
	key := "image_token_index"
	if !o.has(key) && o.has("image_token_id") {
		key = "image_token_id"
	}
	v.ImageToken = uint32(o.int(key, 32000, 0, maxVocab))
}

// activation reads the name of an activation.
func (o *object) activation(key, def string) string {
	name := o.string(key, def)
	if known := []string{"gelu", "gelu_pytorch_tanh", "quick_gelu"}; !slices.Contains(known, name) {
		o.fail(key, "%q is not supported, want one of %s", name, strings.Join(known, ", "))
	}
	return name
}

// VisionPrefix begins the names of the tensors of a model's vision tower and of what connects it to the text model.
const VisionPrefix = "vision."

// renames leads from the beginnings of tensors' names in checkpoints of models that read images to those that the
// builders know: text models have the names of Llama's, all else begins with VisionPrefix. The first that fits is
// taken. Checkpoints of different ages have different ones.
var renames = []struct{ from, to string }{
	{"model.text_model.lm_head.", "lm_head."},
	{"model.text_model.", "model."},
	{"language_model.lm_head.", "lm_head."},
	{"language_model.model.", "model."},
	{"model.language_model.lm_head.", "lm_head."},
	{"model.language_model.", "model."},
	{"model.vision_model.", VisionPrefix},
	{"model.visual.", VisionPrefix},
	{"visual.", VisionPrefix},
	{"model.vision_tower.vision_model.", VisionPrefix},
	{"model.vision_tower.", VisionPrefix},
	{"vision_tower.vision_model.", VisionPrefix},
	{"vision_tower.", VisionPrefix},
	{"model.connector.", VisionPrefix + "connector."},
	{"model.multi_modal_projector.", VisionPrefix + "projector."},
	{"multi_modal_projector.", VisionPrefix + "projector."},
	{"model.image_newline", VisionPrefix + "newline"},
	{"image_newline", VisionPrefix + "newline"},
}

// arrange makes of the files' tensors those that the builders know: it renames those of a model that reads images and
// of a file in the GGUF format, and joins blocks of quantised ones with their scales.
func (c *Checkpoint) arrange(set *tensors.Set) error {
	if c.layout != nil {
		return c.layout.arrange(&c.Config, set)
	}
	if c.Config.Experts.Packed {
		return set.JoinMXFP4()
	}
	if c.Config.Packing.Method != "" {
		return c.Config.Packing.unpack(set)
	}
	if !c.Config.composite() {
		return nil
	}
	if err := set.Rename(c.Config.Renamed); err != nil {
		return fmt.Errorf("%s: %w", c.Config.Architecture, err)
	}
	ofVision := func(name string) bool { return strings.HasPrefix(name, VisionPrefix) }
	if v := c.Config.Vision; v != nil && v.Kind == Gemma3Vision && !slices.ContainsFunc(set.Names(), ofVision) {
		c.Config.Vision = nil // a checkpoint of the text model alone
	}
	return nil
}

// composite reports whether the model's class is one of several parts.
func (c *Config) composite() bool {
	_, ok := composites[c.Architecture]
	return ok
}

// Renamed returns the name that the builders know for a tensor, or module, of a checkpoint. It differs in models that
// read images.
func (c *Config) Renamed(name string) string {
	if !c.composite() {
		return name
	}
	for _, r := range renames {
		if rest, ok := strings.CutPrefix(name, r.from); ok {
			return r.to + rest
		}
	}
	return name
}
