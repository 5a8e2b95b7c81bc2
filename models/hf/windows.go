package hf

import "strconv"

// noWindow is for families without a sliding window.
func noWindow(o *object, layers int) []int {
	if v, ok := o.raw("sliding_window"); ok {
		o.fail("sliding_window", "%s: this architecture has no sliding window", shorten(v))
	}
	for i, t := range o.layerTypes(layers) {
		if t != fullAttention {
			o.fail("layer_types", "layer %d is %q: this architecture has only %q", i, t, fullAttention)
		}
	}
	return make([]int, layers)
}

// everyLayerWindow is Mistral's: one window for all layers, null for none. A missing key means
// 4096, as in the first checkpoints.
func everyLayerWindow(o *object, layers int) []int { return sameWindow(o, layers, 4096) }

// optionalWindow is one window for all layers, none if the key is missing.
func optionalWindow(o *object, layers int) []int { return sameWindow(o, layers, 0) }

// sameWindow is one window for all layers, w if the key is missing.
func sameWindow(o *object, layers, w int) []int {
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
	w := o.int("sliding_window", 4096, 0, maxPositions)
	from := o.int("max_window_layers", 28, 0, maxLayers)
	on := o.bool("use_sliding_window", false)
	if on && o.has("sliding_window") && string(o.values["sliding_window"]) == "null" {
		on = false
	}
	if on && w == 0 {
		o.fail("sliding_window", "is 0, but use_sliding_window is on")
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

// lateWindow is Dots': a window in the layers that layer_types names, by default those from max_window_layers on.
func lateWindow(o *object, layers int) []int {
	w := 4096
	if o.has("sliding_window") {
		w = o.int("sliding_window", 0, 1, maxPositions)
	}
	from, types := o.int("max_window_layers", 62, 0, maxLayers), o.layerTypes(layers)
	out := make([]int, layers)
	for i := range out {
		if types != nil && types[i] == slidingAttention || types == nil && i >= from {
			out[i] = w
		}
	}
	return out
}

// patternWindow is a window in the layers that layer_types names; by default in all but each n-th layer, where n is
// sliding_window_pattern or the family's own. Null is no window anywhere.
func patternWindow(pattern int) func(o *object, layers int) []int {
	return func(o *object, layers int) []int {
		w := 4096
		if o.has("sliding_window") {
			w = o.int("sliding_window", 0, 1, maxPositions)
		}
		full := o.windowPattern(pattern)
		types := o.layerTypes(layers)
		out := make([]int, layers)
		for i := range out {
			sliding := !full(i)
			if types != nil {
				sliding = types[i] == slidingAttention
			}
			if sliding {
				out[i] = w
			}
		}
		return out
	}
}

// firstOfFour is a window in the layers that layer_types names, by default in all but the first of each four.
func firstOfFour(o *object, layers int) []int {
	if o.has("layer_types") {
		return patternWindow(maxLayers+1)(o, layers)
	}
	w, out := o.int("sliding_window", 8192, 1, maxPositions), make([]int, layers)
	for i := range out {
		if i%4 != 0 {
			out[i] = w
		}
	}
	return out
}

// windowPattern reads sliding_window_pattern: each n-th layer sees everything, or a string such as LLLG says which.
func (o *object) windowPattern(n int) func(layer int) bool {
	v, ok := o.raw("sliding_window_pattern")
	if text, err := strconv.Unquote(string(v)); ok && err == nil && text != "" {
		for _, r := range text {
			if r != 'L' && r != 'G' {
				o.fail("sliding_window_pattern", "%q: want L for local layers and G for global ones", text)
				return func(int) bool { return false }
			}
		}
		return func(layer int) bool { return text[layer%len(text)] == 'G' }
	}
	n = o.int("sliding_window_pattern", n, 0, maxLayers)
	return func(layer int) bool { return n == 0 || (layer+1)%n == 0 }
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
