package check_test

import (
	"debug/elf"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRelease makes the archives twice, in folders of other names and with empty caches of the compiler, and compares
// them byte by byte; what comes out of one serves by itself.
func TestRelease(t *testing.T) {
	var sums [2]string
	var made string
	for i, name := range []string{"a", "another-folder"} {
		tree := filepath.Join(t.TempDir(), name)
		clone(t, tree)
		var env []string
		if i > 0 {
			env = append(env, "GOCACHE="+t.TempDir())
		}
		made = release(t, tree, env, "amd64", "arm64")
		text, err := os.ReadFile(filepath.Join(made, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ:\n%s\n%s", sums[0], sums[1])
	}
	for _, c := range []struct {
		arch    string
		machine elf.Machine
	}{{"amd64", elf.EM_X86_64}, {"arm64", elf.EM_AARCH64}} {
		name := "tgi-v1.2.3-linux-" + c.arch
		passes(t, "tar", "xzf", filepath.Join(made, name+".tar.gz"), "-C", made)
		for _, file := range []string{"tgi", "libonnxruntime.so"} {
			f, err := elf.Open(filepath.Join(made, name, file))
			if err != nil {
				t.Error(err)
				continue
			}
			if f.Machine != c.machine {
				t.Errorf("%s of %s is for %s", file, name, f.Machine)
			}
			f.Close()
		}
		for _, file := range []string{"LICENSE", "README.md", "tgi.toml", "docs/operations.md", "completions/tgi.bash",
			"completions/tgi.zsh", "completions/tgi.fish", "onnxruntime-LICENSE", "onnxruntime-ThirdPartyNotices.txt",
			"modules-LICENSES", "examples/deploy/tgi.service", "examples/deploy/chart/Chart.yaml",
			"examples/deploy/Containerfile", "examples/scale-out/haproxy.cfg", "sdk/go/plugin/plugin.go"} {
			if info, err := os.Stat(filepath.Join(made, name, file)); err != nil || info.Size() == 0 {
				t.Errorf("%s lacks %s: %v", name, file, err)
			}
		}
		bill(t, filepath.Join(made, name+".cdx.json"))
		licences(t, filepath.Join(made, name, "modules-LICENSES"))
		links(t, filepath.Join(made, name))
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--quiet", "SHA256SUMS")
	check.Dir = made
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	run := filepath.Join(made, "tgi-v1.2.3-linux-"+strings.TrimSpace(passes(t, "go", "env", "GOHOSTARCH")), "bin",
		"tgi") // as the pages have it
	if out := passes(t, run, "version"); !strings.Contains(out, "v1.2.3") {
		t.Errorf("it is %s", out)
	}
	start := exec.CommandContext(t.Context(), run, "check")
	start.Dir = t.TempDir()
	start.Env = []string{"HOME=" + t.TempDir()} // no library but the one beside it
	if out, err := start.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// release makes archives of a tree for processors, and returns the folder that they are in.
func release(t *testing.T, tree string, env []string, arch ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "examples/deploy/release", append([]string{"v1.2.3"}, arch...)...)
	cmd.Dir = tree
	cmd.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(tree, "bin", "release")
}

// clone copies what is tracked, as it is now, into a folder.
func clone(t *testing.T, into string) {
	t.Helper()
	list := passes(t, "git", "-C", root, "ls-files", "-z")
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		from, to := filepath.Join(root, name), filepath.Join(into, name)
		info, err := os.Stat(from)
		if err != nil {
			continue // removed, and not yet committed
		}
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, text, info.Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// bill checks that a bill of materials names what is linked and loaded, with versions and licences.
func bill(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if b.BOMFormat != "CycloneDX" || b.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("%s is %s of %s", file, b.BOMFormat, b.Metadata.Component.Version)
	}
	named := map[string]bool{}
	for _, c := range b.Components {
		named[c.Name] = c.Version != "" && c.PURL != ""
	}
	for _, want := range []string{"github.com/tetratelabs/wazero", "github.com/yalue/onnxruntime_go", "onnxruntime",
		"marked", "json-schema", "std"} {
		if !named[want] {
			t.Errorf("%s does not name %s with its version", file, want)
		}
	}
}

// licences checks that the licences of what is linked and embedded are there.
func licences(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n==== github.com/tetratelabs/wazero v", "\n==== github.com/yalue/onnxruntime_go v",
		"==== Go go1.", "Copyright 2009 The Go Authors", "\n==== marked 1", "Christopher Jeffrey",
		"\n==== @cfworker/json-schema 4", "Jeremy Danyow"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q", file, want)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s#]+)(?:#[^)\s]*)?\)`)

// code is what of a page has no links.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

// links checks that the pages of an archive link to what is in it.
func links(t *testing.T, folder string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(folder, func(page string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(page, ".md") {
			return err
		}
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			n++
			to := filepath.Join(filepath.Dir(page), filepath.FromSlash(m[1]))
			info, err := os.Stat(to)
			if err != nil || !strings.HasPrefix(to, folder) {
				t.Errorf("%s links to %s, which the archive lacks", strings.TrimPrefix(page, folder), m[1])
			} else if of := filepath.Join(root, strings.TrimPrefix(to, folder)); info.IsDir() &&
				!hasFile(t, to) && hasFile(t, of) {
				t.Errorf("%s links to %s, of whose files the archive has none", strings.TrimPrefix(page, folder), m[1])
			}
		}
		return nil
	})
	if err != nil || n < 200 {
		t.Errorf("%d links, %v", n, err)
	}
}

// hasFile reports whether a folder has a file, beside other folders.
func hasFile(t *testing.T, folder string) bool {
	t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(d fs.DirEntry) bool { return d.Type().IsRegular() })
}
