package main

import (
	"fmt"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/api/generateapi"
	"tgi/server/api/generateapi/store"
	"tgi/server/api/modelsapi"
	"tgi/server/api/openai"
	"tgi/server/api/tgi"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// apis returns the APIs of the server: those that answer from a model, and those about
// plugins and models.
func (f *fleet) apis() []server.API {
	cfg := f.cfg
	spoken, ok := dialect.Of(cfg.Server.Dialect)
	if !ok {
		panic("BUG: the settings name the dialect " + cfg.Server.Dialect)
	}
	openAI := openai.New(openai.Options{Models: f, Version: version, ComputeType: cfg.Server.ComputeType, Dialect: spoken})
	beside := []server.API{
		openAI,
		generateapi.New(generateapi.Options{
			Models: f, Store: f.kept, Config: cfg.GenerateAPI, Ready: f.front.server.Ready,
			Origins: cfg.Server.CORSAllowOrigin, MessageLimit: int64(cfg.Server.PayloadLimit), WriteTimeout: time.Duration(cfg.Server.WriteTimeout),
			ReadTimeout: time.Duration(cfg.Server.ReadTimeout),
			Log:         f.log,
		}),
		admin.New(admin.Options{Plugins: f, UploadLimit: int64(cfg.Plugins.UploadLimit)}),
		modelsapi.New(shelf{f}),
	}
	native := tgi.New(tgi.Options{
		Models: f, Dialect: spoken, Version: version, Limits: cfg.Limits, ComputeType: cfg.Server.ComputeType,
		MessagesAPI: cfg.Server.MessagesAPI, PredictRoute: cfg.Server.PredictRoute, HealthRoute: cfg.Server.HealthRoute,
		Ready:     f.front.server.Ready,
		ChatDraft: openai.ChatDraft, Chat: openAI.Chat, Completion: openAI.Complete,
		Beside: beside,
	})
	return append([]server.API{native}, beside...)
}

// model returns what the APIs may ask of s.
func (f *fleet) model(cfg config.Config, s *served) *dispatch.Model {
	m := &dispatch.Model{
		ID: string(s.id), Service: s.service(cfg, f.front), Limits: s.limits, DType: string(s.built.Weights),
		Vocab: s.built.Vocab, EOS: s.eos, TokenBytes: s.tokenizer.Bytes,
		Decoder: func(context []llm.Token) dispatch.Decoder { return s.tokenizer.Stream(context) },
		Plugins: s.control.List, Stopping: s.stopping.Load,
	}
	if info, err := f.library.Describe(s.id); err == nil && info.Origin != nil {
		m.Revision = info.Origin.Revision
	}
	return m
}

// openKept returns the store of the generate API.
func openKept(c config.GenerateStore) (store.Store, error) {
	limits := store.Limits{TTL: time.Duration(c.TTL), MaxState: int(c.MaxState), MaxEntries: c.MaxEntries, MaxMemory: int64(c.MaxMemory)}
	if c.RedisURL != "" {
		s, err := store.OpenRedis(c.RedisURL, limits)
		if err != nil {
			return nil, fmt.Errorf("generate_api.store: %w", err)
		}
		return s, nil
	}
	return store.NewMemory(limits), nil
}

// service returns what runs a model's requests of every API.
func (s *served) service(cfg config.Config, f *front) *generate.Service {
	l := s.limits
	svc := generate.New(f.tracer.Engine(generate.On(s.engine)), encoder{s.tokenizer}, generate.Limits{
		MaxConcurrent: l.MaxConcurrentRequests,
		MaxBestOf:     l.MaxBestOf, MaxStop: l.MaxStopSequences, MaxTopN: l.MaxTopNTokens,
		MaxInput: l.MaxInputTokens, MaxTotal: l.MaxTotalTokens,
		Workers:        l.ValidationWorkers,
		Vocab:          s.built.Vocab,
		WatermarkGamma: float32(l.WatermarkGamma), WatermarkDelta: float32(l.WatermarkDelta),
	}, f.metrics).WithPlugins(userCode{s.control.set}).WithChat(conversations{s.control})
	if !cfg.Server.DisableGrammar {
		svc.WithGrammars(grammars{s.control.set})
	}
	return svc
}
