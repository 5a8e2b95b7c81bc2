package host

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/tensors"
	"tgi/server/config"
)

// someSamples returns one of each n samples of the demo model, and what numpy says of them.
func someSamples(t *testing.T, n int) (in AccuracyInput, scored int, nll float64) {
	t.Helper()
	data, err := os.ReadFile("testdata/accuracy.json") // of make_accuracy.py beside it
	if err != nil {
		t.Fatal(err)
	}
	var golden [][2]float64 // scored tokens, and their losses
	all := DemoSamples()
	if err := json.Unmarshal(data, &golden); err != nil || len(golden) != len(all.Samples) {
		t.Fatalf("%d goldens for %d samples: %v", len(golden), len(all.Samples), err)
	}
	in.Name = all.Name
	for i := 0; i < len(golden); i += n {
		in.Samples = append(in.Samples, all.Samples[i])
		scored, nll = scored+int(golden[i][0]), nll+golden[i][1]
	}
	return in, scored, nll / float64(scored)
}

// comparedForms runs forms, and logs what was found.
func comparedForms(t *testing.T, cfg config.Config, in AccuracyInput, forms ...string) map[string]FormAccuracy {
	t.Helper()
	told := 0
	r, err := CompareForms(t.Context(), cfg, in, forms, func(tokens, of int) {
		if tokens <= told || tokens > of {
			t.Errorf("told of %d of %d tokens after %d", tokens, of, told)
		}
		told = tokens
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text.String())
	if told != r.Tokens || len(r.Forms) != len(forms) || r.Reference != forms[0] ||
		strings.Count(text.String(), "\n") != len(forms)+2 {
		t.Errorf("told of %d: %+v", told, r)
	}
	byForm := map[string]FormAccuracy{"": {NLL: float64(r.Scored)}}
	for _, f := range r.Forms {
		byForm[f.Form] = f
	}
	return byForm
}

// TestAccuracy: the reference scores the answers as numpy does and agrees with itself; forms that keep less are
// farther from it.
func TestAccuracy(t *testing.T) {
	in, scored, nll := someSamples(t, 7)
	// The same twice: the second is opened by itself.
	r := comparedForms(t, testConfig(), in, "fp32", "fp32+float32", "fp32+float16", "fp32+bfloat16", "fp32+int8",
		"int8", "int8-128", "int4", "int4-128")
	if r[""].NLL != float64(scored) || math.Abs(r["fp32"].NLL-nll) > 1e-4 ||
		math.Abs(r["fp32"].Perplexity-math.Exp(nll)) > 1e-4 {
		t.Errorf("%g tokens with a loss of %f, want %d with %f", r[""].NLL, r["fp32"].NLL, scored, nll)
	}
	for _, same := range []string{"fp32", "fp32+float32"} {
		f := r[same]
		if f.KL != 0 || f.KL99 != 0 || f.Top1 != 1 || f.NLL != r["fp32"].NLL || f.Error != 0 {
			t.Errorf("against itself: %+v", f)
		}
	}
	for _, order := range [][]string{
		{"fp32", "fp32+float16", "fp32+bfloat16", "int4"}, {"fp32+float16", "fp32+int8", "int4"},
		{"fp32", "int8", "int4", "int4-128"}, {"int8", "int8-128", "int4"},
	} {
		for i := 1; i < len(order); i++ {
			near, far := r[order[i-1]], r[order[i]]
			if near.KL >= far.KL || near.KL99 >= far.KL99 || far.KL99 < far.KL {
				t.Errorf("%s: %+v\nis not nearer than\n%s: %+v", order[i-1], near, order[i], far)
			}
		}
	}
	if a, b := r["int8"].Top1, r["int4"].Top1; a <= b || a > 1 || b < 0.9 {
		t.Errorf("int8 has the same likeliest token in %g, int4 in %g", a, b)
	}
	for _, order := range [][]string{{"int4-128", "int4", "int8-128", "int8", "fp32"}} {
		for i := 1; i < len(order); i++ {
			if small, large := r[order[i-1]], r[order[i]]; small.Bytes >= large.Bytes || small.Bytes == 0 {
				t.Errorf("%s has %d bytes, %s %d", order[i-1], small.Bytes, order[i], large.Bytes)
			}
		}
	}
	if a, b := r["fp32"].CacheBytes, r["fp32+float16"].CacheBytes; a != 2*b || r["int8"].CacheBytes != b ||
		r["fp32+int8"].CacheBytes >= b {
		t.Errorf("caches of %d, %d and %d bytes", a, b, r["fp32+int8"].CacheBytes)
	}
}

// TestAccuracyOfTexts: a text is scored as eval --suite perplexity scores it.
func TestAccuracyOfTexts(t *testing.T) {
	text := strings.Repeat("Mira lives in a house near the harbour of Pebblewick. ", 12)
	cfg := testConfig()
	r := comparedForms(t, cfg, AccuracyInput{Name: "text", Text: text, Window: 64}, "fp32", "int4")
	cfg.Model.Weights = "fp32"
	want, err := openServer(t, cfg).Perplexity(t.Context(), text, 64, 32, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(r["fp32"].NLL-want.NLL) > 1e-4 || int(r[""].NLL) != want.Scored {
		t.Errorf("%+v, want %+v", r, want)
	}
}

// TestAccuracyOfOutliers: where some activations are far larger than the others, as in trained models of a usual size,
// blocks of 32 err less than blocks of 128. Columns of norms are multiplied, and what they meet is divided, so the
// model is the same.
func TestAccuracyOfOutliers(t *testing.T) {
	cfg := testConfig()
	cfg.Model.Path = writeOutliers(t, 20)
	in, _, nll := someSamples(t, 7)
	r := comparedForms(t, cfg, in, "fp32", "int8", "int8-64", "int8-128", "int4", "int4-64", "int4-128")
	if math.Abs(r["fp32"].NLL-nll) > 1e-3 {
		t.Errorf("with outliers a loss of %f, without %f: it is another model", r["fp32"].NLL, nll)
	}
	for _, w := range []string{"int8", "int4"} {
		for _, more := range []string{"", "-64"} {
			small, large := r[w+more], r[w+map[string]string{"": "-64", "-64": "-128"}[more]]
			if small.KL >= large.KL {
				t.Errorf("%s: KL %g, %s: %g", small.Form, small.KL, large.Form, large.KL)
			}
		}
	}
}

// writeOutliers writes the demo model with activations that are larger by a factor in two columns of what each product
// behind a norm reads.
func writeOutliers(t *testing.T, factor float32) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "outliers")
	if err := os.CopyFS(dir, demo.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	ck, err := hf.OpenFS(demo.Checkpoint(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	columns := []int{37, 180}
	var specs []safetensors.Spec
	var body bytes.Buffer
	changed := 0
	for _, name := range ck.Tensors.Names() {
		tensor, err := ck.Tensors.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, tensor.Len())
		if err := tensor.Floats(x, 0); err != nil {
			t.Fatal(err)
		}
		by, reads := factor, strings.Contains(name, "layernorm")
		for _, part := range []string{"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"} {
			if strings.Contains(name, part) {
				by, reads = 1/factor, true
			}
		}
		width := int(tensor.Shape[len(tensor.Shape)-1])
		for at := 0; reads && at < len(x); at += width {
			for _, c := range columns {
				x[at+c] *= by
				changed++
			}
		}
		specs = append(specs, safetensors.Spec{Name: name, DType: tensors.F32, Shape: tensor.Shape})
		data, err := tensors.F32.AppendFloats(nil, x)
		if err != nil {
			t.Fatal(err)
		}
		body.Write(data)
	}
	if changed == 0 {
		t.Fatal("no tensor was changed")
	}
	var file bytes.Buffer
	if err := safetensors.WriteHeader(&file, specs); err != nil {
		t.Fatal(err)
	}
	file.Write(body.Bytes())
	at := filepath.Join(dir, "model.safetensors")
	if err := os.Chmod(at, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAccuracyRefuses: what cannot be compared is said.
func TestAccuracyRefuses(t *testing.T) {
	in := AccuracyInput{Name: "in", Text: "some words of a text"}
	bert := "../../models/testdata/embeddings/bert"
	for _, c := range []struct {
		path, forms, want string
		in                AccuracyInput
	}{
		{"", "fp32,int5", `form "int5": want fp32, int8, int4, stored, or a path`, in},
		{"", "fp32,int8-32", `form "int8-32": blocks of 32: want 64 or 128`, in},
		{"", "fp32-64", "blocks of 64: int8 and int4 on cpu have such", in},
		{"", "stored", "form stored: ", in},
		{"", "fp32,no/such", "form no/such: ", in},
		{"", "fp32,bf16", "form bf16: weights must be", in},
		{"", "fp32," + bert, "does not generate", in},
		{"", "fp32,../../models/testdata/gguf/llama3/model.gguf", "has a vocabulary of", in},
		{bert, "fp32", "generate", in},
		{"", strings.Repeat("fp32,", maxForms) + "fp32", "forms: 33 are not from 1 to 32", in},
		{"", "fp32", "in: there is no token to score", AccuracyInput{Name: "in"}},
		{"", "fp32", "window: 1 is not from 2 to 1024", AccuracyInput{Name: "in", Text: "text", Window: 1}},
		{"", "fp32", "in: sample 1 has", AccuracyInput{Name: "in", Samples: []AccuracySample{
			{"", strings.Repeat("a b c ", 1000)}}}},
	} {
		cfg := testConfig()
		cfg.Model.Path = c.path
		_, err := CompareForms(t.Context(), cfg, c.in, strings.Split(c.forms, ","), func(int, int) {})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: error %v, want %s", c.path, c.forms, err, c.want)
		}
	}
	for text, want := range map[string]string{"": "there is no line", "{}": "line 1: expected is missing",
		"\n{\"prompt\": 3}":                          "line 2: ",
		`{"prompt":"a","prompt":"b","expected":"c"}`: `line 1: "prompt" is there twice`,
		"{\"prompt\":\"a\",\"expected\":\"b\"}\n":    ""} {
		list, err := ParseSamples([]byte(text))
		said := ""
		if err != nil {
			said = err.Error()
		}
		if (err == nil) != (want == "") || !strings.Contains(said, want) || err == nil && len(list) != 1 {
			t.Errorf("%q: %v, %v, want %s", text, list, err, want)
		}
	}
}
