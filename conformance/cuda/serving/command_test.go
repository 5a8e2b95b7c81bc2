package serving

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tgi/conformance/cuda/fake"
	"tgi/conformance/live"
)

// TestCommands gives commands as users do, with a GPU that computes nothing: each runs the demo model on it and says
// so, and --cuda-graphs reaches the device.
func TestCommands(t *testing.T) {
	d, library := fake.Install(t)
	program := live.Program(t)
	t.Setenv("TGI_ORT_LIB", library)
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(library)) // where the driver is
	t.Setenv("TGI_CACHE", t.TempDir())
	demo, err := filepath.Abs("../../../models/demo/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	const device = "Fake H200 (cuda:0, compute capability 9.0, 128 GiB)"
	for _, c := range []struct {
		args string
		want []string
	}{
		{"doctor", []string{"driver           found", "cuda:0           " + device, "device = auto    " + device}},
		{"check --device cuda --cuda-graphs 1,2", []string{"model    tgi-demo", "on " + device, "511 blocks of 256 tokens",
			`cuda_graphs = "1,2"`}},
		{"bench --device cuda --cuda-graphs 1,4 --weights bf16 --model-id " + demo,
			[]string{"bf16 weights, ONNX Runtime 1.30.0 on " + device, "outside ORT"}},
		{"bench --device cpu --json --model-id " + demo, []string{`"threads":`, `"products":`}},
	} {
		out, err := exec.CommandContext(t.Context(), program, strings.Fields(c.args)...).CombinedOutput()
		if err != nil {
			t.Errorf("tgi %s: %v\n%s", c.args, err, out)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("tgi %s: %q is missing in\n%s", c.args, want, out)
			}
		}
	}
	for _, c := range []struct {
		settings, graphs string
		flags            []string
	}{
		{"", "[1,2]", []string{"--cuda-graphs", "1,2,64"}}, // of which steps have at most two rows
		{"[runtime]\ncuda_graphs = \"0\"\n", "[]", nil},
	} {
		before := d.Counters()
		settings := c.settings + "[limits]\nmax_batch_size = 2\n"
		s, err := Start(t.Context(), program, settings, append(c.flags, "--device", "cuda")...)
		if err != nil {
			t.Fatal(err)
		}
		body := `{"inputs":"Once","parameters":{"max_new_tokens":30,"logit_bias":{"5":90}}}`
		answer, err := http.Post(s.URL+"/generate", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		info, metrics := get(t, s.URL+"/info"), get(t, s.URL+"/metrics")
		want := `"device":{"name":"Fake H200","index":0,"memory_bytes":137438953472,"cache_bytes":`
		if !strings.Contains(info, want) || !strings.Contains(info, `"cuda_graphs":`+c.graphs) {
			t.Errorf("%v: %s", c.flags, info)
		}
		recorded := int64(1)
		if c.graphs == "[]" {
			recorded = 0
		}
		if line := fmt.Sprintf("tgi_cuda_graphs{model=\"tgi-demo\"} %d\n", recorded); !strings.Contains(metrics, line) {
			t.Errorf("%v: %s is missing", c.flags, line)
		}
		if err := s.Stop(os.Interrupt); err != nil {
			t.Error(err)
		}
		if got := d.Counters().Since(before); got.Captures != recorded || (got.GraphLaunches > 20) != (recorded == 1) {
			t.Errorf("%v: %+v", c.flags, got)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, err)
	}
	return string(text)
}
