package docs

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ (.*)$`)
	quoted  = regexp.MustCompile("`[^`]*`")
)

// TestLinks: a link between pages leads to a file of the tree, and behind # to a heading of it.
func TestLinks(t *testing.T) {
	for _, p := range pages(t) {
		for i, line := range prose(p.text) {
			for _, m := range link.FindAllStringSubmatch(quoted.ReplaceAllString(line, ""), -1) {
				if why := broken(p.path, m[1]); why != "" {
					t.Errorf("%s:%d: %s: %s", p.path, i+1, m[1], why)
				}
			}
		}
	}
}

// broken says why a link of a page is none; empty is a good one. Other hosts are not asked.
func broken(from, link string) string {
	if strings.Contains(link, "://") {
		return ""
	}
	file, anchor, _ := strings.Cut(link, "#")
	if file == "" {
		file = path.Base(from)
	}
	at := filepath.Join(root, path.Join(path.Dir(from), file))
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return "there is no such file"
	case anchor == "":
		return ""
	case info.IsDir():
		return "a folder has no headings"
	}
	b, err := os.ReadFile(at)
	if err != nil {
		return err.Error()
	}
	for _, line := range prose(string(b)) {
		if m := heading.FindStringSubmatch(line); m != nil && slug(m[1]) == anchor {
			return ""
		}
	}
	return "no heading of the page has this anchor"
}

// slug is the anchor that GitHub gives a heading.
func slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

func TestSlug(t *testing.T) {
	if got := slug("Why does `best_of` take N permits?"); got != "why-does-best_of-take-n-permits" {
		t.Error(got)
	}
}

// foreign are texts that no page has: the product speaks of itself alone.
var foreign = regexp.MustCompile(`(?:^|[^\w.}*-])/(?:root|work|workspace|Users)/|registry\.npmjs|pypi\.org|proxy\.golang|crates\.io|issue #?\d`)

// TestLines: a line has 120 characters at most, where it can be wrapped (a row of a table and a reply can't), and
// speaks of nothing foreign.
func TestLines(t *testing.T) {
	for _, p := range pages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			if n := utf8.RuneCountInString(line); n > 120 && line[0] != '|' && !strings.HasPrefix(line, "{\"") &&
				!strings.HasPrefix(line, "    ") {
				t.Errorf("%s:%d has %d characters, want 120 at most", p.path, i+1, n)
			}
			if m := foreign.FindString(line); m != "" {
				t.Errorf("%s:%d: %q has no place in a page", p.path, i+1, m)
			}
		}
	}
}

// TestRationale: the packages that a page of the rationale explains point to it, and what they point to is there.
func TestRationale(t *testing.T) {
	named, pointer := map[string]bool{}, regexp.MustCompile(`docs/rationale/[a-z-]+\.md`)
	walkGo(t, func(path, text string) {
		for _, name := range pointer.FindAllString(text, -1) {
			if named[name] = true; broken("README.md", name) != "" {
				t.Errorf("%s points to %s, which is not there", path, name)
			}
		}
	})
	index, err := os.ReadFile(filepath.Join(root, "RATIONALE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		if path.Dir(p.path) != "docs/rationale" {
			continue
		}
		if !strings.Contains(string(index), "("+p.path+")") {
			t.Errorf("RATIONALE.md does not list %s", p.path)
		}
		if !named[p.path] && path.Base(p.path) != "dependencies.md" { // which explains go.mod
			t.Errorf("no package comment points to %s", p.path)
		}
		for i, line := range strings.Split(p.text, "\n") {
			if strings.HasPrefix(line, "### ") && !strings.HasSuffix(line, "?") {
				t.Errorf("%s:%d: a title of the rationale is a question", p.path, i+1)
			}
		}
	}
}

// TestDependencies: the rationale says why each direct dependency is there, and names no other.
func TestDependencies(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/rationale/dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) {
		direct[m[1]] = true
		if !strings.Contains(string(page), "`"+m[1]+"`") {
			t.Errorf("docs/rationale/dependencies.md does not say why there is %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z.]+\\.[a-z]+/[^`]+)`").FindAllStringSubmatch(string(page), -1) {
		if !direct[m[1]] && m[1] != "golang.org/x/net/websocket" { // which is named as the road not taken
			t.Errorf("docs/rationale/dependencies.md names %s, which go.mod does not require", m[1])
		}
	}
}

// TestArchitecture: what the page of the architecture names is in the code: a file, and behind it in brackets a
// function.
func TestArchitecture(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	// `runtime/sched/plan.go` (`Plan`, `decode`)
	place := regexp.MustCompile("`([a-z][\\w/.-]*\\.(?:go|c|rs))`(?: \\(((?:`\\w+`(?:, )?)+)\\))?")
	found := place.FindAllStringSubmatch(string(b), -1)
	if len(found) < 20 {
		t.Errorf("only %d places are named", len(found))
	}
	for _, m := range found {
		text, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			t.Errorf("%s is not there", m[1])
			continue
		}
		for name := range strings.SplitSeq(strings.ReplaceAll(m[2], "`", ""), ", ") {
			if name != "" && !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |var |\t)`+name+`\b`).Match(text) {
				t.Errorf("%s has no %s", m[1], name)
			}
		}
	}
	folder := regexp.MustCompile("`((?:server|runtime|plugins|models|sdk|conformance|examples|docs)/[\\w/-]+)`")
	for _, m := range folder.FindAllStringSubmatch(string(b), -1) {
		if info, err := os.Stat(filepath.Join(root, m[1])); err != nil || !info.IsDir() {
			t.Errorf("there is no folder %s", m[1])
		}
	}
}

// walkGo hands the Go files of the tree that are no tests to each.
func walkGo(t *testing.T, each func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" ||
			d.Name() == "bin" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(p) != ".go" || strings.HasSuffix(p, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(p)
		if err == nil {
			each(p, string(b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// parses reports why Go source is none.
func parses(text string) error {
	_, err := parser.ParseFile(token.NewFileSet(), "snippet.go", text, 0)
	return err
}
