package vision

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"tgi/models/hf"
)

// Names of the files that configure an image processor, the newer first: there it is the member image_processor.
const (
	ProcessorFile    = hf.ProcessorConfigFile
	PreprocessorFile = "preprocessor_config.json"
)

// ErrConfig is wrapped by errors about these files.
var ErrConfig = errors.New("unusable image processor")

// imageSize is a size in its forms.
type imageSize struct {
	Longest  int `json:"longest_edge"`
	Shortest int `json:"shortest_edge"`
	Height   int `json:"height"`
	Width    int `json:"width"`
}

// UnmarshalJSON implements json.Unmarshaler: a number is the shortest edge.
func (s *imageSize) UnmarshalJSON(data []byte) error {
	var n int
	if json.Unmarshal(data, &n) == nil {
		*s = imageSize{Shortest: n}
		return nil
	}
	type plain imageSize
	return json.Unmarshal(data, (*plain)(s))
}

// settings are those of an image processor, and what its processor says beside them.
type settings struct {
	Type          *string    `json:"image_processor_type"`
	OldType       *string    `json:"feature_extractor_type"`
	Pad           *bool      `json:"do_pad"`
	Token         *string    `json:"image_token"`
	Sequence      *int       `json:"image_seq_len"`
	Patch         *int       `json:"patch_size"`
	Additional    *int       `json:"num_additional_image_tokens"`
	Strategy      *string    `json:"vision_feature_select_strategy"`
	Resize        *bool      `json:"do_resize"`
	Size          *imageSize `json:"size"`
	Resample      *filter    `json:"resample"`
	Crop          *bool      `json:"do_center_crop"`
	CropSize      *imageSize `json:"crop_size"`
	Rescale       *bool      `json:"do_rescale"`
	RescaleFactor *float64   `json:"rescale_factor"`
	Normalise     *bool      `json:"do_normalize"`
	Mean          []float64  `json:"image_mean"`
	Std           []float64  `json:"image_std"`
	Split         *bool      `json:"do_image_splitting"`
	TileSize      *imageSize `json:"max_image_size"`
	Pinpoints     [][2]int   `json:"image_grid_pinpoints"`
	MinPixels     *int       `json:"min_pixels"`
	MaxPixels     *int       `json:"max_pixels"`
	Temporal      *int       `json:"temporal_patch_size"`
	Merge         *int       `json:"merge_size"`
	PanAndScan    *bool      `json:"do_pan_and_scan"`
	Length        *int       `json:"image_seq_length"`
}

// Settings that a model may leave out, by their defaults in transformers 5.23.
var (
	siglipMean = []float64{0.5, 0.5, 0.5}
	clipMean   = []float64{0.48145466, 0.4578275, 0.40821073}
	clipStd    = []float64{0.26862954, 0.26130258, 0.27577711}
)

// limits of settings. The longest edge is that of Idefics3's image processor.
const (
	maxEdge      = 4096
	maxPinpoints = 256
)

// without lists keys that do not change what is computed: names of classes, and settings of how it is computed. The
// colours of a picture are always red, green and blue, and its size is always known.
var without = []string{"processor_class", "do_convert_rgb", "return_tensors", "data_format", "input_data_format",
	"device",
	"disable_grouping", "chat_template", "video_processor", "return_row_col_info", "default_to_square",
	"video_sampling", "pan_and_scan_min_crop_size", "pan_and_scan_max_num_crops", "pan_and_scan_min_ratio_to_activate"}

// parse reads the settings of an object. A key that is not known, and could change what is computed, is an error.
func (s *settings) parse(data []byte) error {
	if err := json.Unmarshal(data, s); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	read := map[string]bool{}
	for i, t := 0, reflect.TypeFor[settings](); i < t.NumField(); i++ {
		read[t.Field(i).Tag.Get("json")] = true
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		switch v := string(all[key]); {
		case read[key], slices.Contains(without, key), strings.HasPrefix(key, "_"), key == imageProcessorKey:
		case v == "null", v == "false", v == "[]", v == "{}", strings.HasPrefix(v, `"`):
		default:
			return fmt.Errorf("%s: %.60s is unknown and may change how images are prepared", key, v)
		}
	}
	return nil
}

// imageProcessorKey is the member of ProcessorFile with the settings of the image processor.
const imageProcessorKey = "image_processor"

// readSettings reads the configuration of a folder.
func readSettings(fsys fs.FS) (s settings, file string, err error) {
	data, err := fs.ReadFile(fsys, ProcessorFile)
	if err == nil {
		var p struct {
			Image json.RawMessage `json:"image_processor"`
		}
		if err = s.parse(data); err == nil {
			err = json.Unmarshal(data, &p)
		}
		if err == nil && p.Image != nil {
			return s, ProcessorFile, wrap(ProcessorFile, s.parse(p.Image))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, "", wrap(ProcessorFile, err)
	}
	data, err = fs.ReadFile(fsys, PreprocessorFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, "", fmt.Errorf("%w: neither %s nor %s says how images are prepared", ErrConfig, ProcessorFile,
			PreprocessorFile)
	}
	if err == nil {
		err = s.parse(data)
	}
	return s, PreprocessorFile, wrap(PreprocessorFile, err)
}

// classes are the image processors of transformers that compute what this package does, without a Fast at their ends.
var classes = map[hf.VisionKind][]string{
	hf.Idefics3:  {"Idefics3ImageProcessor", "SmolVLMImageProcessor"},
	hf.LLaVA:     {"CLIPImageProcessor", "CLIPFeatureExtractor", "LlavaImageProcessor"},
	hf.LLaVANext: {"LlavaNextImageProcessor"},
	hf.QwenVL:    {"Qwen2VLImageProcessor"},

	hf.Gemma3Vision: {"Gemma3ImageProcessor"},
}

// fits checks what the settings say of the model.
func (s *settings) fits(v hf.Vision) error {
	for key, class := range map[string]*string{"image_processor_type": s.Type, "feature_extractor_type": s.OldType} {
		if class != nil && !slices.Contains(classes[v.Kind], strings.TrimSuffix(*class, "Fast")) {
			return fmt.Errorf("%s: %.60q is not supported for a model of the kind %s, want %s", key, *class, v.Kind,
				strings.Join(classes[v.Kind], " or "))
		}
	}
	if v.Kind == hf.LLaVA && s.Pad != nil && *s.Pad {
		return errors.New("do_pad: true is not supported: pictures are cut and not padded to a square")
	}
	token := imageToken
	switch v.Kind {
	case hf.QwenVL:
		token = qwenToken
	case hf.Gemma3Vision:
		token = gemmaToken
	}
	if v.Kind != hf.Gemma3Vision && s.PanAndScan != nil && *s.PanAndScan {
		return errors.New("do_pan_and_scan: true is unknown and may change how images are prepared")
	}
	if s.Token != nil && *s.Token != token {
		return fmt.Errorf("image_token: %.60q is not supported, want %q", *s.Token, token)
	}
	if err := s.fitsQwen(v); err != nil {
		return err
	}
	strategy := "full"
	if v.DropClass {
		strategy = "default"
	}
	if s.Strategy != nil && v.Kind != hf.Idefics3 && *s.Strategy != strategy {
		return fmt.Errorf("vision_feature_select_strategy: %.60q, but %s says %q", *s.Strategy, hf.ConfigFile, strategy)
	}
	plain := v.Kind != hf.Idefics3 && v.Kind != hf.Gemma3Vision
	for _, n := range []struct {
		key  string
		have *int
		want int
		of   bool
	}{
		{"image_seq_length", s.Length, v.TileRows(), v.Kind == hf.Gemma3Vision},
		{"image_seq_len", s.Sequence, v.TileRows(), v.Kind == hf.Idefics3},
		{"patch_size", s.Patch, v.Patch, plain},
		{"num_additional_image_tokens", s.Additional, 1, plain}, // CLIP's class token
	} {
		if n.of && n.have != nil && *n.have != n.want {
			return fmt.Errorf("%s: %d, but by %s it is %d", n.key, *n.have, hf.ConfigFile, n.want)
		}
	}
	return nil
}

// fitsQwen checks settings that only Qwen's image processor has.
func (s *settings) fitsQwen(v hf.Vision) error {
	for _, n := range []struct {
		key  string
		have *int
		want int // 0: any
	}{
		{"min_pixels", s.MinPixels, 0},
		{"max_pixels", s.MaxPixels, 0},
		{"temporal_patch_size", s.Temporal, 2},
		{"merge_size", s.Merge, v.Shuffle},
	} {
		switch {
		case n.have == nil:
		case v.Kind != hf.QwenVL:
			return fmt.Errorf("%s: %d is unknown and may change how images are prepared", n.key, *n.have)
		case n.want != 0 && *n.have != n.want:
			return fmt.Errorf("%s: %d, but by %s it is %d", n.key, *n.have, hf.ConfigFile, n.want)
		}
	}
	return nil
}

func wrap(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", file, ErrConfig, err)
}

// Open returns the processor of a model's folder, whose vision tower is v.
func Open(fsys fs.FS, v hf.Vision) (Processor, error) {
	s, file, err := readSettings(fsys)
	if err != nil {
		return nil, err
	}
	if err := s.fits(v); err != nil {
		return nil, wrap(file, err)
	}
	var p Processor
	switch v.Kind {
	case hf.Idefics3:
		p, err = newIdefics3(s, v)
	case hf.LLaVA, hf.LLaVANext:
		p, err = newLLaVA(s, v)
	case hf.QwenVL:
		p, err = newQwen(s, v)
	case hf.Gemma3Vision:
		p, err = newGemma3(s, v)
	default:
		err = fmt.Errorf("no processor for %q", v.Kind)
	}
	if err != nil {
		return nil, wrap(file, err)
	}
	return p, nil
}

// scaling turns pixels into numbers: (pixel - mean) / std, both times 255.
type scaling struct{ mean, std [3]float32 }

// scaling checks the settings that turn pixels into numbers.
func (s *settings) scaling(mean, std []float64) (out scaling, err error) {
	for _, f := range []struct {
		name string
		v    *bool
	}{{"do_resize", s.Resize}, {"do_rescale", s.Rescale}, {"do_normalize", s.Normalise}} {
		if f.v != nil && !*f.v {
			return out, fmt.Errorf("%s: false is not supported", f.name)
		}
	}
	if s.Mean != nil {
		mean = s.Mean
	}
	if s.Std != nil {
		std = s.Std
	}
	if len(mean) != 3 || len(std) != 3 {
		return out, fmt.Errorf("image_mean and image_std: want 3 numbers each, got %d and %d", len(mean), len(std))
	}
	factor := 1.0 / 255
	if s.RescaleFactor != nil {
		factor = *s.RescaleFactor
	}
	if !(factor > 1e-6 && factor <= 1) {
		return out, fmt.Errorf("rescale_factor: %v, want a number from 1e-6 to 1", factor)
	}
	for c := range 3 {
		if !(std[c] > 1e-6 && std[c] < 1e6 && mean[c] > -1e6 && mean[c] < 1e6) {
			return out, fmt.Errorf("image_mean and image_std: %v and %v", mean[c], std[c])
		}
		out.mean[c] = float32(mean[c]) * float32(1/factor)
		out.std[c] = float32(std[c]) * float32(1/factor)
	}
	return out, nil
}

// appendTile appends the numbers of a tile, [3, height, width].
func (s scaling) appendTile(to []float32, p Image) []float32 {
	for c := range 3 {
		for i := c; i < len(p.Pix); i += 3 {
			to = append(to, (float32(p.Pix[i])-s.mean[c])/s.std[c])
		}
	}
	return to
}

// filter checks the setting resample.
func (s *settings) filter(otherwise filter) (filter, error) {
	if s.Resample == nil {
		return otherwise, nil
	}
	if f := *s.Resample; f < lanczos || f > bicubic {
		return 0, fmt.Errorf("resample: %d is not supported, want 1 (lanczos), 2 (bilinear) or 3 (bicubic)", f)
	}
	return *s.Resample, nil
}

// edge checks that a size is that of a tile of the tower: its side in any form.
func (s *imageSize) edge(name string, side int) error {
	if s == nil {
		return nil
	}
	for _, n := range []int{s.Longest, s.Shortest, s.Height, s.Width} {
		if n != 0 && n != side {
			return fmt.Errorf("%s: %d, but vision_config.image_size is %d", name, n, side)
		}
	}
	return nil
}

// inputs are those of a tower for tiles, whose rows are wanted in the given order.
func (s scaling) inputs(tiles []Image, rows []int64) []Input {
	side := int64(tiles[0].Width)
	floats := make([]float32, 0, 3*side*side*int64(len(tiles)))
	for _, t := range tiles {
		floats = s.appendTile(floats, t)
	}
	return []Input{
		{Name: "pixel_values", Shape: []int64{int64(len(tiles)), 3, side, side}, Floats: floats},
		{Name: "rows", Shape: []int64{int64(len(rows))}, Ints: rows},
	}
}

// countUp returns 0 to n-1.
func countUp(n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

// repeat writes the image token n times.
func repeat(b *strings.Builder, n int) {
	for range n {
		b.WriteString(imageToken)
	}
}

// imageToken is the placeholder of an image and its token in all families of this package but Qwen's.
const imageToken = "<image>"
