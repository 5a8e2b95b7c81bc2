package decoder

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/gguf"
	"tgi/models/hf"
)

var updateTable = flag.Bool("update-table", false, "write the table of architectures to docs/models.md")

// page is the documentation's page that lists what runs.
const page = "../../docs/models.md"

// Lines around the table that this test holds true.
const (
	tableBegins = "<!-- table of architectures: go test ./models/decoder -run TestTable -update-table -->\n"
	tableEnds   = "<!-- end of the table -->\n"
)

// adapterGoldens names the classes whose adapters are compared with Python's peft, by package lora.
func adapterGoldens(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../testdata/adapters/*/golden.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no adapters", err)
	}
	classes := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var g struct{ Checkpoint string }
		if err := json.Unmarshal(data, &g); err != nil {
			t.Fatal(err)
		}
		ck, err := hf.Describe(filepath.Join(goldenDir, g.Checkpoint))
		if err != nil {
			t.Fatal(err)
		}
		classes[ck.Config.Architecture] = true
	}
	return classes
}

// TestTable: the documentation lists every class that is supported, each has reference data, and what it says of
// devices and adapters is what is built. Classes that take adapters have reference data for them.
func TestTable(t *testing.T) {
	type row struct {
		goldens, gguf  []string
		cuda, adapters bool
	}
	rows, adapted := map[string]row{}, adapterGoldens(t)
	for _, name := range goldenNames(t) {
		ck, _ := readGolden(t, name)
		target, err := newTarget(models.CPU, models.FP32, ck.Config)
		if err != nil {
			t.Fatal(err)
		}
		r := rows[ck.Config.Architecture]
		r.goldens = append(r.goldens, name)
		r.cuda = r.cuda || cpuOnly(&ck.Config) == ""
		r.adapters = adapted[ck.Config.Architecture]
		if target.adapters && !r.adapters {
			t.Errorf("%s takes adapters, but none is compared with peft: see CASES of make_adapter_goldens.py",
				ck.Config.Architecture)
		}
		rows[ck.Config.Architecture] = r
	}
	read := map[string]bool{}
	for _, name := range ggufNames(t) {
		f, err := gguf.Open(os.DirFS(filepath.Join(ggufDir, name)), "model.gguf")
		if err != nil {
			t.Fatal(err)
		}
		arch, err := f.String("general.architecture")
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ck, _ := readGGUF(t, name)
		r := rows[ck.Config.Architecture]
		if read[arch] = true; !slices.Contains(r.gguf, arch) {
			r.gguf = append(r.gguf, arch)
			rows[ck.Config.Architecture] = r
		}
	}
	for _, arch := range hf.GGUFArchitectures() {
		if !read[arch] {
			t.Errorf("there is no reference data for %s in the GGUF format", arch)
		}
	}
	var text strings.Builder
	text.WriteString("| class | CUDA | adapters | in GGUF | reference data |\n|---|---|---|---|---|\n")
	mark := map[bool]string{true: "yes", false: "no"}
	for _, class := range slices.Sorted(maps.Keys(rows)) {
		r := rows[class]
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s | %s |\n", class, mark[r.cuda], mark[r.adapters],
			strings.Join(r.gguf, ", "), strings.Join(r.goldens, ", "))
	}
	for _, class := range hf.Architectures() {
		if _, ok := rows[class]; !ok && !strings.HasSuffix(class, "ForConditionalGeneration") { // see testdata/vision
			t.Errorf("%s has no reference data", class)
		}
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), tableBegins)
	old, after, ends := strings.Cut(rest, tableEnds)
	if !ok || !ends {
		t.Fatalf("%s has no table between %q and %q", page, tableBegins, tableEnds)
	}
	if old == text.String() {
		return
	}
	if !*updateTable {
		t.Fatalf("%s lists other architectures than are built; run go test ./models/decoder -run TestTable -update-table",
			page)
	}
	if err := os.WriteFile(page, []byte(before+tableBegins+text.String()+tableEnds+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
