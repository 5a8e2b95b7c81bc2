package conformance

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns bounds a line of Go, a tab counted as four.
const maxColumns = 120

var aligning = regexp.MustCompile(`  +`)

// TestTreeLines: two files fit side by side on a screen. A line may be longer where it holds a literal of more than 40
// characters, which says more in one piece, or text that stands as it is: directives and indented comments. Spaces by
// which gofmt aligns columns do not count.
func TestTreeLines(t *testing.T) {
	for _, s := range tree(t) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(s.path)))
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(s.file) {
			continue
		}
		var whole map[int]bool
		for i, line := range strings.Split(string(text), "\n") {
			columns := utf8.RuneCountInString(aligning.ReplaceAllString(line, " ")) + 3*strings.Count(line, "\t")
			trimmed := strings.TrimLeft(line, "\t")
			if columns <= maxColumns || strings.HasPrefix(trimmed, "//go:") || strings.HasPrefix(trimmed, "//\t") {
				continue
			}
			if whole == nil {
				whole = literalLines(text)
			}
			if !whole[i+1] {
				t.Errorf("%s:%d has %d columns, more than %d: two files should fit side by side", s.path, i+1, columns, maxColumns)
			}
		}
	}
}

// literalLines are the lines that long string literals lie on.
func literalLines(text []byte) map[int]bool {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var sc scanner.Scanner
	sc.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := sc.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok != token.STRING || utf8.RuneCountInString(literal) <= 40 {
			continue
		}
		first := file.Line(pos)
		for i := range 1 + strings.Count(literal, "\n") {
			lines[first+i] = true
		}
	}
}
