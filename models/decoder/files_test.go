package decoder

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"tgi/models"
)

var update = flag.Bool("update", false, "write the checksums of the files that are built now")

// sumsFile holds the checksums of what each golden checkpoint is built to. Change it together with the device's version
// alone: all users convert their models again then, and without it they keep the files of the old graph.
const sumsFile = "testdata/sums.txt"

// TestFilesStayTheSame: the same checkpoint gives the same files, byte for byte.
func TestFilesStayTheSame(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors round the rotary tables' products differently")
	}
	var out strings.Builder
	for _, name := range goldenNames(t) {
		ck, _ := readGolden(t, name)
		for _, w := range []models.Weights{models.FP32, models.Int8, models.Int4} {
			var data bytes.Buffer
			r, err := Build(ck, &data, Options{Weights: w})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %s %s graph %x data %x\n", name, models.CPU, w, sha256.Sum256(r.Model),
				sha256.Sum256(data.Bytes()))
		}
	}
	if *update {
		if err := os.WriteFile(sumsFile, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(sumsFile)
	if err != nil {
		t.Fatal(err)
	}
	was := strings.Split(string(want), "\n")
	for i, line := range strings.Split(out.String(), "\n") {
		if i >= len(was) || line != was[i] {
			t.Errorf("built\n %s\nwas\n %s", line, strings.Join(was[min(i, len(was)):min(i+1, len(was))], ""))
		}
	}
}
