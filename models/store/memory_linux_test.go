package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tgi/models"
	"tgi/models/synth"
)

// The environment of the process that converts for TestConversionMemory: the checkpoint and the cache. By hand, with
// TGI_CONVERT alone:
//
//	TGI_CONVERT=FOLDER go test ./models/store -run TestConversionMemory -v -timeout 0
const (
	convertFrom = "TGI_CONVERT"
	convertTo   = "TGI_CONVERT_TO"
)

// conversion is what that process reports, sizes in bytes.
type conversion struct {
	// Peak is the most memory that the process held, mapped files among it, Before that before it converted.
	Peak, Before, Result int64
}

// TestConversionMemory: to convert a mixture of experts in several files takes at most the memory of one file more than
// a process that does nothing.
func TestConversionMemory(t *testing.T) {
	if to := os.Getenv(convertTo); to != "" {
		convertHere(t, os.Getenv(convertFrom), to)
		return
	}
	from, shard := os.Getenv(convertFrom), int64(48<<20)
	if from == "" {
		from = filepath.Join(t.TempDir(), "mixture")
		if err := synth.WriteSmallMixture(from, 40, shard); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(from, "*.safetensors"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	var total int64
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total, shard = total+st.Size(), max(shard, st.Size())
	}
	start := time.Now()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestConversionMemory$", "-test.timeout", "0")
	cmd.Env = append(os.Environ(), convertFrom+"="+from, convertTo+"="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	var c conversion
	if err := json.Unmarshal([]byte(line), &c); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d files of %d MB to %d MB in %v: %d MB at most, %d MB before", len(files), total>>20, c.Result>>20,
		time.Since(start).Round(time.Second), c.Peak>>20, c.Before>>20)
	if used := c.Peak - c.Before; used > shard+64<<20 {
		t.Errorf("the conversion took %d MB, the largest of %d files has %d MB", used>>20, len(files), shard>>20)
	}
}

func convertHere(t *testing.T, from, to string) {
	c := conversion{Before: status(t, "VmRSS")}
	b, err := Prepare(context.Background(), from, Options{Weights: models.Int4, Dir: to})
	if err != nil {
		t.Fatal(err)
	}
	c.Peak, c.Result = status(t, "VmHWM"), b.WeightBytes
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(text))
}

// status reads a size from the kernel's account of this process, in bytes.
func status(t *testing.T, key string) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == key+":" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s", key)
	return 0
}
