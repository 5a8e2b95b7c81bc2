package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	wheelPath = "onnxruntime/capi/lib.so"
	npmPath   = "package/bin/lib.so"
)

var wheelLibrary, npmLibrary = bytes.Repeat([]byte("wheel "), 1000), bytes.Repeat([]byte("npm "), 1000)

func pinned(path string, body []byte) pin {
	sum := sha256.Sum256(body)
	return pin{path, int64(len(body)), hex.EncodeToString(sum[:])}
}

func zipped(t *testing.T, name string, body []byte) []byte {
	return zippedAll(t, map[string][]byte{"other/file": []byte("x"), name: body})
}

func zippedAll(t *testing.T, files map[string][]byte) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for n, data := range files {
		w, err := z.Create(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t *testing.T, name string, body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range []struct {
		name string
		body []byte
	}{{"package/README", []byte("x")}, {name, body}} {
		err := w.WriteHeader(&tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(e.body))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// clientScript is what the fake pip and npm do: leave a file, or fail.
type clientScript map[string]struct {
	file string
	body []byte
	err  error
}

// fake is a fetcher into a temporary folder whose clients follow a script.
func fake(t *testing.T, script clientScript) (f *fetcher, log *strings.Builder, ran *[]string) {
	log, ran = &strings.Builder{}, &[]string{}
	f = &fetcher{
		platform: platform{tag: "any", wheel: pinned(wheelPath, wheelLibrary), npm: pinned(npmPath, npmLibrary)},
		dest:     filepath.Join(t.TempDir(), "deep", "lib.so"),
		log:      newProgress(log, false),
		run: func(_ context.Context, dir string, argv ...string) error {
			*ran = append(*ran, argv[0])
			s, ok := script[argv[0]]
			if !ok {
				return &exec.Error{Name: argv[0], Err: exec.ErrNotFound}
			}
			if s.err != nil {
				return s.err
			}
			return os.WriteFile(filepath.Join(dir, s.file), s.body, 0o600)
		},
	}
	return f, log, ran
}

// check compares the installed library and sees that nothing else was left.
func check(t *testing.T, f *fetcher, want []byte) {
	t.Helper()
	got, err := os.ReadFile(f.dest)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("library has %d bytes, error %v; want %d bytes", len(got), err, len(want))
	}
	left, err := os.ReadDir(filepath.Dir(f.dest))
	if err != nil || len(left) != 1 {
		t.Errorf("cache folder holds %v, error %v; want the library alone", left, err)
	}
}

func TestLibraryComesFromPip(t *testing.T) {
	f, log, ran := fake(t, clientScript{"pip3": {file: "x.whl", body: zipped(t, wheelPath, wheelLibrary)}})
	if err := f.library(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	check(t, f, wheelLibrary)
	if got := strings.Join(*ran, " "); got != "python3 pip3" {
		t.Errorf("ran %s", got)
	}
	if !strings.Contains(log.String(), "downloading ONNX Runtime "+Version+" with pip") ||
		strings.Contains(log.String(), "\r") {
		t.Errorf("log: %q", log)
	}
	*ran = nil
	if err := f.library(t.Context(), ""); err != nil || len(*ran) != 0 {
		t.Errorf("second time: ran %v, error %v", *ran, err)
	}
}

func TestLibraryComesFromNpmWhenPipFails(t *testing.T) {
	pip := clientScript{
		"absent":  {},
		"python3": {err: errors.New("No module named pip")},
		"pip3":    {file: "x.whl", body: zipped(t, wheelPath, npmLibrary[:len(wheelLibrary)/2])},
	}
	for _, broken := range []string{"absent", "python3", "pip3"} {
		f, log, _ := fake(t, clientScript{broken: pip[broken], "npm": {file: "x.tgz", body: tarred(t, npmPath,
			npmLibrary)}})
		if err := f.library(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		check(t, f, npmLibrary)
		if !strings.Contains(log.String(), "pip: ") {
			t.Errorf("log does not say why pip failed: %q", log)
		}
	}
}

func TestDamagedLibraryIsFetchedAgain(t *testing.T) {
	f, _, ran := fake(t, clientScript{"pip": {file: "x.whl", body: zipped(t, wheelPath, wheelLibrary)}})
	if err := f.library(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	spoiled := bytes.Clone(wheelLibrary)
	spoiled[77] ^= 1
	for _, damage := range [][]byte{spoiled, wheelLibrary[:99], nil} {
		if err := os.WriteFile(f.dest, damage, 0o600); err != nil {
			t.Fatal(err)
		}
		*ran = nil
		if err := f.library(t.Context(), ""); err != nil || len(*ran) == 0 {
			t.Errorf("ran %v, error %v", *ran, err)
		}
		check(t, f, wheelLibrary)
	}
}

func TestFailureSaysWhatToDo(t *testing.T) {
	f, _, _ := fake(t, clientScript{"npm": {err: errors.New("no network")}})
	err := f.library(t.Context(), "")
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"pip: not installed", "npm: no network", "TGI_ORT_ARCHIVE"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(f.dest)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestArchive(t *testing.T) {
	wrong := bytes.Clone(wheelLibrary)
	wrong[0] ^= 1
	for _, c := range []struct {
		name string
		body []byte
		want string // of the error; empty is success
	}{
		{"wheel", zipped(t, wheelPath, wheelLibrary), ""},
		{"npm package", tarred(t, npmPath, npmLibrary), ""},
		{"other checksum", zipped(t, wheelPath, wrong), "pinned is"},
		{"too long", zipped(t, wheelPath, append(wrong, 1)), "another length"},
		{"too short", tarred(t, npmPath, npmLibrary[1:]), "another length"},
		{"other wheel", zipped(t, "foo", wheelLibrary), "does not hold " + wheelPath},
		{"other tarball", tarred(t, "foo", npmLibrary), "does not hold " + npmPath},
		{"cut wheel", zipped(t, wheelPath, wheelLibrary)[:60], "zip"},
		{"cut tarball", tarred(t, npmPath, npmLibrary)[:60], "EOF"},
		{"text", []byte("hello"), "neither a wheel nor"},
		{"empty", nil, "neither a wheel nor"},
	} {
		f, _, ran := fake(t, nil)
		archive := filepath.Join(t.TempDir(), "package")
		if err := os.WriteFile(archive, c.body, 0o600); err != nil {
			t.Fatal(err)
		}
		err := f.library(t.Context(), archive)
		if len(*ran) != 0 {
			t.Errorf("%s: ran %v", c.name, *ran)
		}
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), archive) {
			t.Errorf("%s: error %v, want %q with the file's name", c.name, err, c.want)
		}
		if left, _ := os.ReadDir(filepath.Dir(f.dest)); len(left) != 0 {
			t.Errorf("%s: left behind: %v", c.name, left)
		}
	}
	f, _, _ := fake(t, nil)
	if err := f.library(t.Context(), "/does/not/exist"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing archive: %v", err)
	}
}

// TestLicences: whoever passes the library on gets its licences with it, from the wheel alone, and those that are
// pinned. What lacks one, or has another, is fetched again; what is whole is not.
func TestLicences(t *testing.T) {
	texts := map[string][]byte{"onnxruntime/LICENSE": []byte("MIT"),
		"onnxruntime/ThirdPartyNotices.txt": []byte("others")}
	var pins []pin
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		pins = append(pins, pinned(name, texts[name]))
	}
	wheel := func() []byte {
		all := maps.Clone(texts)
		all[wheelPath] = wheelLibrary
		return zippedAll(t, all)
	}
	f, _, ran := fake(t, clientScript{"pip": {file: "a.whl", body: wheel()}})
	f.licences = pins
	fetched := 0
	for _, spoil := range []func() error{
		func() error { return nil }, func() error { return nil }, func() error { return os.Remove(f.licence(pins[0])) },
		func() error { return os.WriteFile(f.licence(pins[1]), []byte("mine!!"), 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		before := len(*ran)
		if err := f.library(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if len(*ran) > before {
			fetched++
		}
		for _, p := range pins {
			if text, _ := os.ReadFile(f.licence(p)); !bytes.Equal(text, texts[p.path]) {
				t.Errorf("%s holds %q", f.licence(p), text)
			}
		}
	}
	if fetched != 3 {
		t.Errorf("fetched %d times, want 3: at first, without a licence, and with another one", fetched)
	}
	texts["onnxruntime/LICENSE"] = []byte("GPL")
	f, _, _ = fake(t, clientScript{"pip": {file: "a.whl", body: wheel()}})
	f.licences = pins
	if err := f.library(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "onnxruntime/LICENSE") {
		t.Errorf("a wheel with another licence: %v", err)
	}
	f, _, ran = fake(t, clientScript{"npm": {file: "a.tgz", body: tarred(t, npmPath, npmLibrary)}})
	f.licences = pins
	if err := f.library(t.Context(), ""); err == nil || strings.Contains(strings.Join(*ran, " "), "npm") {
		t.Errorf("%v after %v: Node's package has no licences and is of no use", err, *ran)
	}
}

func TestCancelledFetchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f, _, ran := fake(t, nil)
	f.run = func(context.Context, string, ...string) error {
		*ran = append(*ran, "client")
		cancel()
		return errors.New("killed")
	}
	if err := f.library(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if len(*ran) != 1 {
		t.Errorf("%d clients ran after the end", len(*ran)-1)
	}
}

func TestRunClient(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no shell")
	}
	dir := t.TempDir()
	if err := runClient(t.Context(), dir, "sh", "-c", `cd "$TMPDIR" && echo x > package.whl`); err != nil {
		t.Error(err)
	}
	if folderSize(dir) != 2 {
		t.Errorf("the folder holds %d bytes, want 2", folderSize(dir))
	}
	if err := runClient(t.Context(), dir, "sh", "-c", "echo no such package >&2; exit 3"); err == nil ||
		!strings.Contains(err.Error(), "exit status 3: no such package") {
		t.Errorf("error %v", err)
	}
	if err := runClient(t.Context(), dir, "no-such-program"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// TestRunFirst: the next command is tried where one fails, and the first one that knew something says why none did.
func TestRunFirst(t *testing.T) {
	for _, c := range []struct {
		errs []error
		want string
		ran  int
	}{
		{[]error{exec.ErrNotFound, errors.New("no such package"), errors.New("else")}, "no such package", 3},
		{[]error{errors.New("No module named pip"), errors.New("no such package")}, "no such package", 2},
		{[]error{errors.New("[Errno 28] No space left on device"), errors.New("else")}, "No space left", 1},
		{[]error{errors.New("else"), nil}, "", 2},
		{[]error{exec.ErrNotFound}, "not installed", 1},
	} {
		ran := 0
		run := func(context.Context, string, ...string) error { ran++; return c.errs[ran-1] }
		err := runFirst(t.Context(), run, "", client{argv: make([][]string, len(c.errs))})
		if ran != c.ran || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %d ran, %v", c.errs, ran, err)
		}
	}
}

func TestProgress(t *testing.T) {
	for terminal, want := range map[bool]string{
		false: "  12 of about 24 MB, 3 s\n",
		true:  "\r\x1b[K  12 of about 24 MB, 3 s",
	} {
		var b strings.Builder
		newProgress(&b, terminal).report(12_300_000, 24_000_000, 3*time.Second)
		if b.String() != want {
			t.Errorf("terminal %v: %q, want %q", terminal, b.String(), want)
		}
	}
}

func TestLibraryPath(t *testing.T) {
	t.Setenv("TGI_CACHE", "/some/where")
	path, err := LibraryPath()
	if want := filepath.Join("/some/where/onnxruntime", Version, thisPlatform(), LibraryName()); err != nil ||
		path != want {
		t.Errorf("%s, %v; want %s", path, err, want)
	}
	t.Setenv("TGI_CACHE", "relative")
	if _, err := LibraryPath(); err == nil {
		t.Error("a relative TGI_CACHE is accepted")
	}
	t.Setenv("TGI_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	t.Setenv("HOME", "/home/of/someone")
	if path, err := LibraryPath(); err != nil || !strings.Contains(path, filepath.Join("tgi", "onnxruntime")) {
		t.Errorf("%s, %v", path, err)
	}
}

func TestPins(t *testing.T) {
	for name, p := range platforms {
		for _, l := range []pin{p.wheel, p.npm} {
			if b, err := hex.DecodeString(l.sha256); err != nil || len(b) != sha256.Size || l.bytes < 1e6 ||
				p.tag == "" {
				t.Errorf("%s: bad pin %+v", name, l)
			}
		}
	}
}
