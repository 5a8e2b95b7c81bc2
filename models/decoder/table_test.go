package decoder

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"tgi/models"
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
		goldens        []string
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
	var text strings.Builder
	text.WriteString("| class | CUDA | adapters | reference data |\n|---|---|---|---|\n")
	mark := map[bool]string{true: "yes", false: "no"}
	for _, class := range slices.Sorted(maps.Keys(rows)) {
		r := rows[class]
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", class, mark[r.cuda], mark[r.adapters],
			strings.Join(r.goldens, ", "))
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
