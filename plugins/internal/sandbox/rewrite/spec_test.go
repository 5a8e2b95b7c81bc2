package rewrite_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"tgi/conformance/long"
)

// The WebAssembly specification's own tests for core 2.0, as wast2json output, travel with the engine's module. They
// are read from the module cache, so nothing of them is kept here.
func specFolder(t *testing.T) string {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Skip("the engine's module can't be found: ", err)
	}
	root := filepath.Join(strings.TrimSpace(string(dir)), "internal", "integration_test", "spectest")
	if _, err := os.Stat(root); err != nil {
		t.Skip("the engine's module is here without its tests")
	}
	return root
}

type specCommand struct {
	Type       string
	Line       int
	Name       string
	Filename   string
	As         string
	ModuleType string `json:"module_type"`
	Action     struct {
		Type   string
		Field  string
		Module string
		Args   []specValue
	}
}

type specValue struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    any
}

// TestSpecification runs every command of the suite in both worlds and compares what they give. What the suite expects
// is the engine's own business; that the rewritten module does the same is ours.
func TestSpecification(t *testing.T) {
	root := specFolder(t)
	host, err := os.ReadFile(filepath.Join(root, "testdata", "spectest.wasm"))
	if err != nil {
		t.Skip(err)
	}
	files, _ := filepath.Glob(filepath.Join(root, "v2", "testdata", "*.json"))
	if len(files) < 100 {
		t.Fatalf("%d files of the suite found", len(files))
	}
	calls, modules := 0, 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			if strings.HasPrefix(filepath.Base(file), "simd_") {
				long.Test(t)
			}
			c, m := runSpec(t, file, host)
			calls += c
			modules += m
		})
	}
	t.Logf("%d calls and %d modules compared", calls, modules)
}

func runSpec(t *testing.T, file string, host []byte) (calls, modules int) {
	var suite struct{ Commands []specCommand }
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &suite); err != nil {
		t.Fatal(err)
	}
	worlds := [2]*world{newWorld(t, false), newWorld(t, true)}
	named := [2]map[string]api.Module{{}, {}}
	var last [2]api.Module
	load := func(name, filename string) (errs [2]error) {
		bin, err := os.ReadFile(filepath.Join(filepath.Dir(file), filename))
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range worlds {
			var m api.Module
			if m, errs[i] = w.load(name, bin); errs[i] == nil {
				last[i] = m
			}
		}
		modules++
		return errs
	}
	for _, w := range worlds {
		if _, err := w.load("spectest", host); err != nil {
			t.Fatal(err)
		}
	}
	for at, c := range suite.Commands {
		where := fmt.Sprintf("line %d: %s %s", c.Line, c.Type, c.Action.Field)
		switch c.Type {
		case "module":
			name := c.Name
			if next := at + 1; next < len(suite.Commands) && suite.Commands[next].Type == "register" {
				name = suite.Commands[next].As
			}
			errs := load(name, c.Filename)
			if errs[0] != nil || errs[1] != nil {
				t.Fatalf("%s: %v, rewritten %v", where, errs[0], errs[1])
			}
			if c.Name != "" {
				named[0][c.Name], named[1][c.Name] = last[0], last[1]
			}
		case "action", "assert_return", "assert_trap", "assert_exhaustion":
			var got [2]outcome
			mods := last
			if c.Action.Module != "" {
				mods = [2]api.Module{named[0][c.Action.Module], named[1][c.Action.Module]}
			}
			for i, w := range worlds {
				if c.Action.Type == "get" {
					g := mods[i].ExportedGlobal(c.Action.Field)
					got[i] = outcome{values: []uint64{g.Get()}, types: []api.ValueType{g.Type()}}
				} else {
					got[i] = w.call(mods[i], c.Action.Field, arguments(c.Action.Args)...)
				}
			}
			if err := same(got[0], got[1]); err != nil {
				t.Errorf("%s: %v", where, err)
			}
			if err := sameMemory(mods[0], mods[1]); err != nil {
				t.Errorf("%s: %v", where, err)
			}
			calls++
		case "assert_malformed", "assert_invalid", "assert_unlinkable", "assert_uninstantiable":
			if c.ModuleType == "text" {
				continue
			}
			keep := last
			errs := load("", c.Filename)
			last = keep
			if (errs[0] == nil) != (errs[1] == nil) {
				t.Errorf("%s: %v, rewritten %v", where, errs[0], errs[1])
			}
		case "register":
		default:
			t.Fatalf("%s: unknown command", where)
		}
	}
	return calls, modules
}

func arguments(list []specValue) (out []uint64) {
	for _, v := range list {
		if v.Type != "v128" {
			s, _ := v.Value.(string)
			out = append(out, number(s, v.Type))
			continue
		}
		width := map[string]int{"i8": 8, "i16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}[v.LaneType]
		var lanes [2]uint64
		for i, x := range v.Value.([]any) {
			lanes[i*width/64] |= number(x.(string), v.LaneType) << (i * width % 64)
		}
		out = append(out, lanes[:]...)
	}
	return out
}

func number(s, kind string) uint64 {
	switch {
	case s == "null":
		return 0
	case strings.HasPrefix(s, "nan") && strings.HasSuffix(kind, "32"):
		return 0x7fc00000
	case strings.HasPrefix(s, "nan"):
		return 0x7ff8000000000000
	}
	n, _ := strconv.ParseUint(s, 10, 64)
	if kind == "externref" {
		n++ // zero is null
	}
	return n
}
