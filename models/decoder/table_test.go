package decoder

import (
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

// TestTable: the documentation lists every class that is supported, each has reference data, and what it says of
// devices and adapters is what is built.
func TestTable(t *testing.T) {
	type row struct {
		goldens, gguf  []string
		cuda, adapters bool
	}
	rows := map[string]row{}
	for _, name := range goldenNames(t) {
		ck, _ := readGolden(t, name)
		target, err := newTarget(models.CPU, models.FP32, ck.Config)
		if err != nil {
			t.Fatal(err)
		}
		r := rows[ck.Config.Architecture]
		r.goldens = append(r.goldens, name)
		r.cuda = r.cuda || cpuOnly(&ck.Config) == ""
		r.adapters = r.adapters || target.adapters
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
