package vision_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"tgi/models/hf"
	"tgi/models/vision"
	"tgi/models/vision/visiontest"
)

// open opens a golden and its processor.
func open(t *testing.T, name string) (visiontest.Golden, hf.Vision, vision.Processor) {
	t.Helper()
	g, err := visiontest.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	ck, err := hf.Describe(g.Dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := vision.Open(os.DirFS(g.Dir), *ck.Config.Vision)
	if err != nil {
		t.Fatal(err)
	}
	return g, *ck.Config.Vision, p
}

// TestProcessorsOfTransformers: tiles are those of transformers' image processors.
func TestProcessorsOfTransformers(t *testing.T) {
	for _, name := range visiontest.Names {
		t.Run(name, func(t *testing.T) {
			g, v, p := open(t, name)
			for i, run := range g.Runs {
				parts := strings.Split(run.Prompt, p.Placeholder())
				text := parts[0]
				for j, size := range run.Pictures {
					plan, err := p.Plan(size[0], size[1])
					if err != nil {
						t.Fatal(err)
					}
					text += plan.Text + parts[j+1]
					if plan.Tokens != run.Tokens[j] {
						t.Errorf("picture %v has %d tokens, want %d", size, plan.Tokens, run.Tokens[j])
					}
					inputs, err := p.Inputs(visiontest.Picture(size[0], size[1], size[2]))
					if err != nil {
						t.Fatal(err)
					}
					compareTiles(t, size, inputs[0], g.Tiles(i, j), p, v)
				}
				if text != run.Text {
					t.Errorf("the prompt is %q, want %q", text, run.Text)
				}
			}
		})
	}
}

func compareTiles(t *testing.T, size [3]int, got vision.Input, want []byte, p vision.Processor, v hf.Vision) {
	t.Helper()
	side := int64(v.Side)
	shape := []int64{got.Shape[0], 3, side, side}
	if v.Kind == hf.QwenVL {
		side = int64(v.Patch)
		shape = []int64{got.Shape[0], 3 * side * side}
	}
	if len(got.Floats) != len(want) || !slices.Equal(got.Shape, shape) {
		t.Errorf("picture %v: %v with %d numbers, want %d", size, got.Shape, len(got.Floats), len(want))
		return
	}
	mean, std := vision.Scaling(p)
	differ, most := 0, 0.0
	for k, x := range got.Floats {
		c := k / int(side*side) % 3
		d := math.Abs(float64(x*std[c]+mean[c]) - float64(want[k]))
		if d > 0.01 {
			differ++
		}
		most = max(most, d)
	}
	if differ > 0 {
		t.Errorf("picture %v: %d of %d pixels differ, by %.2f at most", size, differ, len(want), most)
	}
}

// TestPlansFit: for pictures of any size, a processor's plan has as many tokens as its inputs have rows.
func TestPlansFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, name := range visiontest.Names {
		_, v, p := open(t, name)
		for range 100 {
			w, h := 1+r.IntN(1+r.IntN(400)), 1+r.IntN(1+r.IntN(400))
			plan, err := p.Plan(w, h)
			inputs, bad := p.Inputs(visiontest.Picture(w, h, 1))
			if (err == nil) != (bad == nil) {
				t.Errorf("%s: %d by %d: %v and %v", name, w, h, err, bad)
			}
			if err != nil {
				continue
			}
			if v.Kind == hf.QwenVL {
				checkWindows(t, v, plan, inputs)
				continue
			}
			rows, tiles := inputs[1].Ints, inputs[0].Shape[0]
			most := int64(0)
			for _, row := range rows {
				most = max(most, row)
			}
			if len(rows) != plan.Tokens || most > tiles*int64(v.TileRows()) {
				t.Errorf("%s: %d by %d: %d rows up to %d of %d tiles, the plan has %d tokens", name, w, h, len(rows),
					most,
					tiles, plan.Tokens)
			}
		}
	}
}

// checkWindows checks that the inputs of Qwen's tower have each patch once, in one window with those near it.
func checkWindows(t *testing.T, v hf.Vision, plan vision.Plan, inputs []vision.Input) {
	t.Helper()
	n, side := plan.Tokens*v.Shuffle*v.Shuffle, int64(v.Window*v.Shuffle)
	places, windows, mask, rows := inputs[1].Ints, inputs[2].Ints, inputs[3].Ints, inputs[4].Ints
	own := 0
	for _, m := range mask {
		own += int(m)
	}
	if inputs[0].Shape[0] != int64(n) || len(places) != 2*n || len(rows) != n || own != n ||
		len(mask) != len(windows) || inputs[2].Shape[1] != side*side || plan.Tokens%plan.Columns != 0 {
		t.Fatalf("%d patches, %d places, %d rows, %d of %d in windows, want %d; %+v", inputs[0].Shape[0], len(places),
			len(rows), own, len(windows), n, plan.Columns)
	}
	where := map[[2]int64]int64{}
	for patch, row := range rows {
		y, x := places[2*patch], places[2*patch+1]
		window, known := where[[2]int64{y / side, x / side}]
		if windows[row] != int64(patch) || mask[row] != 1 || known && window != row/(side*side) {
			t.Fatalf("patch %d at %d, %d is in row %d of window %d", patch, y, x, row, window)
		}
		where[[2]int64{y / side, x / side}] = row / (side * side)
	}
}

// FuzzOpen: no configuration of an image processor ends the process, and what it accepts prepares pictures.
func FuzzOpen(f *testing.F) {
	kinds := map[string]hf.Vision{}
	for _, name := range visiontest.Names {
		g, err := visiontest.Read(name)
		if err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(g.Dir, vision.ProcessorFile))
		if err != nil {
			f.Fatal(err)
		}
		ck, err := hf.Describe(g.Dir)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		kinds[name] = *ck.Config.Vision
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, v := range kinds {
			for _, file := range []string{vision.ProcessorFile, vision.PreprocessorFile} {
				p, err := vision.Open(fstest.MapFS{file: {Data: data}}, v)
				if err != nil {
					continue
				}
				plan, err := p.Plan(7, 50)
				if err != nil {
					continue
				}
				inputs, err := p.Inputs(visiontest.Picture(7, 50, 1))
				if v.Kind == hf.QwenVL && err == nil {
					checkWindows(t, v, plan, inputs)
					continue
				}
				if err != nil || len(inputs[1].Ints) != plan.Tokens {
					t.Errorf("%s: %v, %d rows of %d", name, err, len(inputs[1].Ints), plan.Tokens)
				}
			}
		}
	})
}

// TestSettingsRefused: settings with which transformers would prepare images otherwise are refused by their names.
func TestSettingsRefused(t *testing.T) {
	for _, c := range []struct{ name, processor, image, want string }{
		{"smolvlm", "", `"do_resize": false`, "do_resize: false is not supported"},
		{"smolvlm", "", `"image_processor_type": "SiglipImageProcessor"`,
			"image_processor_type: \"SiglipImageProcessor\""},
		{"smolvlm", "", `"no_such_setting": 1`, "no_such_setting: 1 is unknown"},
		{"smolvlm", "", `"resample": 5`, "resample: 5 is not supported"},
		{"smolvlm", "", `"max_image_size": {"longest_edge": 40}`,
			"max_image_size: 40, but vision_config.image_size is 32"},
		{"smolvlm", "", `"size": {"longest_edge": 100000}`, "size: want a longest_edge from 1 to 4096"},
		{"smolvlm", "", `"image_std": [1, 0, 1]`, "image_mean and image_std"},
		{"smolvlm", `"image_seq_len": 9`, "", "image_seq_len: 9, but by config.json it is 4"},
		{"smolvlm", `"image_token": "<img>"`, "", "image_token: \"<img>\" is not supported"},
		{"llava", "", `"do_pad": true`, "do_pad: true is not supported"},
		{"llava", "", `"crop_size": 31`, "crop_size: 31, but vision_config.image_size is 30"},
		{"llava", `"vision_feature_select_strategy": "full"`, "",
			"vision_feature_select_strategy: \"full\", but config.json"},
		{"llava", `"patch_size": 7`, "", "patch_size: 7, but by config.json it is 6"},
		{"llava", `"num_additional_image_tokens": 0`, "", "num_additional_image_tokens: 0"},
		{"llava-next", "", `"image_grid_pinpoints": [[24, 24]]`,
			"image_grid_pinpoints: [[24 24]], but config.json has"},
		{"llava-next", "", `"do_pad": true`, "image_grid_pinpoints"}, // allowed: it pads a batch
		{"smolvlm", "", `"merge_size": 2`, "merge_size: 2 is unknown"},
		{"qwen2-5-vl", "", `"merge_size": 3`, "merge_size: 3, but by config.json it is 2"},
		{"qwen2-5-vl", "", `"patch_size": 14`, "patch_size: 14, but by config.json it is 4"},
		{"qwen2-5-vl", "", `"temporal_patch_size": 1`, "temporal_patch_size: 1, but by config.json it is 2"},
		{"qwen2-5-vl", "", `"image_processor_type": "Qwen3VLImageProcessor"`, "image_processor_type: "},
		{"qwen2-5-vl", "", `"size": {"shortest_edge": 100}`, "size: want pixels from 1 to 16777216"},
		{"qwen2-5-vl", "", `"min_pixels": 100, "max_pixels": 99`, "Given: 100 and 99"},
		{"qwen2-5-vl", "", `"max_pixels": 16777217`, "Given: 3136 and 16777217"},
		{"gemma3", "", `"do_pan_and_scan": true`, "do_pan_and_scan: true is not supported"},
		{"llava", "", `"do_pan_and_scan": true`, "do_pan_and_scan: true is unknown"},
		{"gemma3", "", `"size": {"height": 30, "width": 32}`, "size: 30, but vision_config.image_size is 32"},
		{"gemma3", "", `"size": {"shortest_edge": 32}`, "size: want height and width, both 32"},
		{"gemma3", "", ``, "size: 224, but vision_config.image_size is 32"},
		{"gemma3", `"image_seq_length": 9`, `"size": {"height": 32, "width": 32}`,
			"image_seq_length: 9, but by config.json it is 16"},
		{"gemma3", "", `"image_processor_type": "SiglipImageProcessor"`, "want Gemma3ImageProcessor"},
		{"qwen2-5-vl", `"image_token": "<image>"`, "", "image_token: \"<image>\" is not supported"},
	} {
		_, v, _ := open(t, c.name)
		more := ""
		if c.processor != "" {
			more = ", " + c.processor
		}
		text := fmt.Sprintf(`{"image_processor": {%s}%s}`, c.image, more)
		_, err := vision.Open(fstest.MapFS{vision.ProcessorFile: {Data: []byte(text)}}, v)
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), vision.ProcessorFile) {
			t.Errorf("%s: %v, want %s", text, err, c.want)
		}
	}
}

// TestSettingsOfPublishedModels: the files of published models are read.
func TestSettingsOfPublishedModels(t *testing.T) {
	clip := `"crop_size": {"height": 336, "width": 336}, "do_center_crop": true, "do_convert_rgb": true,
		"do_normalize": true, "do_rescale": true, "do_resize": true, "image_mean": [0.48145466, 0.4578275, 0.40821073],
		"image_std": [0.26862954, 0.26130258, 0.27577711], "resample": 3, "rescale_factor": 0.00392156862745098,
		"size": {"shortest_edge": 336}`
	processor := `{"image_token": "<image>", "num_additional_image_tokens": 1, "patch_size": 14,
		"processor_class": "LlavaProcessor", "vision_feature_select_strategy": "default"}`
	tower := hf.Vision{Kind: hf.LLaVA, Side: 336, Patch: 14, Shuffle: 1, Class: true, DropClass: true}
	next := tower
	next.Kind = hf.LLaVANext
	for name, c := range map[string]struct {
		v            hf.Vision
		files        fstest.MapFS
		tokens, side int
	}{
		"SmolVLM2-256M": {hf.Vision{Kind: hf.Idefics3, Side: 512, Patch: 16, Shuffle: 4}, fstest.MapFS{
			vision.PreprocessorFile: {Data: []byte(`{"do_convert_rgb": true, "do_image_splitting": true, "do_normalize": true,
				"do_pad": true, "do_rescale": true, "do_resize": true, "image_mean": [0.5, 0.5, 0.5],
				"image_processor_type": "SmolVLMImageProcessor", "image_std": [0.5, 0.5, 0.5],
				"max_image_size": {"longest_edge": 512}, "processor_class": "SmolVLMProcessor", "resample": 1,
				"rescale_factor": 0.00392156862745098, "size": {"longest_edge": 2048},
				"video_sampling": {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": 512}}}`)},
			vision.ProcessorFile: {Data: []byte(`{"image_seq_len": 64, "processor_class": "SmolVLMProcessor"}`)},
		}, 13 * 64, 512},
		"Qwen2.5-VL-7B": {hf.Vision{Kind: hf.QwenVL, Patch: 14, Shuffle: 2, Window: 4}, fstest.MapFS{
			vision.PreprocessorFile: {Data: []byte(`{"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14,
				"temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.48145466, 0.4578275, 0.40821073],
				"image_std": [0.26862954, 0.26130258, 0.27577711], "image_processor_type": "Qwen2VLImageProcessor",
				"processor_class": "Qwen2_5_VLProcessor"}`)},
		}, 39 * 69, 0},
		"gemma-3-4b": {hf.Vision{Kind: hf.Gemma3Vision, Side: 896, Patch: 14, Shuffle: 4, Mutual: true}, fstest.MapFS{
			vision.PreprocessorFile: {Data: []byte(`{"do_convert_rgb": null, "do_normalize": true, "do_pan_and_scan": null,
				"do_rescale": true, "do_resize": true, "image_mean": [0.5, 0.5, 0.5],
				"image_processor_type": "Gemma3ImageProcessor", "image_seq_length": 256, "image_std": [0.5, 0.5, 0.5],
				"pan_and_scan_max_num_crops": null, "pan_and_scan_min_crop_size": null,
				"pan_and_scan_min_ratio_to_activate": null, "processor_class": "Gemma3Processor", "resample": 2,
				"rescale_factor": 0.00392156862745098, "size": {"height": 896, "width": 896}}`)},
			vision.ProcessorFile: {Data: []byte(`{"image_seq_length": 256, "processor_class": "Gemma3Processor"}`)},
		}, 256, 896},
		"llava-1.5-7b": {tower, fstest.MapFS{vision.ProcessorFile: {Data: []byte(processor)},
			vision.PreprocessorFile: {Data: []byte(`{"image_processor_type": "CLIPImageProcessor",
				"processor_class": "LlavaProcessor", ` + clip + `}`)}}, 576, 336},
		"llava-v1.6-mistral-7b": {next, fstest.MapFS{vision.ProcessorFile: {Data: []byte(processor)},
			vision.PreprocessorFile: {Data: []byte(`{"aspect_ratio_setting": "anyres", "do_pad": true,
				"image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
				"image_processor_type": "LlavaNextImageProcessor", "processor_class": "LlavaNextProcessor", ` + clip + `}`)}},
			576 + 28*49, 336},
	} {
		p, err := vision.Open(c.files, c.v)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		plan, err := p.Plan(1920, 1080)
		if err != nil || plan.Tokens != c.tokens {
			t.Errorf("%s: a picture of 1920 by 1080 has %d tokens, want %d (%v)", name, plan.Tokens, c.tokens, err)
		}
	}
}

// TestSizesOfQwen: pictures have the sizes that smart_resize of transformers' Qwen2VLImageProcessor gives them: tokens,
// and tokens of a line.
func TestSizesOfQwen(t *testing.T) {
	for settings, list := range map[string][][4]int{
		`{"min_pixels": 3136, "max_pixels": 12845056}`: {{1920, 1080, 2691, 69}, {1, 1, 4, 2}, {13, 2600, 29, 1},
			{42, 70, 4, 2}, {14, 14, 4, 2}, {8000, 6000, 16170, 147}, {98, 126, 16, 4}, {999, 1001, 1296, 36},
			{4000, 20, 143, 143}, {700, 300, 275, 25}, {3, 500, 26, 1}},
		`{"size": {"shortest_edge": 200704, "longest_edge": 1003520}}`: {{1920, 1080, 1222, 47}, {1, 1, 256, 16},
			{13, 2600, 454, 2}, {42, 70, 273, 13}, {14, 14, 256, 16}, {8000, 6000, 1230, 41}, {98, 126, 285, 15},
			{999, 1001, 1225, 35}, {4000, 20, 454, 227}, {700, 300, 275, 25}, {3, 500, 414, 2}},
	} {
		p, err := vision.Open(fstest.MapFS{vision.PreprocessorFile: {Data: []byte(settings)}},
			hf.Vision{Kind: hf.QwenVL, Patch: 14, Shuffle: 2, Window: 4})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if plan, err := p.Plan(c[0], c[1]); err != nil || plan.Tokens != c[2] || plan.Columns != c[3] {
				t.Errorf("%s: %d by %d: %d tokens in lines of %d, want %v (%v)", settings, c[0], c[1], plan.Tokens,
					plan.Columns, c[2:], err)
			}
		}
		p.(vision.Bounded).Bound(600)
		for _, c := range list {
			if plan, err := p.Plan(c[0], c[1]); err != nil || plan.Tokens > 600 || plan.Tokens < min(c[2], 400) {
				t.Errorf("%s: %d by %d: %d tokens of 600 (%v)", settings, c[0], c[1], plan.Tokens, err)
			}
		}
		if _, err := p.Plan(13, 2601); err == nil || !strings.Contains(err.Error(), "13 by 2601 pixels is too narrow") {
			t.Error(err)
		}
	}
}
