// Package plugins is the set of plugins that a server has installed.
//
// It owns their life: where modules come from (settings, a folder, uploads), the checks and the self-test that each
// must pass before a request meets it, which version a request gets, how a failing plugin is kept from doing more harm,
// and what is counted. What a guest may do is the business of package internal/sandbox, how it is loaded that of
// internal/guest, and what a kind does that of the kind's package: logits, template, tools and grammar/kind.
//
// The life of a plugin: a [Spec], a file or an upload is read, held to its pin, loaded, and asked for two steps of a
// made-up sequence or for what its kind does with a made-up conversation; then it becomes the current version of its
// name. [Set.Bind] pins the current versions for a request, [Bound.Begin] gives each sequence an instance of its own,
// [Bound.Release] ends it. [Set.BindChat] does so for the kinds that work on conversations, before and after the token
// loop: [BoundChat.Render] has an instance for its call alone, a [Parser] for one sequence. [Set.Compile] makes a
// grammar of a source, which needs the guest no more, unless that computes the masks itself: then each [Constraint] has
// an instance. A newer version takes the place of the current one while requests finish on theirs, and is freed with
// the last of them.
//
// No client takes a plugin, or the processors, away from others. A plugin that keeps failing is switched off for the
// clients whose own requests were faulty (see [Breaker]).
// Compilations of grammars and their like share the processors in slices, as [Turns] says: a short one waits for about
// a slice of each long one, and clients with many get no more than those with one. Who is a client is for
// [Options.Client] to say.
//
// [Set.Watch], where it is called, is one goroutine that ends with its context; a module of the folder that takes long
// to load has two that end with it or with the set; each version's pool has one that internal/sandbox starts and that
// ends with the version.
//
// The reasons behind it: docs/rationale/plugins.md.
package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// Vocabulary is the tokenizer as guests see it.
type Vocabulary = guest.Vocabulary

// Limits bounds one plugin. A zero field means the default.
type Limits = guest.Limits

// Governor keeps plugins from taking the processors from others. Sets on the same processors share one.
type Governor = sandbox.Governor

// NewGovernor makes a governor. busy says whether others want the processors now; it is called from any goroutine,
// often, and must not block.
func NewGovernor(busy func() bool) *Governor { return sandbox.NewGovernor(busy) }

// CompileLimits bounds what compiling one module may take. A zero field means the default; modules that are built in
// may take ten times as long.
type CompileLimits = sandbox.CompileLimits

// Options are what a Set begins with.
type Options struct {
	Specs []Spec
	// Verify, if any, returns why a module of a file of the folder may not be loaded. Beside names the file that it
	// reads beside one of Folder or Specs, so that a change of that counts as one of the module; nil for none.
	Verify func(file string, module []byte) error
	Beside func(file string) string
	// Kept returns what was uploaded under a name, nil for nothing. Such an upload goes before a file of the folder,
	// and serves again where a spec that took its name is gone. It is called while the set is changed, and must not
	// wait for that. nil means that no upload outlasts a spec of its name.
	Kept       func(name string) *Kept
	Kinds      *Kinds     // what files were in sets before this one, which have it too; nil for none
	Folder     string     // files *.wasm in it are plugins named by their stem, with default settings; "" means none
	Builtin    fs.FS      // NAME.wasm is what the source "builtin:NAME" means; nil when nothing is built in
	Vocabulary Vocabulary // of the model; it must not be empty
	// JSON object that guests of kinds template and tools find as "model" in their configuration; nil means {}
	Model []byte
	// Seen names all that guests can see beside their modules, settings and Model: the vocabulary, and this program.
	// What a guest is when it is loaded is kept under that in CacheDir, for the next start. "" keeps nothing.
	Seen         string
	CacheDir     string // for compiled modules; "" keeps none
	CacheBytes   int64  // of CacheDir: what was used longest ago goes first; 0 means no bound
	Compile      CompileLimits
	MaxInstances int       // sequences of one plugin at a time; 0 means the sandbox's default
	Governor     *Governor // gives plugins their share of the processors; nil lets them run as they like
	Turns        *Turns    // by which calls share the processors; sets on the same have one. nil makes one
	Programs     *Turns    // the same for programs, of NewProgramTurns
	Memory       *Memory   // what all sets that have it share; nil has no bound
	// GrammarMemory bounds what is remembered of grammars and their masks, in bytes, within Memory; 0 means 128 MiB.
	GrammarMemory int64
	// GrammarTime bounds the time that the masks of one request take, where the host runs its grammar; 0 has no bound.
	GrammarTime time.Duration
	Breaker     Breaker
	// Client names the client of a request's context: no client can take plugins or compilations away from others. nil
	// means that all are one.
	Client func(context.Context) string
	// Request names the request of a context: its share of canaries follows from that. nil means that none has a name.
	Request func(context.Context) string
	// MayName returns why the request of a context may not name a plugin; binding it returns the error as it is. nil
	// lets all requests name all. It holds for what requests name, not for what applies always or a model's defaults.
	MayName func(ctx context.Context, plugin string) error
	// Where says where the setting stands that is at fault, for the log; "" or nil where that is not known.
	Where func(*SpecError) string
	// Public returns what clients may know of the text of an error, in which files may be named with their folders: of
	// why a plugin could not be loaded. It must not use the set. Nil lets them know all. Status and log have all.
	Public func(text string) string
	// ConfigKey makes the checksums of configurations that Used has; nil has none there.
	ConfigKey *ConfigKey

	Logs *Logs        // keeps the last lines of each plugin; nil keeps none
	Log  *slog.Logger // of what happens to plugins and of what they print; nil drops it

	apart bool // of a shadow: nothing is prepared ahead
}

// Set is the installed plugins. All methods may be called from any goroutine; changes are made one at a time, and
// requests never wait for one.
type Set struct {
	o      Options
	engine *sandbox.Engine
	log    *slog.Logger

	// change is held by whoever changes the set, for as long as that takes once all is loaded. The fields below are
	// written with change and mu held, so its holder may read them without mu.
	change chan struct{}
	mu     sync.RWMutex
	specs  []Spec
	names  map[string]*entry
	order  []*entry // specs in their order, then files, then uploads by name
	closed bool
	round  int // counts reloads

	reloads chan struct{} // held by a reload, through all loading
	// life is the set's own context: it ends with Close. It is a field because background goroutines end with the set,
	// not with the call that started them.
	life    context.Context
	close   context.CancelCauseFunc
	closing bool           // by mu
	loading sync.WaitGroup // what loads modules

	vocab      func() *grammar.Vocab // makes it once
	turns      *Turns
	account    *sandbox.Account // of the work on grammars that the host does
	programs   *Turns           // of programs
	grammars   grammarCache
	background sync.WaitGroup
	releasing  sync.WaitGroup // sequences and texts that the engine let go
	shadows    sync.WaitGroup // what shows requests to shadows
}

// entry is one name.
type entry struct {
	desired
	current  *version          // nil when none could be loaded
	err      error             // why the newest version was rejected, or is not there yet
	late     bool              // the newest version is still being loaded
	triedSum [sha256.Size]byte // the module of the newest version; zero where it could not be read
	totals   *statsTotals
	canary   *canaryVersion // nil for none; by mu, and change to write
}

// preventsStart reports whether the entry prevents opening the set. A spec's module that fails to load does, unless its
// on_error is "skip" or the compiler's limits are the cause. A setting that does not suit the module always does.
func (e *entry) preventsStart() bool {
	var setting settingsError
	switch {
	case e.origin != fromSpec || e.err == nil || errors.Is(e.err, sandbox.ErrCompile):
		return false
	case errors.As(e.err, &setting):
		return true
	}
	return e.settings.onError != OnErrorSkip
}

// sameRejection reports whether e and before, which may be nil, reject the same module for the same reason.
func (e *entry) sameRejection(before *entry) bool {
	return before != nil && e.err != nil && before.err != nil && e.triedSum == before.triedSum &&
		e.err.Error() == before.err.Error()
}

// unavailableReason returns why no version of an entry serves, for clients.
func (s *Set) unavailableReason(e *entry) string {
	if e.late {
		return errLate.Error()
	}
	if e.err != nil {
		text := strings.TrimPrefix(e.err.Error(), ErrLoad.Error()+": "+e.name+": ")
		if s.o.Public != nil {
			text = s.o.Public(text)
		}
		return "could not be loaded: " + text
	}
	return "could not be loaded"
}

// Open loads all plugins, several at a time. What is wrong with any of the specs is in one error that matches ErrSpec
// or ErrLoad, and then nothing is left open; a file of the folder that can't be loaded, and any module that can't be
// compiled within the limits or whose OnError is skip, is logged and listed as failed. A file that takes long is listed
// as loading and comes in later. A folder that is not there holds nothing. ctx bounds the loading alone.
func Open(ctx context.Context, o Options) (*Set, error) {
	if o.Vocabulary == nil || o.Vocabulary.Size() < 1 {
		return nil, fmt.Errorf("%w: the vocabulary is empty", ErrSpec)
	}
	if o.Breaker.Faults < 0 || o.Breaker.Pause < 0 || o.MaxInstances < 0 {
		return nil, fmt.Errorf("%w: breaker of %d faults and %v, %d instances: none may be negative", ErrSpec,
			o.Breaker.Faults, o.Breaker.Pause, o.MaxInstances)
	}
	if len(o.Model) > 0 && !isObject(o.Model) {
		return nil, fmt.Errorf("%w: the description of the model is not a JSON object", ErrSpec)
	}
	if o.Memory == nil {
		o.Memory = NewMemory(MemoryConfig{})
	}
	if o.Turns == nil {
		o.Turns = NewTurns()
	}
	if o.Programs == nil {
		o.Programs = NewProgramTurns()
	}
	s := &Set{o: o, log: o.Log, change: make(chan struct{}, 1), reloads: make(chan struct{}, 1),
		names: map[string]*entry{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	told := sync.OnceFunc(func() {
		s.log.Info("compiling plugins that the cache does not have, which may take some seconds")
	})
	s.engine, err = sandbox.New(sandbox.Config{CacheDir: o.CacheDir, CacheBytes: o.CacheBytes, Quota: o.Memory,
		Compile: o.Compile, Warn: func(what, module string, why error) {
			s.log.Warn(what, "plugin", module, "error", why)
		}, Compiling: func(string) { told() }})
	if err != nil {
		return nil, err
	}
	s.life, s.close = context.WithCancelCause(context.Background())
	s.turns, s.programs, s.account = o.Turns, o.Programs, hostAccount(o.Governor)
	masks := s.grammars.open(s.turns, o.Memory, o.GrammarMemory)
	s.vocab = sync.OnceValue(func() *grammar.Vocab { return grammar.NewVocab(o.Vocabulary, masks) })
	_, err = s.Reload(ctx, o.Specs)
	errs := []error{err}
	for _, e := range s.order {
		if e.preventsStart() {
			errs = append(errs, e.err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// lockChanges locks the set against other changes. The returned function unlocks it.
func (s *Set) lockChanges(ctx context.Context) (unlock func(), err error) {
	select {
	case s.change <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.closed {
		<-s.change
		return nil, ErrClosed
	}
	return func() { <-s.change }, nil
}

// loadContext returns a context for loading modules that ends with ctx or with the set. The caller calls done after the
// last load.
func (s *Set) loadContext(ctx context.Context) (_ context.Context, done func(), err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closing {
		return nil, nil, ErrClosed
	}
	s.loading.Add(1)
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { end(ErrClosed) })
	return ctx, func() {
		stop()
		end(nil)
		s.loading.Done()
	}, nil
}

// List returns all plugins: those of the settings in their order, then files and uploads by name.
func (s *Set) List() []Status {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]Status, 0, len(s.order))
	for _, e := range s.order {
		out = append(out, e.status())
	}
	return out
}

// Get returns one plugin.
func (s *Set) Get(name string) (Status, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.names[name]
	if !ok {
		return Status{}, false
	}
	return e.status(), true
}

func (e *entry) status() Status {
	st := Status{Name: e.name, Source: e.source, State: StateFailed, Apply: e.settings.apply,
		Clients: e.settings.clientList(), OnError: e.settings.onError, Limits: e.settings.limits,
		Stats: e.totals.stats()}
	if e.err != nil {
		st.Error = e.err.Error()
	}
	v := e.current
	switch {
	case v == nil && e.late:
		st.State = StateLoading
		return st
	case v == nil:
		return st
	case e.late:
		st.Source, st.Error = v.source, "a newer version is still being loaded"
	case e.err != nil:
		st.Source, st.Error = v.source, "a newer version was rejected: "+st.Error
	}
	d := v.guest.Description()
	st.Version, st.Doc, st.Params = d.Version, d.Doc, slices.Clone(d.Params)
	st.SHA256, st.Kinds, st.Loaded = v.sum(), slices.Clone(v.kinds), v.loaded
	if v.serves(abi.KindGrammar) {
		st.Languages = slices.Clone(d.Languages)
	}
	st.State, st.Apply, st.OnError = StateActive, v.settings.apply, v.settings.onError
	if v.serves(abi.KindGuard) {
		st.OnFull, st.OnExhausted = v.settings.onFull, v.settings.onExhausted
	}
	st.Clients, st.Limits = v.settings.clientList(), v.settings.limits
	if n, last := v.breakers.offClients(time.Now()); n > 0 {
		st.OffClients = n
		st.Error = strings.TrimSpace(fmt.Sprintf("switched off for %d of its clients, whose own requests were faulty; "+
			"the last: %s\n%s", n, last, st.Error))
	}
	return st
}

// client returns the client of a request, "" if unknown.
func (s *Set) client(ctx context.Context) string {
	if s.o.Client == nil {
		return ""
	}
	return s.o.Client(ctx)
}

// mayName returns why a request may not name its plugins.
func (s *Set) mayName(ctx context.Context, calls ...Call) error {
	for i := range calls {
		if s.o.MayName == nil || calls[i].Name == "" {
			continue
		}
		if err := s.o.MayName(ctx, calls[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// Close frees all plugins. Requests can't be bound any more; those that were must have been released before (a version
// that one still holds is freed when it lets go). Closing twice is fine.
func (s *Set) Close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.close(ErrClosed)
	s.loading.Wait()
	s.releasing.Wait() // first: the versions that they hold are to be freed here
	s.change <- struct{}{}
	defer func() { <-s.change }()
	s.mu.Lock()
	entries := s.order
	s.closed, s.order, s.names = true, nil, map[string]*entry{}
	s.mu.Unlock()
	var freed []*version
	for _, e := range entries {
		served := []*version{e.current, nil}
		switch {
		case e.canary == nil:
		case e.canary.shadow != nil:
			e.canary.shadow.stop()
		default:
			served[1] = e.canary.version
		}
		for _, v := range served {
			if v == nil {
				continue
			}
			v.unref()
			if v.refs.Load() == 0 {
				freed = append(freed, v)
			}
		}
	}
	for _, v := range freed {
		<-v.guest.Drained()
	}
	s.shadows.Wait()
	s.background.Wait()
	s.grammars.close()
}
