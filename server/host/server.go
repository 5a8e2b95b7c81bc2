package host

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"

	"tgi/models"
	"tgi/runtime/embed"
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/embeddings"
	"tgi/server/generate"
	"tgi/server/host/bridge"
)

// Options are what a server is made of.
type Options struct {
	// Config are valid settings.
	Config config.Config
	// Version is the program's, for /info, traces and downloads.
	Version string
	// Build differs between any two programs: what plugins had become when they were loaded is kept for the next start
	// of the same one. "" keeps nothing.
	Build string
	Log   *slog.Logger
	// Reload reads the settings again; nil keeps those of Config.
	Reload ReloadFunc
	// Observer is told of every step of every engine besides the metrics; nil is nobody.
	Observer engine.Observer
	// Brief is set by a command that ends soon: the server that may run on the same settings keeps its folders.
	Brief bool

	device func(config.Config) (device, error) // in tests instead of openDevice
}

// Server is a server with its models.
type Server struct {
	boot   *bootServer
	models *manager
	// preloading waits for the models that are loaded at the start beside the default one.
	preloading func()
}

// Serve serves until ctx ends. The addresses are taken, and answer probes, before the
// default model is loaded. A value from hup reloads the settings; what hup has while
// the model loads is kept. ready is called once, when the model is loaded, with the
// public address.
func Serve(ctx context.Context, o Options, hup <-chan os.Signal, ready func(*Server, net.Addr)) error {
	boot, err := newBootServer(o)
	if err != nil {
		return err
	}
	public, private, err := server.Listen(o.Config.Server, o.Log)
	if err != nil {
		return errors.Join(err, boot.Close())
	}
	warnOpen(o, public.Addr())
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- boot.server.ServeBoth(serving, public, private) }()
	s, err := boot.open(serving, o)
	if err != nil {
		stop()
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) { // whoever ends it early gets what was asked for
			o.Log.Info("stopping before the model was loaded")
			err = nil
		}
		return errors.Join(err, <-served, boot.Close())
	}
	debug.FreeOSMemory() // what is left of tokenizers' files, modules and settings is as large as what stays of them
	forgetMapped()
	s.accept()
	var watchers sync.WaitGroup
	watchers.Go(func() { s.models.watch(serving, hup) })
	ready(s, public.Addr())
	err = <-served
	if err == nil {
		o.Log.Info("drained, stopping")
	}
	stop()
	watchers.Wait()
	// All requests were answered: what fails now, as sending the last traces, does not undo that.
	if wrong := s.Close(); wrong != nil {
		o.Log.Error("stopping did not go to plan", "error", wrong)
	}
	return err
}

// warnOpen says that a server without keys can be reached from other machines.
func warnOpen(o Options, addr net.Addr) {
	if tcp, ok := addr.(*net.TCPAddr); !o.Config.Open() || ok && tcp.IP.IsLoopback() {
		return
	}
	o.Log.Warn("open: whoever reaches this address may use the server; set server.api_keys, or server.hostname to 127.0.0.1",
		"address", addr.String())
}

// Open opens the default model and builds a server that does not listen. Models beside
// the default one are still loading when it returns, until ctx ends.
func Open(ctx context.Context, o Options) (*Server, error) {
	boot, err := newBootServer(o)
	if err != nil {
		return nil, err
	}
	s, err := boot.open(ctx, o)
	if err != nil {
		return nil, errors.Join(err, boot.Close())
	}
	s.accept()
	return s, nil
}

// accept has requests come to the models.
func (s *Server) accept() { s.boot.server.Open(s.models.apis(), s.models.healthy) }

// open is Open behind a server that answers already, without accepting requests.
func (b *bootServer) open(ctx context.Context, o Options) (*Server, error) {
	if err := checkMemory(system.bounds()); err != nil {
		return nil, err
	}
	choose := openDevice
	if o.device != nil {
		choose = o.device
	}
	d, err := choose(o.Config)
	if err != nil {
		return nil, err
	}
	if !d.onGPU() {
		if err := checkCaches(&o.Config, system.total()); err != nil {
			return nil, err
		}
	}
	told := observers{b.metrics, lateLog{o.Log}}
	if o.Observer != nil {
		told = append(told, o.Observer)
	}
	all, err := newManager(o, b, d, told)
	if err != nil {
		return nil, err
	}
	wait, err := all.preload(ctx)
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	s := &Server{boot: b, models: all, preloading: wait}
	limits, blockSize := o.Config.Limits, ort.Options{}.BlockSize()
	if m := s.defaultModel(); m != nil {
		limits, blockSize = m.limits, m.backend.BlockSize()
	}
	b.metrics.Watch(bucketLimits(limits), all.stats)
	b.metrics.WatchPlugins(all.List)
	b.metrics.WatchCanaries(all.canaryMetrics)
	b.metrics.WatchModels(all.modelMetrics)
	if all.kvDisk != nil {
		b.metrics.WatchKVDisk(all.kvDiskState)
	}
	if all.kvEvents != nil {
		b.metrics.WatchKVEvents(all.kvEventsMetrics)
	}
	b.metrics.WatchGrammars(all.grammarMetrics)
	b.metrics.WatchMemory(all.memoryMetrics)
	b.metrics.WatchTexts(all.textsStats)
	b.metrics.WatchAdapters(all.adapterMetrics)
	if d.onGPU() {
		b.metrics.WatchDevice(all.deviceMetrics)
	}
	if o.Config.Metrics.VLLMNames {
		b.metrics.WatchVLLM(all.stats, blockSize, all.adapterMetrics)
	}
	if all.batches, err = openBatches(o.Config, b.server, o.Log); err != nil {
		err = errors.Join(err, all.Close())
		wait()
		return nil, err
	}
	b.server.WatchLoad(all.endpointLoad)
	turns := bridge.Turns(all.turns)
	b.server.ShareProcessors(turns)
	if all.batches != nil {
		all.batches.ShareProcessors(func(owner string, f func()) {
			_ = generate.InTurn(context.Background(), turns, server.ClientOfBatches(owner), f) // which never ends
		})
	}
	b.server.WatchDemand(func() bool { return all.demand.Rows() > 0 })
	return s, nil
}

// Close unloads the models and sends the last traces. Requests are over.
func (s *Server) Close() error {
	err := s.models.Close()
	s.preloading() // which ends with the models
	return errors.Join(err, s.boot.Close())
}

// defaultModel returns the default model, or nil where it is not loaded.
func (s *Server) defaultModel() *loadedModel { return s.models.defaultModel() }

// Serve serves on l until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return s.boot.server.Serve(ctx, l) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.boot.server.ServeHTTP(w, r) }

// Models returns the ids of all models, loaded or not, the default first.
func (s *Server) Models() []string { return s.models.names() }

// ModelInfo describes a model that is loaded.
type ModelInfo struct {
	ID, Name     string // Name is that of its checkpoint
	Architecture string
	// Weights is the form of the matrices, WeightBytes their size.
	// Task is what the model is for. All but a model that generates have no cache, limits, chat and plugins.
	Task        server.Task
	Weights     string
	WeightBytes int64
	Params      int64
	Threads     int
	// Device is cpu, or cuda and the device's number: cuda:0. Backend says more of it.
	Device, Backend string
	// Blocks is the number of cache blocks of BlockTokens tokens; they hold CacheTokens tokens in CacheBytes bytes.
	Blocks, BlockTokens, CacheTokens int
	CacheBytes                       int64
	// KVDisk is where prompts of the model are kept; nil where they are not.
	KVDisk *server.KVDisk
	Limits config.Limits
	// Chat says what conversations go through.
	Chat    string
	Plugins []string
}

// Default describes the default model. ok is false where it is not loaded.
func (s *Server) Default() (info ModelInfo, ok bool) {
	if e := s.models.defaultEmbedder(); e != nil {
		return ModelInfo{ID: string(e.id), Name: e.built.Name, Architecture: e.built.Architecture,
			Weights: string(e.built.Weights), WeightBytes: e.built.WeightBytes, Params: e.built.Params,
			Threads: cmp.Or(s.models.cfg.Runtime.Threads, ort.Threads()), Device: string(models.CPU),
			Backend: onCPUText(), Task: e.task}, true
	}
	m := s.defaultModel()
	if m == nil {
		return info, false
	}
	info = ModelInfo{
		ID: string(m.id), Name: m.built.Name, Architecture: m.built.Architecture, Weights: string(m.built.Weights),
		WeightBytes: m.built.WeightBytes,
		Params:      m.built.Params, Threads: m.backend.ThreadCount(), Device: s.models.device.setting(),
		Backend:     s.models.device.text(m.backend),
		Blocks:      m.backend.Blocks(),
		BlockTokens: m.backend.BlockSize(), CacheTokens: cacheTokens(m.backend), CacheBytes: m.backend.CacheBytes(),
		Limits: m.limits,
		Chat:   m.control.chat.Load().String(), Plugins: m.control.names(),
	}
	if m.keeps {
		state := s.models.kvDiskState()
		info.KVDisk = &state
	}
	return info, true
}

// Device names what models run on as the settings do, and says why.
func (s *Server) Device() (name, why string) { return s.models.device.setting(), s.models.device.Why }

// Probe has the default model generate one token.
func (s *Server) Probe(ctx context.Context) error {
	if e := s.models.defaultEmbedder(); e != nil {
		text := "a"
		in := []embeddings.Input{{Text: text, Pair: &text}}
		_, err := e.serves.Service.Run(ctx, in, embeddings.Options{}, embed.Vector)
		return err
	}
	m := s.defaultModel()
	if m == nil {
		return llm.ErrDraining
	}
	stream, err := m.engine.Submit(ctx, engine.Request{Prompt: m.tokenizer.Encode("a", true), Params: llm.Params{
		Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 1,
	}})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		if _, err := stream.Next(ctx); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// bucketTokens is how far the buckets of token counts go where no model says it.
const bucketTokens = 4096

// bucketLimits are limits that the metrics' buckets can be made from.
func bucketLimits(l config.Limits) config.Limits {
	l.MaxTotalTokens = cmp.Or(l.MaxTotalTokens, bucketTokens)
	l.MaxInputTokens = cmp.Or(l.MaxInputTokens, l.MaxTotalTokens-1)
	return l
}

// observers are told one after the other.
type observers []engine.Observer

// Step implements engine.Observer.
func (o observers) Step(r engine.Report) {
	for _, one := range o {
		one.Step(r)
	}
}

// lateLog logs which steps went on without sequences whose plugins or masks were not done.
type lateLog struct{ log *slog.Logger }

// Step implements engine.Observer.
func (l lateLog) Step(r engine.Report) {
	if r.Late > 0 {
		l.log.Debug("plugins or masks are late: their sequences are parked", "late", r.Late, "parked", r.Parked, "forward",
			r.Forward.String(), "total", r.Total.String())
	}
}
