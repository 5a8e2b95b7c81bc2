package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/dispatch"
)

// Load is what a server has to do, of all its models together.
type Load struct {
	// Running and Waiting count sequences.
	Running, Waiting int
	// UsedTokens fit into the cache blocks that sequences hold, TotalTokens into all blocks.
	UsedTokens, TotalTokens int
	// CacheHits is the share of prompt tokens since the start that were found in the cache.
	CacheHits float64
	// MaxRunning is how many sequences run at once at most.
	MaxRunning int
}

// Options of an API.
type Options struct {
	// Models are what /server_info and /model_info are about.
	Models dispatch.Models
	// Load is called for each request that asks for it. It must be cheap and safe for concurrent use.
	Load func() Load
	// Version is the server's.
	Version string
}

// API serves the routes.
type API struct{ options Options }

// New returns the API.
func New(o Options) *API { return &API{o} }

// Routes implements server.API. The version is no secret; the rest is for the keys that may ask about models.
func (a *API) Routes() []server.Route {
	get := func(path string, scope server.Scope, h func(http.ResponseWriter, *http.Request) error) server.Route {
		return server.Route{Method: http.MethodGet, Path: path, Scope: scope, Handle: h}
	}
	return []server.Route{
		get("/v1/loads", server.Models, a.loads),
		get("/version", server.Open, a.version),
		get("/server_info", server.Models, a.serverInfo), get("/get_server_info", server.Models, a.serverInfo),
		get("/model_info", server.Models, a.modelInfo), get("/get_model_info", server.Models, a.modelInfo),
	}
}

func (a *API) version(w http.ResponseWriter, _ *http.Request) error {
	return write(w, struct {
		Version string `json:"version"`
	}{a.options.Version})
}

// rank is the load of SGLang's data-parallel rank.
type rank struct {
	Rank       int     `json:"dp_rank"`
	Running    int     `json:"num_running_reqs"`
	Waiting    int     `json:"num_waiting_reqs"`
	All        int     `json:"num_total_reqs"`
	Used       int     `json:"num_used_tokens"`
	Capacity   int     `json:"max_total_num_tokens"`
	Usage      float64 `json:"token_usage"`
	CacheHits  float64 `json:"cache_hit_rate"`
	Busy       float64 `json:"utilization"`
	MaxRunning int     `json:"max_running_requests"`
}

// loads has one form for every include: sections that SGLang has besides are about what this server lacks.
func (a *API) loads(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if format := query.Get("format"); format != "" && format != "json" {
		return fmt.Errorf("%w: format must be json, and /metrics has Prometheus' form. Given: %.64q", llm.ErrInvalid,
			format)
	}
	if at := query.Get("dp_rank"); at != "" && at != "0" {
		return fmt.Errorf("%w: dp_rank must be 0, the only one. Given: %.64q", llm.ErrInvalid, at)
	}
	l := a.options.Load()
	one := rank{Running: l.Running, Waiting: l.Waiting, All: l.Running + l.Waiting, Used: l.UsedTokens,
		Capacity: l.TotalTokens, Usage: Share(l.UsedTokens, l.TotalTokens), CacheHits: l.CacheHits,
		Busy: min(1, Share(l.Running, l.MaxRunning)), MaxRunning: l.MaxRunning}
	return write(w, struct {
		Timestamp string `json:"timestamp"`
		Version   string `json:"version"`
		Ranks     int    `json:"dp_rank_count"`
		Loads     []rank `json:"loads"`
	}{time.Now().UTC().Format(time.RFC3339Nano), a.options.Version, 1, []rank{one}})
}

// Share returns a part as a share of the whole, 0 of nothing.
func Share(part, whole int) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// model is what the routes tell of the model that a request means; one that generates nothing has a name alone.
type model struct {
	dispatch.Model
	generates bool
}

// use finds that model and lets it go at once: what is told does not change while it is told.
func (a *API) use(r *http.Request) (*model, error) {
	m, release, err := dispatch.Use(a.options.Models, r, "")
	var other *server.WrongTask
	if errors.As(err, &other) {
		return &model{Model: dispatch.Model{ID: other.ID}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer release()
	return &model{*m, true}, nil
}

// serverInfo tells of SGLang's hundreds of settings those that routers and SGLang's own clients read.
func (a *API) serverInfo(w http.ResponseWriter, r *http.Request) error {
	m, err := a.use(r)
	if err != nil {
		return err
	}
	l := a.options.Load()
	return write(w, struct {
		ModelID    string `json:"model_id"`
		ModelPath  string `json:"model_path"`
		ServedName string `json:"served_model_name"`
		Tokenizer  string `json:"tokenizer_path"`
		Embeds     bool   `json:"is_embedding"`
		DType      string `json:"dtype"`
		Device     string `json:"device"`
		Context    int    `json:"context_length,omitempty"`
		Capacity   int    `json:"max_total_num_tokens"`
		Total      int    `json:"max_total_tokens"` // as the gateway calls it
		MaxRunning int    `json:"max_running_requests"`
		TensorPar  int    `json:"tp_size"`
		DataPar    int    `json:"dp_size"`
		Pipeline   int    `json:"pp_size"`
		Mode       string `json:"disaggregation_mode"`
		Weights    string `json:"weight_version"`
		Version    string `json:"version"`
		States     []any  `json:"internal_states"`
	}{
		ModelID: m.ID, ModelPath: m.ID, ServedName: m.ID, Tokenizer: m.ID, Embeds: !m.generates, DType: m.DType,
		Device: m.Device, Context: m.Limits.MaxTotalTokens, Capacity: l.TotalTokens, Total: l.TotalTokens,
		MaxRunning: l.MaxRunning, TensorPar: 1, DataPar: 1, Pipeline: 1, Mode: "null", Weights: revision(m),
		Version: a.options.Version,
		States: []any{map[string]any{"effective_max_running_requests_per_dp": l.MaxRunning,
			"memory_usage": map[string]any{"token_capacity": l.TotalTokens}}},
	})
}

func (a *API) modelInfo(w http.ResponseWriter, r *http.Request) error {
	m, err := a.use(r)
	if err != nil {
		return err
	}
	classes := []string{}
	if m.Architecture != "" {
		classes = append(classes, m.Architecture)
	}
	return write(w, struct {
		ModelPath  string   `json:"model_path"`
		Tokenizer  string   `json:"tokenizer_path"`
		Generates  bool     `json:"is_generation"`
		Preferred  *string  `json:"preferred_sampling_params"`
		Weights    string   `json:"weight_version"`
		Images     bool     `json:"has_image_understanding"`
		Audio      bool     `json:"has_audio_understanding"`
		Classes    []string `json:"architectures"`
		ContextLen int      `json:"max_context_len,omitempty"`
	}{
		ModelPath: m.ID, Tokenizer: m.ID, Generates: m.generates, Weights: revision(m), Images: m.Images,
		Classes: classes, ContextLen: m.Limits.MaxTotalTokens,
	})
}

// revision is SGLang's weight_version, which is default until somebody sets one.
func revision(m *model) string {
	if m.Revision == "" {
		return "default"
	}
	return m.Revision
}

func write(w http.ResponseWriter, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	server.WriteJSON(w, b)
	return nil
}
