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

// serverAPIs returns the APIs of the server: those that answer from a model, behind
// what finds it, and those about the server itself.
func (f *fleet) serverAPIs() []server.API {
	return append([]server.API{dispatch.New(f.apis(f.cfg, nil), f)}, f.ownAPIs(f.cfg)...)
}

// ownAPIs are about plugins and models.
func (f *fleet) ownAPIs(cfg config.Config) []server.API {
	return []server.API{
		admin.New(admin.Options{Plugins: f, UploadLimit: int64(cfg.Plugins.UploadLimit)}),
		modelsapi.New(shelf{f}),
	}
}

// apis returns the APIs of a model. Those of none, nil, say which routes there are
// and answer what needs no model.
func (f *fleet) apis(cfg config.Config, s *served) []server.API {
	spoken, ok := dialect.Of(cfg.Server.Dialect)
	if !ok {
		panic("BUG: the settings name the dialect " + cfg.Server.Dialect)
	}
	o := openai.Options{Version: version, ComputeType: cfg.Server.ComputeType, Dialect: spoken, Model: cfg.DefaultModel()}
	n := tgi.Options{
		Dialect:     spoken,
		Info:        tgi.Info{ModelID: cfg.DefaultModel(), DeviceType: "cpu", Limits: cfg.Limits, Version: version},
		ComputeType: cfg.Server.ComputeType,
		MessagesAPI: cfg.Server.MessagesAPI, PredictRoute: cfg.Server.PredictRoute, HealthRoute: cfg.Server.HealthRoute,
		Ready: f.front.server.Ready,
	}
	g := generateapi.Options{
		Store: f.kept, Config: cfg.GenerateAPI, Ready: f.front.server.Ready,
		Origins: cfg.Server.CORSAllowOrigin, MessageLimit: int64(cfg.Server.PayloadLimit), WriteTimeout: time.Duration(cfg.Server.WriteTimeout),
		ReadTimeout: time.Duration(cfg.Server.ReadTimeout),
		Log:         f.log,
	}
	if s != nil {
		svc := s.service(cfg, f.front)
		o.Service, o.Model, o.MaxPrompts, o.TokenBytes = svc, string(s.id), s.limits.MaxClientBatchSize, s.tokenizer.Bytes
		n.Service, n.Info.ModelID, n.Info.ModelDType, n.Info.Limits = svc, string(s.id), string(s.built.Weights), s.limits
		if info, err := f.library.Describe(s.id); err == nil && info.Origin != nil {
			n.Info.ModelSHA = info.Origin.Revision
		}
		n.Plugins = s.control.List
		g.Stopping = s.stopping.Load
		g.Service, g.Model, g.Vocab, g.EOS = svc, string(s.id), s.built.Vocab, s.eos
		g.MaxInput, g.MaxTotal = s.limits.MaxInputTokens, s.limits.MaxTotalTokens
		g.Speak = func(context []llm.Token) generateapi.Speech { return s.tokenizer.Stream(context) }
	}
	openAI := openai.New(o)
	generating := generateapi.New(g)
	n.ChatDraft, n.Chat, n.Completion = openAI.ChatDraft, openAI.Chat, openAI.Complete
	n.Beside = append([]server.API{openAI, generating}, f.ownAPIs(cfg)...)
	return []server.API{tgi.New(n), openAI, generating}
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
