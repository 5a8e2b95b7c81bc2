// Package docs holds the documentation to the program: links lead somewhere,
// commands run, replies are those that pages show, settings load, plugins build.
//
// The word behind the language of a fenced block says what happens to it:
//
//	sh            bash runs it, in one folder for all pages that looks like the root of the tree.
//	              curl reaches one started server; `tgi serve` becomes `tgi check`, which starts and does not listen
//	sh parse      it is not run: it takes the network, or a person. Its targets, subcommands and flags exist
//	sh retry      it is run until it succeeds, for what takes effect within seconds
//	sh long       it is run where TGI_LONG is set
//	LANG file=F   the block is written to the file F of that folder
//	json          behind a block that runs: its output has these members; "..." is anything. Else it is JSON
//	toml          a settings file that loads
//	go, c         a plugin, or a part of one, that compiles; rust and ts as well, where TGI_LONG is set
//	python        parsed where python3 is, and run by `make clients`
//	text, mermaid shown only
package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// page is a Markdown file of the tree.
type page struct {
	path   string // slash-separated, from the root
	text   string
	blocks []block
}

// block is a fenced block of a page.
type block struct {
	lang string
	mode string // the word behind the language that is no file
	file string
	text string
	line int // where it begins
}

// handbook reports whether a page is part of the handbook, whose commands this package runs. The pages of
// the examples are run by the examples.
func (p page) handbook() bool {
	return !strings.Contains(p.path, "/") || strings.HasPrefix(p.path, "docs/")
}

// pages returns every Markdown file that belongs to the tree.
func pages(t *testing.T) []page {
	t.Helper()
	var out []page
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" ||
			d.Name() == "bin" || d.Name() == "target"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md" || strings.Contains(path, "/testdata/") ||
			strings.Contains(path, "/templates/"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		out = append(out, page{filepath.ToSlash(rel), string(b), blocks(string(b))})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d pages found: the tests checked next to nothing", len(out))
	}
	return out
}

// blocks returns the fenced blocks of a page.
func blocks(text string) (out []block) {
	var b *block
	for i, line := range strings.Split(text, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case !fence && b != nil:
			b.text += line + "\n"
		case fence && b != nil:
			out = append(out, *b)
			b = nil
		case fence:
			b = &block{line: i + 2}
			for j, word := range strings.Fields(info) {
				switch file, ok := strings.CutPrefix(word, "file="); {
				case j == 0:
					b.lang = word
				case ok:
					b.file = file
				default:
					b.mode = word
				}
			}
		}
	}
	return out
}

// prose returns the lines of a page that are outside of fenced blocks; the others are empty.
func prose(text string) []string {
	lines, inside := strings.Split(text, "\n"), false
	for i, line := range lines {
		fence := strings.HasPrefix(line, "```")
		if fence || inside {
			lines[i] = ""
		}
		inside = inside != fence
	}
	return lines
}

// TestBlocks: every block says what it is, in words that the tests know.
func TestBlocks(t *testing.T) {
	known := map[string]bool{"sh": true, "sh parse": true, "sh retry": true, "sh long": true, "json": true,
		"json long": true, "toml": true,
		"go": true, "c": true, "python": true, "rust": true, "ts": true, "jinja": true, "ini": true, "text": true,
		"mermaid": true}
	for _, p := range pages(t) {
		if strings.Count("\n"+p.text, "\n```")%2 != 0 {
			t.Errorf("%s has a fenced block without an end", p.path)
		}
		for _, b := range p.blocks {
			if kind := strings.TrimSpace(b.lang + " " + b.mode); p.handbook() && !known[kind] {
				t.Errorf("%s:%d: a block of %q is none that the tests know", p.path, b.line, kind)
			}
		}
		for i, line := range prose(p.text) {
			if p.handbook() && strings.HasPrefix(line, "    ") {
				t.Errorf("%s:%d: an indented block is none that the tests see: fence it", p.path, i+1)
			}
		}
	}
}
