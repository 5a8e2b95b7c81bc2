package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/program"
	"tgi/sdk/abi"
)

// job loads one desired plugin into the set.
type job struct {
	desired
	serving    *version          // what had the name when the job began, held for it; nil for none
	reloadOnly bool              // only a reload replaces it
	wasm       []byte            // of an upload
	done       chan struct{}     // closed when run has returned
	sum        [sha256.Size]byte // of the module that was read; zero where none could be
	loaded     *version          // the new version, not yet in the set
	unchanged  bool              // the serving version is already the desired one
	late       bool              // another goroutine finishes the job
	err        error             // why nothing was loaded
}

// releaseServing drops the job's reference to the serving version.
func (j *job) releaseServing() {
	if j.serving != nil {
		j.serving.unref()
		j.serving = nil
	}
}

// run reads the module and loads it, unless it is the serving one, or is known to be none.
func (j *job) run(ctx context.Context, s *Set) {
	defer j.releaseServing()
	if j.err != nil {
		return
	}
	defer func() { j.err = j.ofSpec(j.err) }()
	if j.servesBuiltin() {
		j.sum = j.serving.guest.Sum()
		if err := j.checkSum(); err != nil {
			j.err = fmt.Errorf("%w: %s: %w", ErrLoad, j.name, err)
		}
		j.unchanged = j.err == nil
		return
	}
	wasm, err := j.wasm, error(nil)
	if j.origin != fromUpload {
		wasm, err = s.read(j.source)
	}
	if err != nil {
		j.err = fmt.Errorf("%w: %s: %w", ErrLoad, j.name, err)
		return
	}
	j.sum = sha256.Sum256(wasm)
	err = j.checkSum()
	if err == nil && j.verify != nil {
		err = j.verify(wasm)
	}
	if err != nil {
		j.err = fmt.Errorf("%w: %s: %w", ErrLoad, j.name, err)
		return
	}
	var like *guest.Guest
	if v := j.serving; v != nil {
		if j.reloadOnly && v.settings == j.settings && v.guest.Sum() == j.sum {
			j.unchanged = true
			return
		}
		like = v.guest
	}
	j.loaded, j.err = s.load(ctx, j.desired, wasm, like)
	if j.err != nil {
		return
	}
	if err := j.keepsKinds(s.o.Kinds); err != nil {
		j.discard(fmt.Errorf("%w: %s: %w", ErrLoad, j.name, err))
	}
}

// servesBuiltin reports whether what serves is the desired plugin for certain: a built-in module does not change.
func (j *job) servesBuiltin() bool {
	v := j.serving
	return v != nil && j.reloadOnly && j.verify == nil && strings.HasPrefix(j.source, Builtin) &&
		v.source == j.source && v.settings == j.settings
}

// checkSum compares the module that was read with its configured SHA-256.
func (j *job) checkSum() error {
	if got := hex.EncodeToString(j.sum[:]); j.sha256 != "" && got != j.sha256 {
		return wrongSetting("sha256", "source %q has sha256 %s, the settings want %s", j.source, got, j.sha256)
	}
	return nil
}

// settingsError is the error of a setting that does not suit a valid module.
type settingsError struct{ error }

// Unwrap returns the error.
func (e settingsError) Unwrap() error { return e.error }

// load compiles and checks a module until it is ready for requests. like is the guest that serves under its name, or
// nil. The error matches ErrLoad and names the plugin.
func (s *Set) load(ctx context.Context, w desired, wasm []byte, like *guest.Guest) (v *version, err error) {
	if err := checkName(w.name); err != nil { // a file's
		return nil, fmt.Errorf("%w: %w", ErrLoad, err)
	}
	since := s.o.Logs.now()
	g, err := guest.Load(ctx, s.engine, guest.Config{
		Name: w.name, Wasm: wasm, Config: []byte(w.settings.config), Model: s.o.Model, Limits: w.settings.limits,
		Vocabulary: s.o.Vocabulary, Seen: s.o.Seen,
		Program:      program.Functions(),
		MaxInstances: s.o.MaxInstances, Log: s.guestLogger(since, w.name, w.trial), Like: like,
		Governor: s.o.Governor, Trusted: strings.HasPrefix(w.source, Builtin), OnPause: s.pauseLogger(w.name),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLoad, err)
	}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	v = &version{guest: g, origin: w.origin, source: w.source, settings: w.settings,
		configSum: s.o.ConfigKey.Sum(w.settings.config), loaded: time.Now(), since: since,
		breakers: breakers{limit: s.o.Breaker.Faults, pause: s.o.Breaker.Pause}}
	v.key = v.sum() + fmt.Sprint(w.settings)
	v.refs.Store(1)
	if v.kinds, err = w.settings.kinds(g.Description().Kinds); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLoad, w.name, settingsError{err})
	}
	v.steps = slices.DeleteFunc(slices.Clone(v.kinds), func(k string) bool { return !guest.Steps(k) })
	if err := w.settings.checkKinds(v.kinds); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLoad, w.name, settingsError{err})
	}
	if v.refusalText, err = selfTest(ctx, g, v.kinds); err != nil {
		return nil, fmt.Errorf("%w: first steps: %w", ErrLoad, err)
	}
	if declared := g.Description().Schema; declared != nil {
		if err := declared.Check(nil); err != nil {
			v.refusalText = err.Error()
		}
	}
	if w.settings.apply == ApplyAlways && v.refusalText != "" {
		return nil, fmt.Errorf("%w: %s: %w", ErrLoad, w.name, wrongSetting("apply",
			"apply is %q, but the plugin refuses a request without parameters: %s", ApplyAlways, v.refusalText))
	}
	if v.serves(abi.KindGrammar) && !g.Description().Steps() && !s.o.apart {
		var shared *ir.Grammar
		if v.readsLanguage(commonLanguage) {
			shared = compileCommon(ctx, g)
		}
		s.background.Go(func() { s.prepareMasks(shared) }) // so that the first request does not wait for it
	}
	v.baseline = g.Stats()
	return v, nil
}

// guestLogger returns a function that logs what a guest prints. Of a panic the text is a warning, once a minute, and
// the stack is for who debugs the plugin: a request that is too large for a guest can bring about one at any time, and
// its own error says what happened.
func (s *Set) guestLogger(since uint64, name, trial string) func(level int, text string) {
	log := s.log.With("plugin", name)
	if trial == TrialCanary { // the log of a shadow's set says it
		log = log.With(trial, true)
	}
	var panicked atomic.Int64 // Unix time of the latest that was a warning
	var stack atomic.Int32    // lines that may still be of a stack
	return func(level int, text string) {
		s.o.Logs.addSince(since, name, trial, "guest", level, text)
		switch {
		case isPanic(text):
			stack.Store(stackLines)
			now, last := time.Now().Unix(), panicked.Load()
			if now-last < int64(panicLogInterval/time.Second) || !panicked.CompareAndSwap(last, now) {
				level = abi.LevelDebug
			}
		case stack.Load() > 0 && stack.Add(-1) >= 0 && isStack(text):
			level = abi.LevelDebug
		}
		to := slog.LevelError
		switch level {
		case abi.LevelDebug:
			to = slog.LevelDebug
		case abi.LevelInfo:
			to = slog.LevelInfo
		case abi.LevelWarn:
			to = slog.LevelWarn
		}
		log.Log(context.Background(), to, text)
	}
}

const (
	// panicLogInterval is the least time between two warnings about panics of a plugin.
	panicLogInterval = time.Minute
	// stackLines is how many lines behind a panic may be of its stack, with those of other instances between.
	stackLines = 128
)

// isPanic reports whether a line is the text of a panic of a guest in Go or Rust.
func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		strings.HasPrefix(line, "thread '") && strings.Contains(line, "panicked at")
}

// isStack reports whether a line looks like one of a stack that Go prints behind a panic.
func isStack(line string) bool {
	for _, begin := range []string{"\t", "goroutine ", "runtime stack:", "created by ", "[signal ", "exit status ",
		"note: run with "} {
		if strings.HasPrefix(line, begin) {
			return true
		}
	}
	return strings.TrimSpace(line) == "" || frame.MatchString(line)
}

// frame is a call of a function in a stack.
var frame = regexp.MustCompile(`^[\w./*()\[\]{}·-]+\((\.\.\.|[0-9a-fx?, {}.]*)\)( .*)?$`)

// builtinNames lists the built-in modules.
func (s *Set) builtinNames() (names []string) {
	if s.o.Builtin == nil {
		return nil
	}
	files, _ := fs.Glob(s.o.Builtin, "*.wasm") // the pattern is well-formed
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f, ".wasm"))
	}
	return names
}

// pauseLogInterval is the least time between two log entries about a plugin's pauses.
const pauseLogInterval = time.Minute

// pauseLogger returns a function that logs, at most once per interval, that calls of a plugin are paused.
func (s *Set) pauseLogger(name string) func() {
	var lastLogged atomic.Int64 // Unix time
	return func() {
		now, last := time.Now().Unix(), lastLogged.Load()
		if now-last >= int64(pauseLogInterval/time.Second) && lastLogged.CompareAndSwap(last, now) {
			s.log.Warn("plugin is being throttled: it uses more than its share of the processors while others wait",
				"plugin", name)
		}
	}
}

// errChangedWhileRead means that the file is still being written.
var errChangedWhileRead = errors.New("changed while it was read")

// read returns the module of a source. It rejects a file that changes while it is read.
func (s *Set) read(source string) ([]byte, error) {
	// A pipe would block for as long as nobody writes to it.
	open := func() (fs.File, error) { return os.OpenFile(source, os.O_RDONLY|syscall.O_NONBLOCK, 0) }
	if name, ok := strings.CutPrefix(source, Builtin); ok {
		open = func() (fs.File, error) {
			f, err := s.o.Builtin.Open(name + ".wasm")
			if err != nil {
				known := s.builtinNames()
				return nil, &Misnamed{name, known, fmt.Errorf("source %q: nothing of this name is built in: %s are",
					source, strings.Join(known, ", "))}
			}
			return f, nil
		}
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("source %q is not a regular file (%v)", source, before.Mode())
	}
	most := int64(sandbox.Limits{}.WithDefaults().ModuleBytes)
	if before.Size() > most {
		return nil, fmt.Errorf("source %q has %d bytes, the limit is %d", source, before.Size(), most)
	}
	wasm := make([]byte, before.Size()+1) // one more would have been added meanwhile
	n, err := io.ReadFull(f, wasm)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	wasm = wasm[:n]
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !before.ModTime().Equal(after.ModTime()) || after.Size() != int64(n) {
		return nil, fmt.Errorf("source %q %w", source, errChangedWhileRead)
	}
	return wasm, nil
}
