package ort

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tgi/runtime/ort/fetch"
)

func TestLocateOrder(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Setenv("TGI_CACHE", filepath.Join(dir, "cache"))
	t.Setenv("TGI_ORT_LIB", "")

	_, err := Locate("")
	if !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), "make ort") ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("nothing there: %v", err)
	}
	explicit, env := file("explicit.so"), file("env.so")
	t.Setenv("TGI_ORT_LIB", env)
	if got, err := Locate(""); err != nil || got != env {
		t.Errorf("Locate = %s, %v; want %s", got, err, env)
	}
	if got, err := Locate(explicit); err != nil || got != explicit {
		t.Errorf("Locate = %s, %v; want %s", got, err, explicit)
	}
	_, err = Locate(filepath.Join(dir, "gone.so"))
	if !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), "[runtime] ort_lib") ||
		!strings.Contains(err.Error(), "gone.so") {
		t.Errorf("missing explicit path: %v", err)
	}
	t.Setenv("TGI_ORT_LIB", dir)
	if _, err = Locate(""); !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), "TGI_ORT_LIB") {
		t.Errorf("a folder: %v", err)
	}
}

// TestLocateGPU: a library is that of the GPU build if the provider lies beside it.
func TestLocateGPU(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Setenv("TGI_CACHE", filepath.Join(dir, "cache"))
	t.Setenv("TGI_ORT_LIB", "")
	if _, _, err := LocateGPU(""); !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), "make ort-cuda") {
		t.Errorf("nothing there: %v", err)
	}
	folder, err := fetch.GPUFolder()
	if err != nil {
		t.Fatal(err)
	}
	cached, _ := filepath.Rel(dir, folder)
	library := file(filepath.Join(cached, fetch.LibraryName()))
	if _, _, err := LocateGPU(""); err == nil {
		t.Error("a library without its provider is found")
	}
	file(filepath.Join(cached, providerLibrary))
	if path, from, err := LocateGPU(""); err != nil || path != library || from != folder {
		t.Errorf("in the cache: %s in %s, %v", path, from, err)
	}
	cpu, gpu := file("cpu/libonnxruntime.so"), file("gpu/any.so")
	file("gpu/" + providerLibrary)
	if path, from, err := LocateGPU(gpu); err != nil || path != gpu || from != filepath.Dir(gpu) {
		t.Errorf("as set: %s in %s, %v", path, from, err)
	}
	t.Setenv("TGI_ORT_LIB", cpu)
	_, _, err = LocateGPU("")
	if !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), "is not the GPU build") ||
		!strings.Contains(err.Error(), cpu) {
		t.Errorf("the CPU build: %v", err)
	}
	t.Setenv("TGI_ORT_LIB", filepath.Join(dir, "gone.so"))
	_, _, err = LocateGPU("")
	if !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), "remove it and run `make ort-cuda`") {
		t.Errorf("a library that is gone: %v", err)
	}
}

func TestInitIsIdempotent(t *testing.T) {
	start(t)
	path, err := Locate("")
	if err != nil {
		t.Fatal(err)
	}
	if err := Init(path); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := Init("/another"); !errors.Is(err, ErrLibrary) {
		t.Errorf("another library: %v", err)
	}
	if !strings.HasPrefix(Version(), "1.") || Attention() == "" {
		t.Errorf("version %q, attention %q", Version(), Attention())
	}
}

// compile makes a shared library.
func compile(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	source, library := filepath.Join(dir, "lib.c"), filepath.Join(dir, "lib.so")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(strings.Fields(string(cc)), "-shared", "-fPIC", "-o", library, source)
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return library
}

// A wrong library is one sentence; none of them is kept, so the right one
// still loads afterwards.
func TestWrongLibraries(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{filepath.Join(t.TempDir(), "gone.so"), "cannot be read"},
		{text, "is not an ONNX Runtime library for this machine"},
		{compile(t, "int other;"), "does not export OrtGetApiBase"},
		{compile(t, `
			static const void *api(unsigned v) { return v <= 20 ? "" : 0; }
			static const char *version(void) { return "1.20.1"; }
			static struct { const void *(*api)(unsigned); const char *(*version)(void); } base = {api, version};
			const void *OrtGetApiBase(void) { return &base; }`), "is ONNX Runtime 1.20.1, which is too old (1.29 or newer is needed)"},
	} {
		_, err := load(c.path)
		if !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
			continue
		}
		s := err.Error()
		if strings.Contains(s, "\n") || !strings.Contains(s, c.path) || !strings.HasSuffix(s, remedy) ||
			strings.Count(s, c.path) != 1 {
			t.Errorf("not a sentence that says what to do: %s", s)
		}
	}
	start(t)
}

func TestUnknownAttentionKernel(t *testing.T) {
	kernels(t)
	before := Attention()
	if err := chooseAttention("sse9"); err == nil || !strings.Contains(err.Error(), "TGI_ATTENTION") {
		t.Errorf("error %v", err)
	}
	if Attention() != before {
		t.Errorf("kernel changed from %s to %s", before, Attention())
	}
}
