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
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// job is one wanted plugin on its way into the set.
type job struct {
	wanted
	serving *version          // what had the name when the job began, held for it; nil for none
	steady  bool              // nobody but a reload replaces it
	through chan struct{}     // closed when the job has run
	sum     [sha256.Size]byte // of the module that was read; zero where none could be
	fresh   *version          // loaded, not yet in the set
	same    bool              // what serves is what is wanted
	late    bool              // the job runs on elsewhere
	err     error             // why neither
}

// letGo gives back what was held for the job.
func (j *job) letGo() {
	if j.serving != nil {
		j.serving.drop()
		j.serving = nil
	}
}

// run reads the module and loads it, unless it is what serves already.
func (j *job) run(ctx context.Context, s *Set) {
	defer j.letGo()
	wasm, err := s.read(j.source)
	if err != nil {
		j.err = fmt.Errorf("%w: %s: %w", ErrLoad, j.name, err)
		return
	}
	j.sum = sha256.Sum256(wasm)
	if err := j.matches(wasm); err != nil {
		j.err = fmt.Errorf("%w: %s: %w", ErrLoad, j.name, err)
		return
	}
	var like *guest.Guest
	if v := j.serving; v != nil {
		if j.steady && v.set == j.set && v.guest.Sum() == j.sum {
			j.same = true
			return
		}
		like = v.guest
	}
	j.fresh, j.err = s.load(ctx, j.wanted, wasm, like)
}

// matches holds a module to its pin.
func (w wanted) matches(wasm []byte) error {
	sum := sha256.Sum256(wasm)
	if got := hex.EncodeToString(sum[:]); w.pin != "" && got != w.pin {
		return fmt.Errorf("source %q has sha256 %s, the settings want %s", w.source, got, w.pin)
	}
	return nil
}

// unfit is the error of a setting that makes no sense for a module which is right in itself.
type unfit struct{ error }

// load brings a module to the point where requests may meet it. like serves under its name now, or is nil. The error
// matches ErrLoad and names the plugin.
func (s *Set) load(ctx context.Context, w wanted, wasm []byte, like *guest.Guest) (v *version, err error) {
	if err := checkName(w.name); err != nil { // a file's
		return nil, fmt.Errorf("%w: %w", ErrLoad, err)
	}
	g, err := guest.Load(ctx, s.engine, guest.Config{
		Name: w.name, Wasm: wasm, Config: []byte(w.set.config), Model: s.o.Model, Limits: w.set.limits, Vocabulary: s.o.Vocabulary,
		MaxInstances: s.o.MaxInstances, Log: s.printer(w.name), Like: like,
		Governor: s.o.Governor, Trusted: strings.HasPrefix(w.source, Builtin), OnPause: s.pauses(w.name),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLoad, err)
	}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	v = &version{guest: g, set: w.set, loaded: time.Now(), breakers: breakers{all: breaker{limit: s.o.Breaker.Faults, pause: s.o.Breaker.Pause}}}
	v.refs.Store(1)
	if v.kinds, err = w.set.kinds(g.Description().Kinds); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLoad, w.name, unfit{err})
	}
	v.steps = slices.DeleteFunc(slices.Clone(v.kinds), func(k string) bool { return !guest.Steps(k) })
	if err := w.set.fits(v.kinds); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLoad, w.name, unfit{err})
	}
	if v.refuses, err = canary(ctx, g, v.kinds); err != nil {
		return nil, fmt.Errorf("%w: first steps: %w", ErrLoad, err)
	}
	if w.set.apply == ApplyAlways && v.refuses != "" {
		return nil, fmt.Errorf("%w: %s: apply is %q, but the plugin refuses a request without parameters: %s", ErrLoad, w.name, ApplyAlways, v.refuses)
	}
	if v.serves(abi.KindGrammar) && !g.Description().Steps() {
		var shared *ir.Grammar
		if v.knows(commonLanguage) {
			shared = common(ctx, g)
		}
		s.background.Go(func() { s.warm(shared) }) // so that the first request does not wait for it
	}
	v.base = g.Stats()
	return v, nil
}

// printer logs what a guest prints.
func (s *Set) printer(name string) func(level int, text string) {
	log := s.log.With("plugin", name)
	return func(level int, text string) {
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

// builtins lists the names of the modules that are built in.
func (s *Set) builtins() (names []string) {
	if s.o.Builtin == nil {
		return nil
	}
	files, _ := fs.Glob(s.o.Builtin, "*.wasm") // the pattern is well-formed
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f, ".wasm"))
	}
	return names
}

// pauseNews is how often the log says that a plugin is paused.
const pauseNews = time.Minute

// pauses logs, once in a while, that calls of a plugin are paused.
func (s *Set) pauses(name string) func() {
	var told atomic.Int64 // Unix time
	return func() {
		now, last := time.Now().Unix(), told.Load()
		if now-last >= int64(pauseNews/time.Second) && told.CompareAndSwap(last, now) {
			s.log.Warn("plugin is paused now and then: it uses more than its share of the processors while others wait", "plugin", name)
		}
	}
}

// errUnsteady: the file is being written.
var errUnsteady = errors.New("changed while it was read")

// read gives the module of a source. A file that changes meanwhile is refused rather than loaded in halves.
func (s *Set) read(source string) ([]byte, error) {
	// A pipe would block for as long as nobody writes to it.
	open := func() (fs.File, error) { return os.OpenFile(source, os.O_RDONLY|syscall.O_NONBLOCK, 0) }
	if name, ok := strings.CutPrefix(source, Builtin); ok {
		open = func() (fs.File, error) {
			f, err := s.o.Builtin.Open(name + ".wasm")
			if err != nil {
				return nil, fmt.Errorf("source %q is not built in: %w; built in are %s", source, err, strings.Join(s.builtins(), ", "))
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
	wasm, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !before.ModTime().Equal(after.ModTime()) || after.Size() != int64(len(wasm)) {
		return nil, fmt.Errorf("source %q %w", source, errUnsteady)
	}
	return wasm, nil
}
