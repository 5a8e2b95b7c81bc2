package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tgi/models/store"
	"tgi/plugins"
	"tgi/plugins/std"
	"tgi/runtime/filestamp"
	"tgi/sdk/abi"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
	"tgi/server/host/bridge"
	"tgi/server/share"
)

// ReloadFunc returns the settings of now, given those that run, and the keys that
// changed and are not taken over. seen is what the settings' file looked like when it was found to have changed, nil
// where somebody asked for the reload.
type ReloadFunc func(running config.Config, seen *filestamp.Stamp) (next config.Config, restart []string, err error)

// pluginController is the plugins of one model, and what its conversations get.
type pluginController struct {
	set *plugins.Set
	log *slog.Logger

	mu      sync.Mutex                    // held while settings are taken over
	running atomic.Pointer[config.Config] // written with mu held; never nil
	// given are the settings whose plugins the set has, or is about to get: what is wrong stands there. Never nil.
	given   atomic.Pointer[config.Config]
	source  checkpoint              // of the model, whose templates are read again when they change
	demands atomic.Pointer[demands] // of the signatures of modules; never nil

	chat atomic.Pointer[chatState] // what conversations get; never nil
}

// chatState is a chatSetup with the files that it was made of, and what they
// looked like before they were read.
type chatState struct {
	chatSetup
	files  []string
	stamps []filestamp.Stamp
}

// openPlugins loads the plugins that the settings name, and those of the folder, for a model whose files were read.
// They share memory and processors with those of other models.
func (f *manager) openPlugins(ctx context.Context, cfg config.Config, in *instance,
	log *slog.Logger) (*pluginController, error) {
	c := &pluginController{source: in.source, log: log}
	c.running.Store(&cfg)
	c.given.Store(&cfg)
	specs, state, err := c.specs(cfg)
	if err != nil {
		return nil, err
	}
	c.chat.Store(state)
	cache, err := store.Dir()
	if err != nil {
		return nil, err
	}
	c.set, err = plugins.Open(ctx, plugins.Options{
		Specs: specs, Folder: cfg.Plugins.Folder, Builtin: std.FS(), Verify: c.verify, Beside: share.Beside,
		Kinds: f.kinds, Kept: func(name string) *plugins.Kept { return f.keptFor(*c.given.Load(), name) },
		Vocabulary:   bridge.Vocabulary(in.tokenizer, in.built.Vocab, in.eos),
		Seen:         f.seenBy(in),
		CacheDir:     filepath.Join(cache, "plugins"),
		CacheBytes:   int64(cfg.Plugins.CacheSize),
		MaxInstances: 2 * cfg.Limits.MaxConcurrentRequests, // one for each sequence, and those that check parameters
		Governor:     f.governor,
		Turns:        f.turns,
		Programs:     f.programs,
		Memory:       f.memory, GrammarMemory: grammarMemory(cfg.Plugins, f.memory.Stats().Limit),
		GrammarTime: time.Duration(cfg.Plugins.GrammarTime),

		Breaker:   plugins.Breaker{Faults: cfg.Plugins.BreakerFaults, Pause: time.Duration(cfg.Plugins.BreakerPause)},
		Compile:   compileLimits(cfg.Plugins),
		Client:    server.ClientID,
		Request:   server.RequestID,
		MayName:   server.MayNamePlugin,
		Where:     func(err *plugins.SpecError) string { return pluginPlace(*c.given.Load(), err) },
		Public:    func(text string) string { return publicText(*c.given.Load(), f.library.Dir(), text) },
		ConfigKey: f.configKey,
		Logs:      f.pluginLogs,
		Log:       log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w%s", placed(cfg, err), bridge.Suggestion(err))
	}
	if err := state.check(c.set); err != nil {
		c.set.Close()
		return nil, err
	}
	return c, nil
}

// seenBy names all that plugins can see of this program and a model beside their settings; "" where that is not known.
func (f *manager) seenBy(in *instance) string {
	if f.build == "" {
		return ""
	}
	return fmt.Sprintf("%s %x %d %d", f.build, sha256.Sum256(in.source.desc.TokenizerJSON), in.built.Vocab, in.eos)
}

// verify returns why a module of a file of the folder may not be loaded.
func (c *pluginController) verify(file string, module []byte) error {
	if d := c.demands.Load(); d.all {
		return d.file(file, module)
	}
	return nil
}

// compileLimits bound the compiling of a module.
func compileLimits(p config.Plugins) plugins.CompileLimits {
	return plugins.CompileLimits{Time: time.Duration(p.CompileTime), Timeout: time.Duration(p.CompileTimeout),
		Memory: int64(p.CompileMemory)}
}

// specs returns the plugins that the settings ask for, those among them that
// [model] stands for, and what conversations get.
func (c *pluginController) specs(cfg config.Config) ([]plugins.Spec, *chatState, error) {
	d, err := demandsOf(cfg)
	if err != nil {
		return nil, nil, err
	}
	specs, err := specsOf(cfg.Plugin, d)
	if err != nil {
		return nil, nil, err
	}
	c.demands.Store(&d)
	files := chatFiles(cfg, c.source.dir())
	state := &chatState{files: files, stamps: filestamp.All(files)}
	own, err := c.source.templates()
	if err != nil {
		return nil, nil, err
	}
	state.chatSetup, err = chatSetupOf(cfg, filepath.Base(c.source.name), c.source.dir(), own)
	return append(specs, append(state.specs, grammarSpecs(cfg)...)...), state, err
}

// Refresh implements bridge.ChatSource: it takes a chat template over that was edited since it was last looked at. A
// template that does not load leaves the one before it serving.
func (c *pluginController) Refresh(ctx context.Context) {
	if s := c.chat.Load(); slices.EqualFunc(s.stamps, filestamp.All(s.files), filestamp.Stamp.Same) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.chat.Load()
	now := filestamp.All(s.files)
	if slices.EqualFunc(s.stamps, now, filestamp.Stamp.Same) { // another request was first
		return
	}
	specs, next, err := c.specs(c.settings())
	if err == nil {
		// It logs what fails and what is loaded. A client that leaves must not lose the edit for the others.
		_, err = c.set.Reload(context.WithoutCancel(ctx), specs)
	}
	if err != nil {
		c.log.Error("reload of the chat template failed; keeping the previous one", "error", err)
		next = &chatState{chatSetup: s.chatSetup, files: s.files, stamps: now}
	}
	c.chat.Store(next)
}

// watchTemplates does so without a request, twice in the time given until ctx ends: an
// edit that does not load is told to who made it, not when somebody speaks. One counts
// when it looks the same twice, so that a file is not read while it is being written.
func (c *pluginController) watchTemplates(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(max(every/2, time.Millisecond))
	defer tick.Stop()
	var before []filestamp.Stamp
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := filestamp.All(c.chat.Load().files)
		if slices.EqualFunc(now, before, filestamp.Stamp.Same) {
			c.Refresh(ctx)
		}
		before = now
	}
}

// names returns the plugins that could be loaded.
func (c *pluginController) names() []string {
	names := []string{}
	for _, s := range c.set.List() {
		if s.State != plugins.StateFailed && s.State != plugins.StateLoading {
			names = append(names, s.Name)
		}
	}
	return names
}

// List returns the plugins as clients and metrics see them.
func (c *pluginController) List() []server.Plugin {
	list := c.set.List()
	out := make([]server.Plugin, len(list))
	for i, s := range list {
		out[i] = shownPlugin(s)
	}
	return out
}

// adminError says what an error of the plugins means to who administrates them.
func adminError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, server.ErrUnsigned), errors.Is(err, server.ErrRefused):
		return err
	case errors.Is(err, plugins.ErrUnknown):
		return fmt.Errorf("%w%s%s", server.ErrNoPlugin, strings.TrimPrefix(err.Error(), plugins.ErrUnknown.Error()),
			bridge.Suggestion(err))
	case errors.Is(err, plugins.ErrConfigured):
		return fmt.Errorf("%w%s", server.ErrNotUploaded, strings.TrimPrefix(err.Error(), plugins.ErrConfigured.Error()))
	case errors.Is(err, plugins.ErrNoPlace): // which is the machine's state, whatever the module is
		return fmt.Errorf("%w: %s", server.ErrNoRoom, loadText(err))
	}
	return fmt.Errorf("%w: %w%s", server.ErrRefused, reworded{loadText(err), err}, bridge.Suggestion(err))
}

// reworded is an error with another text.
type reworded struct {
	text string
	error
}

// Error implements error.
func (r reworded) Error() string { return r.text }

// Unwrap gives the error.
func (r reworded) Unwrap() error { return r.error }

// loadText is the text of an error of the plugins behind one that says already that something was refused.
func loadText(err error) string { return strings.TrimPrefix(err.Error(), plugins.ErrLoad.Error()+": ") }

// reload takes over what next says of plugins and conversations, and returns the
// settings that run then: those of conversations may be the ones before.
func (c *pluginController) reload(ctx context.Context, next config.Config) (_ admin.Report, _ config.Config,
	err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	demanded, read := c.demands.Load(), next
	c.given.Store(&read)
	defer func() {
		if err != nil {
			c.demands.Store(demanded)
			c.given.Store(c.running.Load())
		}
	}()
	specs, state, err := c.specs(next)
	if err != nil {
		return admin.Report{}, c.settings(), fmt.Errorf("%w: %w", server.ErrRefused, err)
	}
	wrong := state.checkNamed(specs, c.set)
	if wrong != nil { // before anything is replaced: what serves may be a file that does not parse any more
		specs, state, err = c.keepChat(&next)
	}
	if err != nil {
		return admin.Report{}, c.settings(), adminError(err)
	}
	done, err := c.set.Reload(ctx, specs)
	if err != nil {
		return admin.Report{}, c.settings(), adminError(placed(next, err))
	}
	report := admin.Report{Loaded: done.Loaded, Removed: done.Removed}
	for _, name := range slices.Sorted(maps.Keys(done.Failed)) {
		err := done.Failed[name]
		text := strings.TrimPrefix(loadText(err), name+": ") + bridge.Suggestion(err)
		if of := (*plugins.SpecError)(nil); errors.As(err, &of) {
			if at := pluginPlace(next, of); at != "" {
				text = at + ": " + text
			}
		}
		report.Failed = append(report.Failed, admin.Failure{Name: name, Error: text})
	}
	for _, name := range done.Late {
		report.Failed = append(report.Failed, admin.Failure{Name: name,
			Error: "it is still being loaded: GET /admin/plugins/" + name + " tells what comes of it"})
	}
	if wrong == nil {
		if wrong = state.check(c.set); wrong != nil {
			if specs, state, err = c.keepChat(&next); err == nil {
				_, err = c.set.Reload(ctx, specs)
			}
			if err != nil {
				return admin.Report{}, c.settings(), adminError(err)
			}
		}
	}
	if wrong != nil {
		c.log.Error("reload of the chat settings failed; keeping the previous ones", "error", wrong)
		report.Failed = append(report.Failed, admin.Failure{Name: "model", Error: wrong.Error()})
	}
	c.chat.Store(state)
	c.running.Store(&next)
	return report, next, nil
}

// keepChat is specs for settings whose conversations stay as they are.
func (c *pluginController) keepChat(next *config.Config) ([]plugins.Spec, *chatState, error) {
	next.Model.Template, next.Model.Tools = c.settings().Model.Template, c.settings().Model.Tools
	return c.specs(*next)
}

// settings are those that run.
func (c *pluginController) settings() config.Config {
	return *c.running.Load()
}

// Current implements bridge.ChatSource.
func (c *pluginController) Current() *plugins.ChatPlugins { return &c.chat.Load().use }

// Settled implements bridge.ChatSource.
func (c *pluginController) Settled() *plugins.ChatPlugins {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Current()
}

// watch loads modules and templates whose files change, until ctx ends.
func (c *pluginController) watch(ctx context.Context) {
	every := time.Duration(c.settings().Plugins.Watch)
	if every <= 0 {
		return
	}
	var templates sync.WaitGroup
	templates.Go(func() { c.watchTemplates(ctx, every) })
	defer templates.Wait()
	c.set.Watch(ctx, every)
}

// specsOf returns the plugins of the settings as the set wants them.
func specsOf(list []config.Plugin, d demands) ([]plugins.Spec, error) {
	specs := make([]plugins.Spec, len(list))
	for i, p := range list {
		text, err := p.ConfigText()
		if err != nil {
			return nil, err
		}
		specs[i] = plugins.Spec{
			Name: p.Name, Kind: p.Kind, Source: p.Source, SHA256: p.SHA256, OnError: plugins.OnError(p.OnError),
			Apply: plugins.Apply(p.Apply), Limits: limitsOf(p.Limits), Config: text,
			OnFull: plugins.GuardEnd(p.OnFull), OnExhausted: plugins.GuardEnd(p.OnExhausted),
		}
		if d.of(p) {
			specs[i].Verify = func(module []byte) error { return d.file(p.Source, module) }
		}
		specs[i].Clients = clientsOf(p.Keys)
	}
	return specs, nil
}

func limitsOf(l config.PluginLimits) plugins.Limits {
	return plugins.Limits{
		Memory: int64(l.Memory), FuelPerStep: l.FuelPerStep, FuelPerRequest: l.FuelPerRequest, FuelLoad: l.FuelLoad,
		TimePerStep: time.Duration(l.TimePerStep), TimePerRequest: time.Duration(l.TimePerRequest),
		TimeLoad: time.Duration(l.TimeLoad),
		Share:    l.Share,
	}
}

// PluginLimits are the limits that hold for a plugin of the settings, given its module: those that it sets, and the
// defaults of what it is.
func PluginLimits(p config.Plugin, module []byte) (config.PluginLimits, error) {
	l, err := plugins.LimitsOf(p.Source, module, limitsOf(p.Limits))
	return useOf(plugins.Upload{Limits: l}).Limits, err
}

// guardOf is what a plugin did as a guard, nil where it is none.
func guardOf(s plugins.Status) *server.Guard {
	if !slices.Contains(s.Kinds, abi.KindGuard) {
		return nil
	}
	g := s.Stats.Guard
	return &server.Guard{Verdicts: g.Verdicts, Held: g.Held, Rewound: g.Rewound}
}

// shownPlugin is a plugin's status as clients and metrics see it.
func shownPlugin(s plugins.Status) server.Plugin {
	states := map[plugins.State]string{
		plugins.StateActive: server.PluginReady, plugins.StateFailed: server.PluginFailed,
		plugins.StateLoading: server.PluginLoading,
	}
	return server.Plugin{
		Name: s.Name, Version: s.Version, Doc: s.Doc, SHA256: s.SHA256, Source: s.Source, Kinds: s.Kinds,
		Languages: s.Languages,
		State:     states[s.State], OffClients: s.OffClients, Error: s.Error,
		Apply: string(s.Apply), OnError: string(s.OnError),
		OnFull: string(s.OnFull), OnExhausted: string(s.OnExhausted),
		Keys:   keysOf(s.Clients),
		Limits: useOf(plugins.Upload{Limits: s.Limits}).LimitsSet(),
		Params: s.Params, Loaded: s.Loaded,
		Calls: s.Stats.Calls, Seconds: s.Stats.Seconds, Fuel: s.Stats.Fuel,
		Paused: s.Stats.Paused, Slices: s.Stats.Slices, Faults: s.Stats.Faults,
		Skips: s.Stats.Skips, Resets: s.Stats.Resets, Loads: s.Stats.Loads,
		InstancesOut: s.Stats.InstancesOut, InstancesWaiting: s.Stats.InstancesWaiting,
		InstanceBytes: s.Stats.InstanceBytes, Guard: guardOf(s),
	}
}
