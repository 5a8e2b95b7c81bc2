package fetch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gpuParts are two small packages.
var gpuParts = []gpuPackage{
	{"ort-gpu", "1", []string{"any"}, 10, []pin{
		pinned("onnxruntime/capi/libonnxruntime.so.1.2.3", wheelLibrary), pinned("onnxruntime/capi/libprovider.so",
			npmLibrary),
	}},
	{"cudart", "2", []string{"any"}, 10, []pin{pinned("nvidia/lib/libcudart.so.13", npmLibrary)}},
}

// fakeGPU is a fetcher whose pip leaves the wheels of packages, which are named by what it is asked for.
func fakeGPU(t *testing.T, wheels map[string][]byte) (f *gpuFetcher, log *strings.Builder, ran *[]string) {
	log, ran = &strings.Builder{}, &[]string{}
	return &gpuFetcher{folder: filepath.Join(t.TempDir(), "deep"), log: newProgress(log, false),
		run: func(_ context.Context, dir string, argv ...string) error {
			what := argv[len(argv)-1]
			*ran = append(*ran, what)
			if wheels[what] == nil {
				return errors.New("no matching distribution")
			}
			return os.WriteFile(filepath.Join(dir, "x.whl"), wheels[what], 0o600)
		}}, log, ran
}

// TestGPUParts: every file is kept under the name that others ask for, and what is there is not fetched again.
func TestGPUParts(t *testing.T) {
	wheels := map[string][]byte{
		"ort-gpu==1": zippedAll(t, map[string][]byte{"onnxruntime/capi/libonnxruntime.so.1.2.3": wheelLibrary,
			"onnxruntime/capi/libprovider.so": npmLibrary}),
		"cudart==2": zipped(t, "nvidia/lib/libcudart.so.13", npmLibrary),
	}
	f, log, ran := fakeGPU(t, wheels)
	if err := f.packages(t.Context(), gpuParts); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{LibraryName(): wheelLibrary, "libprovider.so": npmLibrary,
		"libcudart.so.13": npmLibrary} {
		if got, err := os.ReadFile(filepath.Join(f.folder, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if left, err := os.ReadDir(f.folder); err != nil || len(left) != 3 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
	if text := log.String(); !strings.HasPrefix(text, "fetching 0 MB of packages for NVIDIA GPUs into ") ||
		!strings.Contains(text, "downloading cudart 2") {
		t.Errorf("log: %q", text)
	}
	if *ran = nil; f.packages(t.Context(), gpuParts) != nil || len(*ran) != 0 {
		t.Errorf("the second time %v was fetched", *ran)
	}
	if err := os.WriteFile(filepath.Join(f.folder, "libcudart.so.13"), []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.packages(t.Context(), gpuParts); err != nil || len(*ran) != 1 || (*ran)[0] != "cudart==2" {
		t.Errorf("after damage %v was fetched, %v", *ran, err)
	}
}

// TestGPUFails: the package that could not be had is named with the cure, and nothing half stays.
func TestGPUFails(t *testing.T) {
	for name, wheels := range map[string]map[string][]byte{
		"no matching distribution": {},
		"does not hold":            {"ort-gpu==1": zipped(t, "else", wheelLibrary)},
		"pinned is": {"ort-gpu==1": zipped(t, "onnxruntime/capi/libonnxruntime.so.1.2.3",
			bytes.ToUpper(wheelLibrary))},
		"not a valid zip": {"ort-gpu==1": []byte("what")},
	} {
		f, _, _ := fakeGPU(t, wheels)
		err := f.packages(t.Context(), gpuParts)
		if err == nil || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "could not get ort-gpu 1") ||
			!strings.Contains(err.Error(), "TGI_ORT_LIB") {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(f.folder); err != nil || len(left) != 0 {
			t.Errorf("%s: the folder holds %v, %v", name, left, err)
		}
	}
	f, _, _ := fakeGPU(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.packages(ctx, gpuParts); err == nil {
		t.Error("a cancelled fetch succeeds")
	}
}

// TestGPUPins: what is said before a download is what it takes, and CPU and GPU builds lie in different folders.
func TestGPUPins(t *testing.T) {
	var all int64
	for _, p := range GPUAll.packages() {
		all += p.bytes
		for _, file := range p.files {
			if len(file.sha256) != 64 || file.bytes < 10000 {
				t.Errorf("%s: %+v", p.name, file)
			}
		}
	}
	if all/1e6 != 729 || len(GPULibraryOnly.packages()) != 1 {
		t.Errorf("%d MB", all/1e6)
	}
	t.Setenv("TGI_CACHE", t.TempDir())
	cpu, err := LibraryPath()
	if err != nil {
		t.Fatal(err)
	}
	if gpu, err := GPUFolder(); err != nil || gpu == filepath.Dir(cpu) ||
		filepath.Dir(gpu) != filepath.Dir(filepath.Dir(cpu)) {
		t.Errorf("%s beside %s, %v", gpu, cpu, err)
	}
}
