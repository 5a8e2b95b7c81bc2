// Package guest loads plugins: it is the host's side of what all kinds of plugins in sdk/abi share.
//
// It owns the way from a module's bytes to instances that wait for a sequence (compile, signatures, description, rooms,
// init, snapshot, pool), the imports that guests see, and the life of one sequence's instance (begin, the sequence's
// tokens in the guest's memory, fuel per step, clone, end). The package of each kind owns what the kind does at each
// step.
package guest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// Vocabulary is the tokenizer as guests see it. It must be safe for concurrent use, and must not change.
type Vocabulary interface {
	// Size is the number of ids: they are 0 to Size-1, and a row has Size logits.
	Size() int
	// Bytes returns what the token stands for, the text of a special one; nil where there is no such token. The caller
	// does not change it.
	Bytes(id uint32) []byte
	// Flags returns which of abi.TokenSpecial and abi.TokenEnd an existing token has.
	Flags(id uint32) uint32
	// Encode returns the tokens of a text in UTF-8, special ones in it recognised and none added.
	Encode(text string) []uint32
	// EncodeData is Encode of a text in which no special token is recognised, whatever it spells.
	EncodeData(text string) []uint32
}

// Config is one plugin as its operator wants it.
type Config struct {
	Name   string // in errors, metrics and log lines
	Wasm   []byte // the module; not kept
	Config []byte // JSON object for tgi_init; nil means {}
	// JSON object that guests of the kinds on conversations find as member "model" of Config; nil means {}
	Model      []byte
	Limits     Limits
	Vocabulary Vocabulary
	// Seen names all that the guest can see beside its module, Config, Model and Limits: the vocabulary, and the
	// program that it runs in. What it is after tgi_init is kept under that in the engine's cache, and tgi_init is not
	// called the next time. "" keeps nothing.
	Seen         string
	MaxInstances int // sequences at a time; 0 means sandbox.DefaultMax
	// Governor, if not nil, limits how much of the processors the guest uses. Trusted means that the guest is part of
	// the program. OnPause, if not nil, is called when a call of the guest is paused; it must not block.
	Governor *sandbox.Governor
	Trusted  bool
	OnPause  func()
	// Log gets the guest's lines, rate limited. level is abi.LevelDebug to abi.LevelError; what the guest writes to its
	// descriptors 1 and 2 comes as LevelInfo and LevelWarn. Called from any goroutine; it must not block. nil drops.
	Log func(level int, text string)
	// Program are the imports of guests of kind program; others are not offered them.
	Program []sandbox.HostFunc
	// Like, where not nil, is a guest of the same name, vocabulary and log whose compiled code serves again if the
	// module and the memory are the same too. It must not have been closed.
	Like *Guest
}

// ErrDescription: what tgi_describe returned can't be used.
var ErrDescription = errors.New("description")

// Refusal is the error of a guest that refuses its configuration or a request's parameters. Text is the guest's.
type Refusal struct{ Text string }

// Error returns the guest's text.
func (r *Refusal) Error() string { return r.Text }

// Guest is a loaded plugin. It is safe for concurrent use. Close it.
type Guest struct {
	name   string
	limits Limits
	*code
	pool    *sandbox.Pool
	account *sandbox.Account // of the time of its calls
	vocab   Vocabulary
	d       Description
	rooms   Rooms
	counts  counters
	once    sync.Once
	drained chan struct{}

	described []byte // the text of d
	initFuel  int64  // what tgi_init and the calls before it used
}

// Await waits while the guest has used more than its share of the processors and others want them, or until cancel is
// closed.
func (g *Guest) Await(cancel <-chan struct{}) { g.account.Await(cancel) }

// Load compiles a plugin, checks its signatures and description, has it allocate its rooms and read its configuration,
// and takes the snapshot that every sequence starts from. Errors name all that is missing or wrong about imports and
// exports at once (sandbox.ErrImport, sandbox.ErrExport), or say what is wrong with the description (ErrDescription); a
// guest that refuses its configuration returns a *Refusal, one that fails a *sandbox.Fault. Cancelling ctx ends the
// compilation and what the guest runs.
func Load(ctx context.Context, e *sandbox.Engine, c Config) (*Guest, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, fmt.Errorf("%s: plugins need a little-endian machine: %w", c.Name, errors.ErrUnsupported)
	}
	limits, err := LimitsOf(c.Wasm, c.Trusted, c.Limits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	g := &Guest{name: c.Name, limits: limits, vocab: c.Vocabulary, drained: make(chan struct{})}
	if g.code = c.Like.codeFor(c.Wasm, limits); g.code == nil {
		g.code = &code{}
		g.code.users.Store(1)
		g.module, err = e.Compile(ctx, c.Wasm, sandbox.ModuleConfig{
			Name: c.Name, Host: hostOf(c), Check: checkExports, Start: limits.Load(), Trusted: c.Trusted,
			Limits: sandbox.Limits{MemoryPages: int(limits.Memory / pageBytes)}, Log: lines(c.Log),
		})
		if err != nil {
			return nil, explainImports(err)
		}
	}
	if err := g.start(ctx, c); err != nil {
		g.code.drop()
		return nil, err
	}
	return g, nil
}

// code is a compiled module. Several guests can share it; each has its own pool.
type code struct {
	module *sandbox.Module
	users  atomic.Int64
}

// codeFor returns the code of g for another guest, nil if that guest needs other code.
func (g *Guest) codeFor(wasm []byte, l Limits) *code {
	if g == nil || g.limits.Memory != l.Memory || g.limits.Load() != l.Load() || g.Sum() != sha256.Sum256(wasm) {
		return nil
	}
	g.code.users.Add(1)
	return g.code
}

// drop releases one use of the code; the last one frees it.
func (c *code) drop() {
	if c.users.Add(-1) == 0 {
		c.module.Close()
	}
}

// Name returns the name from Config.
func (g *Guest) Name() string { return g.name }

// Description returns what the guest said of itself, checked. It must not be changed.
func (g *Guest) Description() Description { return g.d }

// Sum returns the SHA-256 of the module.
func (g *Guest) Sum() [32]byte { return g.module.Sum() }

// CanClone reports whether a sequence's state can be copied: whether a snapshot holds all of the guest's state.
func (g *Guest) CanClone() bool { return g.module.HiddenState() == "" }

// Limits returns the limits with their defaults.
func (g *Guest) Limits() Limits { return g.limits }

// Vocabulary returns the vocabulary from Config.
func (g *Guest) Vocabulary() Vocabulary { return g.vocab }

// Close ends the plugin: no new sequence begins, running ones continue. It does not wait; when the last sequence is
// closed, everything is freed and Drained is closed. Closing twice is fine.
func (g *Guest) Close() {
	g.once.Do(func() {
		g.pool.Close()
		go func() { // ends with the last instance
			<-g.pool.Drained()
			g.code.drop()
			close(g.drained)
		}()
	})
}

// Drained is closed when the guest is closed, all its sequences are, and its memory and code are freed.
func (g *Guest) Drained() <-chan struct{} { return g.drained }

// lines makes the sandbox's log from Config's.
func lines(log func(int, string)) func(sandbox.Line) {
	if log == nil {
		return nil
	}
	return func(l sandbox.Line) {
		if l.Dropped > 0 {
			log(abi.LevelWarn, fmt.Sprintf("%d lines of the plugin were left out lately: it may print %d at once and then "+
				"%d a second", l.Dropped, sandbox.LogBurst, sandbox.LogPerSecond))
		}
		switch l.Level {
		case sandbox.LevelStdout:
			l.Level = abi.LevelInfo
		case sandbox.LevelStderr:
			l.Level = abi.LevelWarn
		}
		log(l.Level, l.Text)
	}
}
