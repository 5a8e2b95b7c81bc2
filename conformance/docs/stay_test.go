package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tgi/plugins/check"
	"tgi/plugins/std"
	"tgi/sdk/abi"
	"tgi/server/config"
)

// TestBlocksStay: blocks of the handbook leave the shell in the folder in which they found it, so that a reader can
// paste one after the other.
func TestBlocksStay(t *testing.T) {
	leaves := regexp.MustCompile(`(?m)^\s*(cd|pushd)\s`)
	blocks := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if !p.handbook() || b.lang != "sh" {
				continue
			}
			blocks++
			if at := leaves.FindString(b.text); at != "" {
				t.Errorf("%s:%d leaves the folder: write (cd DIR && COMMAND)", p.path, b.line)
			}
		}
	}
	if blocks < 40 {
		t.Errorf("%d blocks were looked at", blocks)
	}
}

// TestLimitsByKind: the default settings say which kinds of plugins have other limits than the others.
func TestLimitsByKind(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "tgi.toml"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\n# +# `).ReplaceAllString(string(b), " ")
	for kind, name := range map[string]string{
		abi.KindTemplate: "jinja", abi.KindTools: "toolcalls", abi.KindGrammar: "grammar",
	} {
		wasm, err := fs.ReadFile(std.FS(), name+".wasm")
		if err != nil {
			t.Fatal(err)
		}
		l, err := check.LimitsOf(wasm, check.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{
			"memory":           config.Size(l.Memory).String(),
			"fuel_per_request": strings.Replace(fmt.Sprintf("%.0e", float64(l.FuelPerRequest)), "e+0", "e", 1),
		} {
			line := regexp.MustCompile(`(?m)^# ` + key + ` = .*$`).FindString(text)
			if !regexp.MustCompile(`kinds? [^;]*\b` + kind + `\b[^;0-9]* ` + value).MatchString(line) {
				t.Errorf("tgi.toml: %s of kind %s is %s by default, and the comment is %q", key, kind, value, line)
			}
		}
	}
}
