// Package fake makes a CUDA runtime that computes nothing, so that ONNX Runtime's real CUDA provider opens sessions,
// places nodes, allocates, runs and records graphs on a machine without a GPU: memory is malloc's, copies are memcpy,
// kernels and products are counted. Results are zeros, but for those of our own kernels, which run: attention where a
// test asks for it. Tests see what the host does; no numbers, no times of a device.
package fake

import (
	"embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tgi/runtime/attend"
	"tgi/runtime/cuda"
	"tgi/runtime/kernel"
	"tgi/runtime/lowrank"
	"tgi/runtime/ort/fetch"
	"tgi/runtime/reduce"
)

//go:embed lib
var sources embed.FS

// Counters are what the fake counted since it was loaded.
type Counters struct {
	// Launches are of kernels, Products of matrices.
	Launches, Products int64
	// Copies to the device, from it, and within it.
	CopiesIn, CopiesOut, CopiesWithin int64
	// Waits for a stream, an event or the device.
	Waits int64
	// GraphLaunches are replays of CUDA graphs, Captures their recordings.
	GraphLaunches, Captures int64
	// Allocations are all there were; Live and LiveBytes are those not freed, pinned ones too; Streams are open,
	// Modules loaded.
	Allocations, Live, LiveBytes, Streams, Modules int64
	// OwnLaunches are those of our own kernels among the Launches, but for those of attention, which are Attentions.
	OwnLaunches, Attentions int64
}

// Since returns what was counted after before.
func (c Counters) Since(before Counters) Counters {
	return Counters{
		c.Launches - before.Launches, c.Products - before.Products, c.CopiesIn - before.CopiesIn,
		c.CopiesOut - before.CopiesOut, c.CopiesWithin - before.CopiesWithin, c.Waits - before.Waits,
		c.GraphLaunches - before.GraphLaunches, c.Captures - before.Captures, c.Allocations - before.Allocations,
		c.Live - before.Live, c.LiveBytes - before.LiveBytes, c.Streams - before.Streams, c.Modules - before.Modules,
		c.OwnLaunches - before.OwnLaunches, c.Attentions - before.Attentions,
	}
}

// Numbers of the fields after the counters, in the order of state.h.
const (
	fieldFail = iota + 15
	fieldNoMemory
	fieldTotal
	fieldNoKernels
	fieldAttends
	fieldFaultKind
	fieldFaultAfter
	fieldFaultCode
	fieldFaultStays
	fields
)

// memory is that of the fake device.
const memory = 1 << 37

// Device is the fake device of a process.
type Device struct {
	t     testing.TB
	state *os.File
}

// Need skips the test where the GPU build of ONNX Runtime is not in the cache, and returns its path.
func Need(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("ONNX Runtime's CUDA provider is for Linux on x86-64")
	}
	folder, err := fetch.GPUFolder()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, fetch.LibraryName())
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the GPU build of ONNX Runtime is not in %s: `make test-cuda-host` fetches it", folder)
	}
	return path
}

// Load builds the fake libraries and loads them into the process, which must have no other CUDA.
func Load(t testing.TB) *Device {
	t.Helper()
	d, folder := Build(t)
	cuda.SaveSignals()
	defer cuda.RestoreSignals() // as the server does
	if err := cuda.Load(folder); err != nil {
		t.Fatal(err)
	}
	return d
}

// Install puts the fake libraries beside links to the GPU build of ONNX Runtime, and returns the path of the latter for
// TGI_ORT_LIB. Processes that the test starts share one fake device.
func Install(t testing.TB) (d *Device, library string) {
	t.Helper()
	path := Need(t)
	d, folder := Build(t)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "libonnxruntime*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Symlink(file, filepath.Join(folder, filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	return d, filepath.Join(folder, filepath.Base(path))
}

// Build builds the fake libraries in a folder, for this process and those that it starts.
func Build(t testing.TB) (d *Device, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, sources); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"attend.cu": attend.Source, "reduce.cu": reduce.Source,
		"lowrank.cu": lowrank.Source,
		"emulate.h":  kernel.Emulation} {
		if err := os.WriteFile(filepath.Join(dir, "lib", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = &Device{t: t}
	path := filepath.Join(dir, "state")
	var err error
	if d.state, err = os.Create(path); err == nil {
		t.Cleanup(func() { d.state.Close() })
		err = d.state.Truncate(fields * 8)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.set(fieldTotal, memory)
	os.Setenv("TGI_FAKE_CUDA", path) // of the process: the libraries stay loaded
	for name, list := range map[string][]string{"libcuda.so.1": {"driver.c", "attend.c", "reduce.c", "lowrank.c"},
		"libcurand.so.10": {"empty.c"}, "libcudart.so.13": {"cudart.c"}, "libcublas.so.13": {"cublas.c"},
		"libcublasLt.so.13": {"cublaslt.c"}} {
		build(t, dir, name, list)
	}
	return d, dir
}

// build compiles a library. Its functions carry its name as their version, as the provider asks.
func build(t testing.TB, dir, name string, list []string) {
	t.Helper()
	versions := filepath.Join(dir, name+".map")
	if err := os.WriteFile(versions, []byte(name+" { global: *; };\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, name)
	args := append(strings.Fields(string(cc)), "-std=gnu11", "-w", "-O1", "-ffp-contract=off", "-fno-strict-aliasing",
		"-shared", "-fPIC",
		"-o", out, "-Wl,-soname,"+name)
	for _, source := range append(list, "state.c") {
		args = append(args, filepath.Join(dir, "lib", source))
	}
	args = append(args, "-lm")
	if name != "libcuda.so.1" && name != "libcurand.so.10" {
		args = append(args, "-Wl,--version-script,"+versions)
	}
	if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, text)
	}
}

// Counters returns what was counted.
func (d *Device) Counters() Counters {
	d.t.Helper()
	var c Counters
	b := make([]byte, fieldFail*8)
	if _, err := d.state.ReadAt(b, 0); err != nil {
		d.t.Fatal(err)
	}
	for i, field := range []*int64{&c.Launches, &c.Products, &c.CopiesIn, &c.CopiesOut, &c.CopiesWithin, &c.Waits,
		&c.GraphLaunches, &c.Captures, &c.Allocations, &c.Live, &c.LiveBytes, &c.Streams, &c.Modules,
		&c.OwnLaunches, &c.Attentions} {
		*field = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return c
}

// Fail has every call on the device return an error; 0 ends it.
func (d *Device) Fail(code int) { d.set(fieldFail, int64(code)) }

// Fault is a kind of call that can be made to fail.
type Fault int

// The kinds of calls. Captures are begun and ended; each counts.
const (
	Allocation Fault = iota + 1
	Launch
	Copy
	Wait
	Capture
	Instantiate
	Replay
)

// FailAt has the n-th call of a kind from now on return an error, and with stays every call on the device after it;
// n of 0 ends both.
func (d *Device) FailAt(kind Fault, n, code int, stays bool) {
	d.set(fieldFaultKind, 0)
	d.set(fieldFail, 0)
	d.set(fieldFaultAfter, int64(n))
	d.set(fieldFaultCode, int64(code))
	d.tell(fieldFaultStays, stays)
	if n > 0 {
		d.set(fieldFaultKind, int64(kind))
	}
}

// Faulted reports whether the call of the last FailAt has come.
func (d *Device) Faulted() bool {
	d.t.Helper()
	b := make([]byte, 16)
	if _, err := d.state.ReadAt(b, fieldFaultKind*8); err != nil {
		d.t.Fatal(err)
	}
	kind, left := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	return kind != 0 && int64(left) <= 0
}

// NoMemory says whether allocations fail.
func (d *Device) NoMemory(fail bool) { d.tell(fieldNoMemory, fail) }

// NoKernels says whether the driver refuses kernels of our own.
func (d *Device) NoKernels(refuse bool) { d.tell(fieldNoKernels, refuse) }

// Attends says whether attention is computed, which takes long: else it is only counted.
func (d *Device) Attends(computes bool) { d.tell(fieldAttends, computes) }

func (d *Device) tell(field int, yes bool) {
	value := int64(0)
	if yes {
		value = 1
	}
	d.set(field, value)
}

func (d *Device) set(field int, value int64) {
	d.t.Helper()
	if _, err := d.state.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(value)), int64(8*field)); err != nil {
		d.t.Fatal(err)
	}
}
