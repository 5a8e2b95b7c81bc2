package fetch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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
	whole := zipped(t, "onnxruntime/capi/libonnxruntime.so.1.2.3", wheelLibrary)
	for name, c := range map[string]struct {
		wheel []byte
		run   error
		cure  string
	}{
		"no matching distribution": {cure: "TGI_ORT_LIB"},
		"does not hold":            {wheel: zipped(t, "else", wheelLibrary), cure: "TGI_ORT_LIB"},
		"pinned is": {wheel: zipped(t, "onnxruntime/capi/libonnxruntime.so.1.2.3", bytes.ToUpper(wheelLibrary)),
			cure: "try again"},
		"not a valid zip": {wheel: whole[:len(whole)/2], cure: "try again"}, // cut off
		"another length": {wheel: zipped(t, "onnxruntime/capi/libonnxruntime.so.1.2.3", wheelLibrary[1:]),
			cure: "try again"},
		"No space left on device": {run: errors.New("ERROR: [Errno 28] No space left on device"), cure: "make room in "},
		"no space left on device": {run: syscall.ENOSPC, cure: "make room in "},
	} {
		f, _, _ := fakeGPU(t, map[string][]byte{"ort-gpu==1": c.wheel})
		if c.run != nil {
			f.run = func(context.Context, string, ...string) error { return c.run }
		}
		err := f.packages(t.Context(), gpuParts)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), c.cure) ||
			!strings.Contains(err.Error(), "could not get ort-gpu 1") {
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

// TestGPUFetchedOnce: of two that fetch at once, one waits for the other and then has nothing to do.
func TestGPUFetchedOnce(t *testing.T) {
	first, _, ran := fakeGPU(t, map[string][]byte{"cudart==2": zipped(t, "nvidia/lib/libcudart.so.13", npmLibrary)})
	second, log, ranToo := fakeGPU(t, nil)
	second.folder = first.folder
	leave := first.run
	waits := make(chan error, 1)
	first.run = func(ctx context.Context, dir string, argv ...string) error {
		go func() { waits <- second.packages(ctx, gpuParts[1:]) }()
		time.Sleep(20 * time.Millisecond)
		select {
		case err := <-waits:
			t.Errorf("the second one did not wait: %v", err)
		default:
		}
		return leave(ctx, dir, argv...)
	}
	if err := first.packages(t.Context(), gpuParts[1:]); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil || len(*ran) != 1 || len(*ranToo) != 0 {
		t.Errorf("%v, and %v and %v were fetched: %s", err, *ran, *ranToo, log)
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
