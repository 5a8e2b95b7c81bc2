package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"tgi/plugins/internal/sandbox/rewrite"
)

// CompileLimits bounds what the compiling of one module may take, whatever is in it. A zero field means the default.
//
// The limits hold for a process of its own, so that what passes one can be ended at once. Processor time and memory are
// limited on Linux; elsewhere the time on the clock alone.
type CompileLimits struct {
	Time    time.Duration // of a processor, in whole seconds; default 10 s
	Timeout time.Duration // on the clock, for a machine that is busy with other things; default 5 min
	Memory  int64         // bytes; default 1 GiB
}

// The least that CompileLimits may be: what a small module needs.
const (
	MinCompileTime   = time.Second
	MinCompileMemory = 256 << 20
)

// WithDefaults gives l with every zero field set to its default.
func (l CompileLimits) WithDefaults() CompileLimits {
	l.Time = cmp.Or(l.Time, 10*time.Second)
	l.Timeout = cmp.Or(l.Timeout, 5*time.Minute)
	l.Memory = cmp.Or(l.Memory, 1<<30)
	return l
}

func (l CompileLimits) check() error {
	if l.Time < MinCompileTime || l.Timeout < MinCompileTime || l.Memory < MinCompileMemory {
		return fmt.Errorf("compile time %v, timeout %v and memory %d: they must be at least %v, %v and %d",
			l.Time, l.Timeout, l.Memory, MinCompileTime, MinCompileTime, MinCompileMemory)
	}
	return nil
}

// times returns the limits for a module that may take n times as long.
func (l CompileLimits) times(n int) CompileLimits {
	l.Time, l.Timeout = l.Time*time.Duration(n), l.Timeout*time.Duration(n)
	return l
}

// ErrCompile: compiling the module takes more than it may.
var ErrCompile = errors.New("compile limit")

// limitError says which limit was passed.
func limitError(name string, limit any, what string) error {
	return fmt.Errorf("%w compile_%s = %v: %s", ErrCompile, name, limit, what)
}

// ErrNoPlace: no folder takes the compiled module, which is no fault of the module.
var ErrNoPlace = errors.New("there is no place for the compiled module")

// storeError: the compiled module could not be written, or not be read back.
type storeError struct{ text string }

func (e *storeError) Error() string { return e.text }

// ofFolder reports whether an error of compiling a module, or of loading what was compiled, is about its files, so that
// another folder may do better. Any other is about the module, or the memory that it takes, in whatever folder.
func ofFolder(err error) bool {
	var store *storeError
	var path *fs.PathError
	var link *os.LinkError
	text := err.Error() // the engine's reader of files wraps nothing, but names itself
	return errors.As(err, &store) || errors.As(err, &path) || errors.As(err, &link) ||
		errors.Is(err, errNotCompiled) ||
		strings.Contains(text, "compilationcache: ") && !outOfMemory(text)
}

// loading is the error of loading what was compiled.
func loading(err error) error { return fmt.Errorf("load what was compiled: %w", err) }

// compileInWorker has a worker compile a module into dir, and empties that before: a worker that was ended, so that the
// compilation begins anew, leaves files at any point. A worker never outlives the call, nor this process.
func compileInWorker(ctx context.Context, dir string, wasm []byte, l CompileLimits) error {
	return compilations.run(ctx, laneTurn, func() (<-chan error, func(), error) {
		if err := emptyFolder(dir); err != nil {
			return nil, nil, &storeError{err.Error()}
		}
		w := &worker{limits: l, ended: make(chan struct{})}
		done := make(chan error, 1)
		started := make(chan error)
		go func() {
			// The system ties the worker to the thread that starts it, which must not end before.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := w.start(dir, wasm)
			started <- err
			if err == nil {
				done <- w.wait(wasm)
			}
		}()
		return done, w.end, <-started
	})
}

// worker is a process that compiles one module.
type worker struct {
	limits      CompileLimits
	cmd         *exec.Cmd
	in          io.WriteCloser
	out, errors head
	once        sync.Once
	ended       chan struct{} // closed by end
}

// What is kept of a worker's output.
const maxWorkerText = 16 << 10

// head keeps the beginning of what is written to it.
type head struct{ b []byte }

func (h *head) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), maxWorkerText-len(h.b))]...)
	return len(b), nil
}

func (w *worker) start(dir string, wasm []byte) error {
	path, err := program()
	if err != nil {
		return fmt.Errorf("start the compiler: %w", err)
	}
	job := workerJob{bytes: int64(len(wasm)), cpu: w.limits.Time.Truncate(time.Second), memory: w.limits.Memory}
	w.cmd = &exec.Cmd{Path: path, Args: job.args(), Dir: dir, Stdout: &w.out, Stderr: &w.errors, WaitDelay: time.Second}
	// No secrets of the server's environment; what the program itself needs to start.
	w.cmd.Env = []string{"GOTRACEBACK=none"}
	for _, name := range []string{"LD_LIBRARY_PATH", "SystemRoot", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			w.cmd.Env = append(w.cmd.Env, name+"="+v)
		}
	}
	prepare(w.cmd)
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start the compiler: %w", err)
	}
	if err := w.cmd.Start(); err != nil {
		return fmt.Errorf("start the compiler: %w", err)
	}
	return nil
}

// end ends the worker at once.
func (w *worker) end() { w.once.Do(func() { close(w.ended) }) }

// wait hands the module over and gives the outcome.
func (w *worker) wait(wasm []byte) error {
	gone := make(chan struct{})
	late := make(chan bool, 1)
	go func() {
		clock := time.NewTimer(w.limits.Timeout)
		defer clock.Stop()
		select {
		case <-gone:
			late <- false
			return
		case <-w.ended:
			late <- false
		case <-clock.C:
			late <- true
		}
		killGroup(w.cmd.Process)
	}()
	_, writeErr := w.in.Write(wasm) // a worker that ends early says why
	err := w.cmd.Wait()
	close(gone)
	if <-late {
		return limitError("timeout", w.limits.Timeout, "compiling the module takes longer")
	}
	return w.outcome(errors.Join(err, writeErr))
}

// outcome reads what the worker said, or how it ended.
func (w *worker) outcome(err error) error {
	word, text, _ := strings.Cut(string(w.out.b), "\n")
	switch word {
	case workerDone:
		return nil
	case workerRefuse:
		if outOfMemory(text) {
			return w.noMemory(w.peak())
		}
		return errors.New(text)
	case workerStore:
		return &storeError{text}
	case workerLarge:
		return w.noMemory(text)
	case workerSlow:
		return limitError("time", w.limits.Time,
			fmt.Sprintf("loading the compiled module takes %s of a processor's time, more than a part in %d of it",
				text, loadShare))
	}
	state := w.cmd.ProcessState
	said, _, _ := strings.Cut(string(bytes.TrimSpace(w.errors.b)), "\n\n")
	if used := state.UserTime() + state.SystemTime(); strings.Contains(said, "SIGXCPU") || !state.Exited() &&
		used > w.limits.Time {
		return limitError("time", w.limits.Time, "compiling the module takes more of a processor's time")
	}
	if outOfMemory(said) {
		return w.noMemory(w.peak())
	}
	if !state.Exited() {
		return fmt.Errorf("the compiler was ended (%v): the machine may be out of memory", state)
	}
	return fmt.Errorf("the compiler failed: %w: %s", err, said)
}

// noMemory is the error of a compilation that needs more memory; used says what it had.
func (w *worker) noMemory(used string) error {
	return limitError("memory", fmt.Sprintf("%dMiB", w.limits.Memory>>20), "compiling the module takes more: "+used)
}

// peak says what a worker had that the system refused more memory.
func (w *worker) peak() string {
	s := w.cmd.ProcessState
	text := fmt.Sprintf("the next piece was refused after %.1fs of a processor's time",
		(s.UserTime() + s.SystemTime()).Seconds())
	if n := peakMemory(s); n > 0 {
		text += fmt.Sprintf(", with %d MiB in use", n>>20)
	}
	return text
}

// outOfMemory recognises what Go and the system say when a limit of memory is reached.
func outOfMemory(text string) bool {
	for _, sign := range []string{"out of memory", "cannot allocate memory", "cannot map pages",
		"failed to create new OS thread"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// outputDirs are the folders that a module can be compiled into, the cache first. Without one, or where it is full, any
// other does: the compiled module is loaded and its file removed.
func (e *Engine) outputDirs() []string {
	list := []string{e.cache, os.TempDir()}
	if e.shared != "" {
		list = append(list, e.shared)
	}
	if e.cache == "" {
		return list[1:]
	}
	return list
}

// opening is a module that is looked for or compiled.
type opening struct {
	name   string // in warnings
	key    string // its folder in the cache
	limits CompileLimits
}

// lookUp finds a module in the cache, nil where it has none that can be read. A process whose guests are interpreted
// finds nothing: the cache keeps machine code alone.
func (e *Engine) lookUp(o opening) *entry {
	if e.cache == "" || Interpreted() != nil {
		return nil
	}
	path := filepath.Join(e.cache, o.key)
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	found, err := readEntry(path)
	if err != nil {
		e.notRead(path, o.name, err)
		return nil
	}
	return found
}

// take loads what the cache has of a module, if it can.
func (e *Engine) take(ctx context.Context, c *compiled, x *entry, o opening, host []HostFunc) bool {
	if err := c.load(ctx, x.path, x.hollow, host); err != nil {
		if errors.Is(err, errNotCompiled) { // the engine finds nothing where its file should be
			err = &damage{err}
		}
		e.notRead(x.path, o.name, err)
		return false
	}
	c.data = x.data
	e.shrinkCode(c, o)
	touch(x.path)
	return true
}

// notRead says that an entry of the cache was of no use. A damaged one is removed. Any other may be read next time; one
// that still can't be when the module is compiled anew is replaced then.
func (e *Engine) notRead(path, module string, why error) {
	var bad *damage
	if !errors.As(why, &bad) {
		e.warn("file of the compilation cache not used", module, why)
		return
	}
	e.warn("damaged file of the compilation cache removed", module, why)
	_ = os.RemoveAll(path)
}

// compileAnew compiles a rewritten module and loads it.
func (e *Engine) compileAnew(ctx context.Context, c *compiled, out []byte, o opening, host []HostFunc) error {
	if e.cache != "" {
		c.entry = filepath.Join(e.cache, o.key)
	}
	if err := e.failed(o.key, o.limits); err != nil {
		return err
	}
	if e.compiling != nil {
		e.compiling(o.name)
	}
	var why []error
	for _, place := range e.outputDirs() {
		err := e.compileAt(ctx, place, c, out, o, host)
		var store *storeError
		if !errors.As(err, &store) {
			if err == nil && len(why) > 0 {
				e.warn("compiled module not kept", o.name, errors.Join(why...))
			}
			e.remember(o.key, o.limits, err)
			return err
		}
		why = append(why, fmt.Errorf("%s: %w", place, err))
	}
	return fmt.Errorf("%w: %w", ErrNoPlace, errors.Join(why...))
}

// compileAt compiles and loads a module in a folder of its own below place. The error is a *storeError where another
// place may do better.
func (e *Engine) compileAt(ctx context.Context, place string, c *compiled, out []byte, o opening,
	host []HostFunc) error {
	hollow, data, err := rewrite.Hollow(out)
	if err != nil {
		return err
	}
	s, err := newStaging(place)
	if err != nil {
		return &storeError{err.Error()}
	}
	defer s.remove()
	if err := compileInWorker(ctx, s.path, out, o.limits); err != nil {
		return err
	}
	code := hollow
	if c.data = data; !hasMachineCode(s.path) { // an interpreter needs all of it
		code, c.data = out, nil
	}
	if err := c.load(ctx, s.path, code, host); err != nil {
		if err = loading(err); ofFolder(err) {
			return &storeError{err.Error()}
		}
		return err
	}
	if place == e.cache {
		if err := s.publish(place, o.key, entry{hollow: hollow, data: data, info: c.info}); err != nil {
			e.warn("compiled module not kept", o.name, err)
		} else {
			e.shrinkCode(c, o)
		}
		e.trim()
	}
	return nil
}

// shrinkCode has the machine code of a module that is in the cache lie in a file there, if it can.
func (e *Engine) shrinkCode(c *compiled, o opening) {
	if err := e.mapCode(c, filepath.Join(e.cache, o.key)); err != nil {
		e.warn("machine code is not mapped from the compilation cache, which takes more memory", o.name, err)
	}
}

// failures are modules that passed a limit lately, so that a second try costs nothing: by key and limits.
var failures struct {
	sync.Mutex
	list map[failure]failed
}

type failure struct {
	key    string
	limits CompileLimits
}

type failed struct {
	err error
	at  time.Time
}

// What of failures is kept: enough for a folder of modules that a second reload looks at, and not for long, because a
// machine that was busy may be idle then.
const (
	maxFailures = 256
	failureAge  = 10 * time.Minute
)

// failed returns the error of a module that passed its limits lately.
func (e *Engine) failed(key string, l CompileLimits) error {
	failures.Lock()
	defer failures.Unlock()
	f, ok := failures.list[failure{key, l}]
	if !ok || time.Since(f.at) > failureAge {
		return nil
	}
	return f.err
}

// remember notes an outcome.
func (e *Engine) remember(key string, l CompileLimits, err error) {
	if !errors.Is(err, ErrCompile) {
		return
	}
	failures.Lock()
	defer failures.Unlock()
	if failures.list == nil || len(failures.list) >= maxFailures {
		failures.list = map[failure]failed{}
	}
	failures.list[failure{key, l}] = failed{err, time.Now()}
}

// warn tells whoever made the engine.
func (e *Engine) warn(what, module string, why error) {
	if e.log != nil {
		e.log(what, module, why)
	}
}
