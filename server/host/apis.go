package host

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/api/batchapi"
	"tgi/server/api/generateapi"
	"tgi/server/api/generateapi/store"
	"tgi/server/api/messages"
	"tgi/server/api/modelsapi"
	"tgi/server/api/ollama"
	"tgi/server/api/openai"
	"tgi/server/api/responses"
	responsestore "tgi/server/api/responses/store"
	"tgi/server/api/routing"
	"tgi/server/api/texts"
	"tgi/server/api/tgi"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/host/bridge"
)

// apis returns the APIs of the server: those that answer from a model, and those about
// plugins and models.
func (f *manager) apis() []server.API {
	cfg := f.cfg
	spoken, ok := dialect.Of(cfg.Server.Dialect)
	if !ok {
		panic("BUG: the settings name the dialect " + cfg.Server.Dialect)
	}
	openAI := openai.New(openai.Options{Models: f, Version: f.boot.version, ComputeType: cfg.Server.ComputeType,
		MaxPrompts: cfg.Limits.MaxClientBatchSize, Tools: f.tools,
		Dialect: spoken})
	beside := []server.API{
		openAI,
		generateapi.New(generateapi.Options{
			Models: f, Store: f.continuations, Config: cfg.GenerateAPI, Ready: f.boot.server.Ready,
			Origins: cfg.Server.CORSAllowOrigin, MessageLimit: int64(cfg.Server.PayloadLimit),
			WriteTimeout: time.Duration(cfg.Server.WriteTimeout),
			ReadTimeout:  time.Duration(cfg.Server.ReadTimeout),
			Log:          f.log,
		}),
		messages.New(f, f.tools),
		responses.New(responses.Options{Models: f, Tools: f.tools, Store: f.responses,
			Places: cfg.Limits.MaxConcurrentRequests, Log: f.log}),
		admin.New(admin.Options{Plugins: &notedPlugins{manager: f}, UploadLimit: int64(cfg.Plugins.UploadLimit),
			Usage: f.boot.server.Usage, Live: f.live}),
		modelsapi.New(modelsAPI{f}),
		batchapi.New(batchapi.Options{Store: f.batches, MaxFile: int64(cfg.Batches.MaxFile)}),
		routing.New(routing.Options{Models: f, Load: f.routerLoad, Version: f.boot.version}),
	}
	if cfg.Server.Ollama {
		beside = append(beside, ollama.New(ollama.Options{Models: f, Texts: f, Library: ollamaAPI{modelsAPI{f}},
			Version: f.boot.version, Keyless: len(cfg.AllKeys()) == 0}))
	}
	ofTexts := texts.New(texts.Options{Models: f, Version: f.boot.version, ComputeType: cfg.Server.ComputeType})
	beside = append(beside, ofTexts)
	native := tgi.New(tgi.Options{
		Texts:  ofTexts,
		Models: f, Dialect: spoken, Version: f.boot.version, Limits: cfg.Limits, ComputeType: cfg.Server.ComputeType,
		MessagesAPI: cfg.Server.MessagesAPI, PredictRoute: cfg.Server.PredictRoute, HealthRoute: cfg.Server.HealthRoute,
		Ready:     f.boot.server.Ready,
		ChatDraft: openai.ChatDraft, Chat: openAI.Chat, Completion: openAI.Complete,
		Beside: beside, Plugins: f.eachPlugin,
	})
	return append([]server.API{native}, beside...)
}

// model returns what the APIs may ask of s.
func (f *manager) model(cfg config.Config, s *loadedModel) *dispatch.Model {
	m := &dispatch.Model{
		ID: string(s.id), Service: s.service(cfg, f), Limits: s.limits, DType: string(s.built.Weights),
		Architecture: s.built.Architecture, Images: s.images != nil,
		Device: string(s.built.Device), Speculate: s.engine.Speculates(),
		Vocab: s.built.Vocab, EOS: s.eos, TokenBytes: s.tokenizer.Bytes,
		Decoder: func(context []llm.Token) dispatch.Decoder { return s.tokenizer.Stream(context) },
		Plugins: func() []server.Plugin { return f.publicPlugins(s.control) }, Stopping: s.stopping.Load,
		Adapters: s.adapters.names,
	}
	if s.keeps {
		m.KVDisk = f.kvDiskState
	}
	if b, ok := s.backend.(*ort.CUDA); ok {
		d := f.device.CUDA
		m.GPU = &dispatch.GPU{Name: d.Name, Index: d.Index, Memory: d.Memory, Cache: b.CacheBytes(),
			Graphs: b.GraphSizes()}
	}
	if info, err := f.library.Describe(s.id); err == nil && info.Origin != nil {
		m.Revision = info.Origin.Revision
	}
	return m
}

// openContinuations returns the store of the generate API. Redis may come up later, so that one which does not answer
// is a warning.
func openContinuations(c config.GenerateStore, log *slog.Logger) (store.Store, error) {
	limits := store.Limits{TTL: time.Duration(c.TTL), MaxState: int(c.MaxState), MaxEntries: c.MaxEntries,
		MaxMemory: int64(c.MaxMemory)}
	if c.RedisURL != "" {
		s, err := store.OpenRedis(c.RedisURL, limits)
		if err != nil {
			return nil, fmt.Errorf("generate_api.store: %w", err)
		}
		s.Probe(func(err error) {
			log.Warn("nobody answers at generate_api.store.redis_url: texts can't be continued until somebody does",
				"error", err)
		})
		return s, nil
	}
	return store.NewMemory(limits), nil
}

// openResponses returns the store of the Responses API, as openContinuations does.
func openResponses(c config.Responses, log *slog.Logger) (responsestore.Store, error) {
	limits := responsestore.Limits{TTL: time.Duration(c.TTL), MaxRecord: int(c.MaxResponse),
		MaxOwnerRecords: c.MaxKeyResponses, MaxOwnerBytes: int64(c.MaxKeyMemory), MaxRecords: c.MaxResponses,
		MaxBytes: int64(c.MaxMemory)}
	if c.RedisURL == "" {
		return responsestore.NewMemory(limits), nil
	}
	s, err := responsestore.OpenRedis(c.RedisURL, limits)
	if err != nil {
		return nil, err
	}
	s.Probe(func(err error) {
		log.Warn("nobody answers at responses.redis_url: responses can't be kept until somebody does", "error", err)
	})
	return s, nil
}

// service returns what runs a model's requests of every API.
func (s *loadedModel) service(cfg config.Config, f *manager) *generate.Service {
	l := s.limits
	svc := generate.New(server.Engine(string(s.id), generate.On(s.engine)), s.tokenizer, generate.Limits{
		MaxConcurrent: l.MaxConcurrentRequests,
		MaxBestOf:     l.MaxBestOf, MaxStop: l.MaxStopSequences, MaxTopN: l.MaxTopNTokens,
		MaxInput: l.MaxInputTokens, MaxTotal: l.MaxTotalTokens,
		Workers:        l.ValidationWorkers,
		Vocab:          s.built.Vocab,
		ProgramTime:    time.Duration(cfg.Plugins.ProgramTime),
		WatermarkGamma: float32(l.WatermarkGamma), WatermarkDelta: float32(l.WatermarkDelta),
	}, f.boot.metrics).WithUserCode(bridge.UserCode(s.control.set, s.control, s.encode,
		cfg.Model.Speculation.Jump == config.JumpForce)).WithClients(server.Client)
	svc.WithHealing(s.hidden, cfg.Model.TokenHealing).WithOrigin(s.origin(f, cfg.Model.Speculation))
	svc.WithTurns(bridge.Turns(f.turns))
	if s.adapters != nil {
		svc.WithAdapters(*s.adapters)
	}
	if s.images != nil {
		s.images.count = f.boot.metrics.Image
		svc.WithImages(s.images)
	} else {
		svc.WithoutImages(f.modelsWithImages)
	}
	if cfg.Server.StrictFields {
		svc.WithStrictFields()
	}
	if cfg.Server.DisableGrammar {
		svc.WithoutGrammars()
	}
	return svc
}

// hidden reports whether a token is no text.
func (s *loadedModel) hidden(t llm.Token) bool {
	return s.tokenizer.Special(t) || slices.Contains(s.eos, t)
}

// encode implements bridge.Encode.
func (s *loadedModel) encode(text string) []llm.Token { return s.tokenizer.EncodeSpans(text, nil) }
