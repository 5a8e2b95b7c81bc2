package report

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tgi/conformance/cuda/fake"
	"tgi/conformance/live"
)

// carried are what docs/gpu.md says to carry to a machine without Go, beside the two programs.
var carried = []string{"conformance/cuda/run", "conformance/cuda/beside.py", "conformance/cuda/checkpoints.py",
	"models/testdata/golden", "models/demo/checkpoint"}

// command returns what runs the report's script over a fake device, with what is carried to a machine without Go.
func command(t *testing.T) (d *fake.Device, run func(flags ...string) (string, error)) {
	t.Helper()
	d, library := fake.Install(t)
	tree, path := t.TempDir(), t.TempDir()
	link := func(from, to string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Symlink(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range carried {
		link(filepath.Join(root, file), filepath.Join(tree, file))
	}
	link(live.Program(t), filepath.Join(tree, "bin", "tgi"))
	build := exec.Command("go", "build", "-o", filepath.Join(tree, "bin", "cuda-report"), "./cmd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tool := range []string{"bash", "dirname"} {
		from, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		link(from, filepath.Join(path, tool))
	}
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return d, func(flags ...string) (string, error) {
		flags = append([]string{"--dry-run", "--python", strings.TrimSpace(string(python))}, flags...)
		cmd := exec.CommandContext(t.Context(), filepath.Join(tree, "conformance/cuda/run"), flags...)
		cmd.Env = append(os.Environ(), "TGI_ORT_LIB="+library, "PATH="+path)
		out, err := cmd.CombinedOutput()
		if err == nil {
			written, read := os.ReadFile(filepath.Join(tree, "bin/cuda-report.md"))
			if read != nil || !strings.Contains(string(out), string(written)) {
				t.Errorf("the file has another report: %v", read)
			}
		}
		return string(out), err
	}
}

// TestDryRun goes through the whole report over a CUDA runtime that computes nothing.
func TestDryRun(t *testing.T) {
	d, run := command(t)
	text, err := run()
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	ways := len(sameWay) + 2
	if got := strings.Count(text, "| not judged |"); got != 3*2*ways+2+3+2+2*3 {
		t.Errorf("%d comparisons\n%s", got, text)
	}
	for _, want := range []string{
		"Fake H200", "limit of its memory: 4917 GB/s, by the clock", // device
		"rows with eight adapters and none, each alone", "no row | half of the rows", // adapters
		"CUDA graphs", "200 of 200 reductions", "After 3 opens and closes 0 MiB",
		// server
		"- the device is the GPU: ", "- greedy texts: ", "- 64 requests with and without grammars at once: ",
		"- plugins: ", "- beams, best_of and n: ", "- prefix sharing: ", "- clients that go away: ", "- metrics: ",
		"- a cache of a few blocks: ", `- the signal "interrupt" while it streams: `,
		`- the signal "terminated" while it streams: `, "it ended with code 0",
		"int4: fpA_intB kernels used: ok", // int4
		// speed
		"| decode, graph | 4 |", "| decode, eager | 4 |", "| decode, graph, default kernels | 4 |",
		"| first token of 16 | 1 |",
		"### tgi-demo in int4", // load
		"PyTorch", "vLLM",      // beside
		"## Summary", "0 failed, 0 cut",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing\n%s", want, text)
		}
	}
	if c := d.Counters(); c.Live != 0 || c.GraphLaunches == 0 {
		t.Errorf("left over: %+v", c)
	}
}

// TestZerosFail: a device that computes nothing does not pass where numbers are judged, and each part goes on where the
// one before failed.
func TestZerosFail(t *testing.T) {
	_, run := command(t)
	golden := t.TempDir()
	for _, name := range []string{"llama3", "qwen3"} {
		from, err := filepath.Abs("../../../models/testdata/golden/" + name)
		if err == nil {
			err = os.Symlink(from, filepath.Join(golden, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	demo, err := filepath.Abs("../../../models/demo/checkpoint") // its context is short
	if err != nil {
		t.Fatal(err)
	}
	text, err := run("--dry-run=false", "--parts", "device,logits,server,int4,context", "--golden", golden,
		"--long", demo)
	if err == nil {
		t.Error("it passes")
	}
	for _, want := range []string{
		"FAILED llama3 in bf16 against the CPU in 32 bits", "FAILED tgi-demo in int8 against the CPU in 32 bits",
		"FAILED server: greedy texts: 0 of 12", "FAILED int4, fpA_intB to the CPU in 32 bits",
		"FAILED tgi-demo in bf16 against the CPU in 32 bits: 3001 tokens",
		"FAILED checkpoint in bf16 against the CPU in 32 bits: 42 tokens", // the context
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing\n%s", want, text)
		}
	}
}
