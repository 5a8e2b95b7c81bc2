package main

import (
	"log/slog"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/admin"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/generate"
	"tgi/server/generateapi"
	"tgi/server/generateapi/store"
	"tgi/server/openai"
	"tgi/server/tgi"
)

// apisOf returns all APIs of a server for the model and its plugins.
// kept is what the generate API keeps its states in.
func apisOf(cfg config.Config, in *instance, c *control, f *front, kept store.Store, log *slog.Logger) []server.API {
	svc := serviceOf(cfg, in, c, f)
	spoken, ok := dialect.Of(cfg.Server.Dialect)
	if !ok {
		panic("BUG: the settings name the dialect " + cfg.Server.Dialect)
	}
	openAI := openai.New(openai.Options{
		Service: svc, Model: in.built.Name, Version: version, ComputeType: cfg.Server.ComputeType,
		MaxPrompts: in.limits.MaxClientBatchSize, TokenBytes: in.tokenizer.Bytes, Dialect: spoken,
	})
	operate := admin.New(admin.Options{Plugins: c, UploadLimit: int64(cfg.Plugins.UploadLimit)})
	native := tgi.New(tgi.Options{
		Service: svc,
		Dialect: spoken,
		Info: tgi.Info{
			ModelID: in.built.Name, ModelDType: string(in.built.Weights), DeviceType: "cpu",
			Limits: in.limits, Version: version,
		},
		Plugins:     c.List,
		ComputeType: cfg.Server.ComputeType,
		ChatDraft:   openAI.ChatDraft, Chat: openAI.Chat, Completion: openAI.Complete,
		MessagesAPI: cfg.Server.MessagesAPI, PredictRoute: cfg.Server.PredictRoute, HealthRoute: cfg.Server.HealthRoute,
		Ready:  f.server.Ready,
		Beside: []server.API{openAI, operate},
	})
	return []server.API{native, openAI, operate, generateAPIOf(cfg, in, f, svc, kept, log)}
}

// generateAPIOf returns the API of the routes below /api.
func generateAPIOf(cfg config.Config, in *instance, f *front, svc *generate.Service, kept store.Store, log *slog.Logger) server.API {
	return generateapi.New(generateapi.Options{
		Service: svc, Store: kept, Config: cfg.GenerateAPI,
		Model: in.built.Name, Vocab: in.built.Vocab, EOS: in.eos,
		MaxInput: in.limits.MaxInputTokens, MaxTotal: in.limits.MaxTotalTokens,
		Speak:   func(context []llm.Token) generateapi.Speech { return in.tokenizer.Stream(context) },
		Ready:   f.server.Ready,
		Origins: cfg.Server.CORSAllowOrigin, MessageLimit: int64(cfg.Server.PayloadLimit), WriteTimeout: time.Duration(cfg.Server.WriteTimeout),
		Log: log,
	})
}

// openKept returns the store of the generate API.
func openKept(c config.GenerateStore) (store.Store, error) {
	limits := store.Limits{TTL: time.Duration(c.TTL), MaxState: int(c.MaxState), MaxEntries: c.MaxEntries, MaxMemory: int64(c.MaxMemory)}
	if c.RedisURL != "" {
		return store.OpenRedis(c.RedisURL, limits)
	}
	return store.NewMemory(limits), nil
}

// serviceOf returns what runs requests of every API.
func serviceOf(cfg config.Config, in *instance, c *control, f *front) *generate.Service {
	svc := generate.New(f.tracer.Engine(generate.On(in.engine)), encoder{in.tokenizer}, generate.Limits{
		MaxConcurrent: in.limits.MaxConcurrentRequests,
		MaxBestOf:     in.limits.MaxBestOf, MaxStop: in.limits.MaxStopSequences, MaxTopN: in.limits.MaxTopNTokens,
		MaxInput: in.limits.MaxInputTokens, MaxTotal: in.limits.MaxTotalTokens,
		Workers:        in.limits.ValidationWorkers,
		Vocab:          in.built.Vocab,
		WatermarkGamma: float32(in.limits.WatermarkGamma), WatermarkDelta: float32(in.limits.WatermarkDelta),
	}, f.metrics).WithPlugins(userCode{c.set}).WithChat(conversations{c})
	if !cfg.Server.DisableGrammar {
		svc.WithGrammars(grammars{c.set})
	}
	return svc
}
