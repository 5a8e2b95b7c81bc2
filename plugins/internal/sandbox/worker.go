package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"tgi/plugins/internal/sandbox/rewrite"
)

// workerName and workerMode begin the arguments of a process that compiles one module: see init.
const (
	workerName = "tgi-compile"
	workerMode = "compile-one-module"
)

// What a worker reports on its standard output: one of these and, in lines of its own, a text.
const (
	workerDone   = "done"   // the compiled module is in the working folder
	workerRefuse = "refuse" // the module can't be compiled
	workerStore  = "store"  // the compiled module can't be written
	workerSlow   = "slow"   // the compiled module takes too long to load
	workerLarge  = "large"  // the compiler needs too much memory
)

// workerJob is what a worker is told in its arguments.
type workerJob struct {
	bytes  int64         // of the module, which comes on the standard input
	cpu    time.Duration // processor time, in whole seconds
	memory int64         // bytes
}

// args returns the arguments of a worker.
func (j workerJob) args() []string {
	return []string{workerName, workerMode, fmt.Sprint(j.bytes), fmt.Sprint(int64(j.cpu / time.Second)),
		fmt.Sprint(j.memory)}
}

// readJob reads the arguments of a process; ok is false where it is no worker.
func readJob(args []string) (j workerJob, ok bool) {
	if len(args) != 5 || args[0] != workerName || args[1] != workerMode {
		return j, false
	}
	var v [3]int64
	for i := range v {
		var err error
		if v[i], err = strconv.ParseInt(args[2+i], 10, 64); err != nil {
			return j, false
		}
	}
	return workerJob{v[0], time.Duration(v[1]) * time.Second, v[2]}, true
}

// init takes the process over where it was started to compile a module. It has to happen here, before main: the worker
// is the same program, whatever that is (the server, a tool, the tests of any package that uses the sandbox), so that
// it has the same compiler, and no program can forget to ask. No environment variable leads here: what a user exports
// must not.
func init() {
	j, ok := readJob(os.Args)
	if !ok {
		return
	}
	word, text := j.work()
	fmt.Printf("%s\n%s", word, text)
	os.Exit(0)
}

// work compiles the module of the standard input into the working folder and loads it once.
func (j workerJob) work() (word, text string) {
	if err := j.confine(); err != nil {
		return workerRefuse, "limit the compiler: " + err.Error()
	}
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(200)
	debug.SetMemoryLimit(j.heap())
	go j.watchHeap()
	in := bufio.NewReader(os.Stdin)
	wasm := make([]byte, j.bytes)
	if _, err := io.ReadFull(in, wasm); err != nil {
		return workerRefuse, "read the module: " + err.Error()
	}
	go func() { // the other end stays open while anyone waits for the outcome
		_, _ = in.ReadByte()
		os.Exit(1)
	}()
	err := compileInto(context.Background(), ".", wasm)
	load := wasm
	if err == nil {
		load, err = hollowOut(wasm)
	}
	if err != nil {
		return wordOf(err), err.Error()
	}
	runtime.GC() // what the compiler leaves is not the loader's
	began := spent()
	if err := compileInto(loadOnly(context.Background()), ".", load); err != nil {
		return wordOf(err), loading(err).Error()
	}
	if took, limit := spent()-began, j.cpu/loadShare; took > limit {
		return workerSlow, fmt.Sprintf("%.1fs", took.Seconds())
	}
	return workerDone, ""
}

// wordOf says whom an error of compiling, or of loading what was compiled, is the fault of.
func wordOf(err error) string {
	if ofFolder(err) {
		return workerStore
	}
	return workerRefuse
}

// hollowOut makes what was compiled of a module into the working folder that of the hollow module, which it returns.
// The engine looks for machine code under a name that follows from the module, so it is asked how it calls that of the
// hollow one. An interpreter has no machine code: then the module stays as it is.
func hollowOut(wasm []byte) ([]byte, error) {
	whole, err := compiledFile(".")
	if err != nil {
		return wasm, nil
	}
	hollow, _, err := rewrite.Hollow(wasm)
	if err != nil {
		return nil, err
	}
	const named = "named"
	if err := errors.Join(os.Mkdir(named, 0o700), compileInto(context.Background(), named, hollow)); err != nil {
		return nil, err
	}
	name, err := compiledFile(named)
	if err == nil {
		err = os.Rename(whole, filepath.Join(filepath.Dir(whole), filepath.Base(name)))
	}
	return hollow, errors.Join(err, os.RemoveAll(named))
}

// heap is what of the memory Go's heap may take.
func (j workerJob) heap() int64 { return j.memory / 8 * 7 }

// watchHeap ends the process where the heap has no room left. Go's runtime would otherwise collect garbage that is not
// there, again and again, until the processor's time is over or the system refuses it memory.
func (j workerJob) watchHeap() {
	const every = 20 * time.Millisecond
	began := time.Now()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for {
		time.Sleep(every)
		metrics.Read(live)
		if n := live[0].Value.Uint64(); n > uint64(j.heap()/10*9) {
			fmt.Printf("%s\n%d MiB of it were in use after %.1fs", workerLarge, n>>20, time.Since(began).Seconds())
			os.Exit(0)
		}
	}
}

// loadShare is the part of the processor time for compiling that loading the compiled module may take. Loading happens
// in the server.
const loadShare = 4

// compileInto compiles a module into the engine's cache in dir, and closes it.
func compileInto(ctx context.Context, dir string, wasm []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("BUG: the compiler panicked: %v", r)
		}
	}()
	r, cache, err := newRuntime(ctx, dir)
	if err != nil {
		return err
	}
	_, err = r.CompileModule(ctx, wasm)
	return errors.Join(err, r.Close(context.Background()), cache.Close(context.Background()))
}

// newRuntime makes a runtime for one module. Compiled code lives in the cache object, so both are closed together. It
// does not bound memories: linear does, which then knows what a guest asked for in vain.
func newRuntime(ctx context.Context, dir string) (wazero.Runtime, wazero.CompilationCache, error) {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, nil, &storeError{"compilation cache: " + err.Error()}
	}
	cfg := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithCompilationCache(cache).
		WithCustomSections(false)
	return wazero.NewRuntimeWithConfig(ctx, cfg), cache, nil
}

// loadOnly returns a context under which the engine takes a compiled module from its cache and compiles none: its
// compiling goroutines, which it has where there are several, end before their first function.
func loadOnly(ctx context.Context) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	end(errNotCompiled)
	return experimental.WithCompilationWorkers(ctx, 2)
}

var errNotCompiled = errors.New("the compiled module is not what the cache says")
