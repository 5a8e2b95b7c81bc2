package decoder

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/synth"
	"tgi/runtime/llm"
)

// resident returns the memory of the process of its own, and that of files that it has mapped.
func resident(t *testing.T) (own, files int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int
		name, value, _ := strings.Cut(line, ":")
		_, _ = fmt.Sscan(value, &kilobytes)
		switch name {
		case "RssAnon":
			own += kilobytes
		case "RssFile", "RssShmem": // of a file system in memory
			files += kilobytes
		}
	}
	return own << 10, files << 10
}

// TestWeightsAreMapped: quantised weights are read where the file is mapped, once, however many sessions have them.
func TestWeightsAreMapped(t *testing.T) {
	dir := t.TempDir()
	if err := synth.WriteLayers(dir, "smollm2-135m", 1, 6); err != nil {
		t.Fatal(err)
	}
	ck, err := hf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, path := buildTo(t, ck, Options{Weights: models.Int8})
	startRuntime(t)
	debug.FreeOSMemory() // what building took would hide what opening takes
	own, files := resident(t)
	m := runModel(t, r, path, 8)
	m.feed([]*sequence{{}}, [][]llm.Token{{1, 2, 3}})
	ownAfter, filesAfter := resident(t)
	weights := int(r.DataBytes)
	if got := ownAfter - own; got > weights/3 {
		t.Errorf("%d bytes of memory were taken for %d of weights", got, weights)
	}
	if got := filesAfter - files; got < weights*9/10 || got > weights*3/2 {
		t.Errorf("%d bytes of files are mapped, the weights have %d", got, weights)
	}
}
