package hf

import (
	"encoding/json"
	"maps"
)

// Keys of a config.json of Qwen2.5-VL that are not its text model's, and have no effect on what is computed for images.
var ignoredQwen = setOf(`video_token_id vision_start_token_id vision_end_token_id vision_token_id tokens_per_second
	spatial_patch_size`)

// qwenDefaults are those of transformers 5.23 for keys that a vision_config of Qwen2.5-VL may leave out.
var qwenDefaults = map[string]string{"depth": "32", "hidden_size": "3584", "intermediate_size": "3420",
	"num_heads": "16", "patch_size": "14", "spatial_merge_size": "2", "window_size": "112", "out_hidden_size": "3584",
	"fullatt_block_indexes": "[7, 15, 23, 31]"}

// qwenText is the type of Qwen2.5-VL's text model, which computes what Qwen2 does but for the rotary embedding.
const qwenText = "qwen2_5_vl_text"

// qwenTextOf returns the configuration of the text model as one of Qwen2, and the parts of its rotary embedding. Old
// files have its keys beside vision_config.
func qwenTextOf(o *object) (text *object, sections [3]int) {
	if text = o.object("text_config"); text == nil {
		if o.err != nil || o.has("text_config") {
			return nil, sections
		}
		text = &object{file: o.file, values: maps.Clone(o.values), read: map[string]bool{}}
		for _, key := range []string{"vision_config", "image_token_id", "model_type"} {
			delete(text.values, key)
		}
		for key := range text.values {
			o.read[key] = true
		}
		text.ignore(ignoredQwen)
	}
	if t := text.string("model_type", qwenText); t != qwenText {
		text.fail("model_type", "%q is not supported, want %q", t, qwenText)
	}
	text.fill(map[string]string{"vocab_size": "152064", "hidden_size": "8192", "intermediate_size": "29568",
		"num_hidden_layers": "80", "num_attention_heads": "64", "num_key_value_heads": "8",
		"max_position_embeddings": "32768", "rms_norm_eps": "1e-5", "rope_theta": "1000000", "max_window_layers": "80"})
	text.values["model_type"] = json.RawMessage(`"qwen2"`)
	if text.has("image_token_id") { // a copy
		text.read["image_token_id"] = true
	}
	return text, text.sections()
}

// sections takes mrope_section out of the settings of the rotary embedding: how many pairs of a head turn by the place
// in time, in height and in width.
func (o *object) sections() [3]int {
	out := []int{16, 24, 24}
	for _, key := range []string{"rope_parameters", "rope_scaling"} {
		rope := o.object(key)
		if rope == nil {
			continue
		}
		if raw, ok := rope.raw("mrope_section"); ok {
			out = nil
			if err := json.Unmarshal(raw, &out); err != nil || len(out) != 3 {
				rope.fail("mrope_section", "want a list of 3 integers, got %s", shorten(raw))
			}
		}
		delete(rope.values, "mrope_section")
		for _, name := range []string{"type", "rope_type"} {
			if rope.string(name, "") == "mrope" {
				rope.values[name] = json.RawMessage(`"` + RopeDefault + `"`)
			}
		}
		o.values[key], _ = json.Marshal(rope.values) // of valid JSON
		if o.err == nil {
			o.err = rope.err
		}
	}
	if o.err != nil {
		return [3]int{}
	}
	return [3]int(out)
}

// checkSections checks that the parts of a rotary embedding make up a head.
func (o *object) checkSections(c Config) {
	s := c.Rope.Sections
	for _, n := range s {
		if n < 1 || n > c.HeadDim {
			o.fail("mrope_section", "%v: want 3 numbers of at least 1", s)
		}
	}
	if s[0]+s[1]+s[2] != c.HeadDim/2 {
		o.fail("mrope_section", "%v: want a sum of %d, half of head_dim %d", s, c.HeadDim/2, c.HeadDim)
	}
}

// maxWindow bounds the patches of a window in each direction: each sees all others.
const maxWindow = 64

// readQwenTower reads the vision_config of Qwen2.5-VL for a text model of the width hidden.
func readQwenTower(o, tower *object, hidden int) Vision {
	tower.fill(qwenDefaults)
	if t := tower.string("model_type", qwenTower); t != qwenTower && t != "qwen2_5_vl" {
		tower.fail("model_type", "%q is not supported, want %q", t, qwenTower)
	}
	v := Vision{
		Kind:         QwenVL,
		Hidden:       tower.requireInt("hidden_size", 1, maxWidth),
		Intermediate: tower.requireInt("intermediate_size", 1, maxWidth),
		Layers:       tower.requireInt("depth", 1, maxLayers),
		Heads:        tower.requireInt("num_heads", 1, maxHeads),
		Patch:        tower.requireInt("patch_size", 1, maxSide),
		Shuffle:      tower.requireInt("spatial_merge_size", 1, maxSide),
		NormEps:      1e-6, // fixed by the class
		Activation:   tower.string("hidden_act", "silu"),
		ImageToken:   uint32(o.int("image_token_id", 151655, 0, maxVocab)),
	}
	if v.Activation != "silu" {
		tower.fail("hidden_act", "%q is not supported, want \"silu\"", v.Activation)
	}
	for key, want := range map[string]int{"in_channels": 3, "in_chans": 3, "temporal_patch_size": 2,
		"out_hidden_size": hidden} {
		if n := tower.int(key, want, 0, maxWidth); n != want {
			tower.fail(key, "%d: want %d", n, want)
		}
	}
	window := tower.requireInt("window_size", 1, maxSide)
	if v.Window = window / v.Shuffle / v.Patch; v.Window < 1 {
		tower.fail("window_size", "%d is below spatial_merge_size %d times patch_size %d", window, v.Shuffle, v.Patch)
	}
	if side := v.Window * v.Shuffle; side > maxWindow {
		tower.fail("window_size", "%d has %d patches in each direction, want at most %d", window, side, maxWindow)
	}
	if raw, ok := tower.raw("fullatt_block_indexes"); ok {
		if err := json.Unmarshal(raw, &v.Full); err != nil {
			tower.fail("fullatt_block_indexes", "want a list of integers, got %s", shorten(raw))
		}
	}
	if v.Hidden%(4*v.Heads) != 0 {
		tower.fail("hidden_size", "%d is not a multiple of 4 times num_heads %d", v.Hidden, v.Heads)
	}
	v.RopeTheta = 10000
	if rope := tower.object("rope_parameters"); rope != nil {
		v.RopeTheta = rope.float("rope_theta", v.RopeTheta, 1, 1e18)
		if t := rope.string("rope_type", "axial"); t != "axial" {
			rope.fail("rope_type", "%q is not supported, want \"axial\"", t)
		}
		rope.checkUnread(string(v.Kind))
		if tower.err == nil {
			tower.err = rope.err
		}
	}
	o.ignore(ignoredQwen)
	tower.ignore(ignoredQwen)
	tower.checkUnread(string(v.Kind))
	return v
}

// qwenTower is the type of Qwen2.5-VL's tower. Old files have that of the whole model.
const qwenTower = "qwen2_5_vl_vision"
