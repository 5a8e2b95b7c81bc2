package config

import (
	"math"
	"net/url"
	"strings"
)

// GenerateAPI is about POST /api/generate-one and /api/generate-batch. NumBeams
// and what follows it are the values of a generation_config that does not name
// them.
type GenerateAPI struct {
	// EOSText lets a text that the model ended end with the end-of-sequence
	// token's text; without it, only the trailers and headers tell.
	EOSText bool `toml:"eos_text"`
	// MaxPrompts bounds the prompts of one batch.
	MaxPrompts int `toml:"max_prompts"`
	// NumBeams is the number of beams; 1 is no beam search.
	NumBeams int `toml:"num_beams"`
	// DoSample draws instead of taking the best token; Temperature, TopP and
	// TopK shape the distribution then.
	DoSample    bool    `toml:"do_sample"`
	Temperature float64 `toml:"temperature"`
	TopP        float64 `toml:"top_p"`
	// TopK keeps the k best tokens; 0 keeps all.
	TopK int `toml:"top_k"`
	// MaxNewTokens ends a text; the end of the context ends it sooner.
	MaxNewTokens      int     `toml:"max_new_tokens"`
	RepetitionPenalty float64 `toml:"repetition_penalty"`
	// LengthPenalty is the exponent on the length in the score of a beam.
	LengthPenalty float64 `toml:"length_penalty"`
	// Store keeps what is needed to go on with a text.
	Store GenerateStore `toml:"store"`
}

// GenerateStore keeps texts that the model did not end, so that they can be
// continued.
type GenerateStore struct {
	// RedisURL is where to keep them for all replicas; empty is the memory of
	// this process.
	RedisURL string `toml:"redis_url"`
	// TTL is how long a text can be continued.
	TTL Duration `toml:"ttl"`
	// MaxState bounds what is kept of one request, in bytes.
	MaxState Size `toml:"max_state"`
	// MaxEntries and MaxMemory bound what is kept in memory; the texts that were
	// not continued for the longest time are forgotten first.
	MaxEntries int  `toml:"max_entries"`
	MaxMemory  Size `toml:"max_memory"`
}

// defaultGenerateAPI has the values of the sample .env of llm-inference, whose
// API this is.
func defaultGenerateAPI() GenerateAPI {
	return GenerateAPI{
		EOSText: true, MaxPrompts: 64, NumBeams: 1, DoSample: true, Temperature: 1, TopP: 1, TopK: 50,
		MaxNewTokens:      2048,
		RepetitionPenalty: 1, LengthPenalty: 1,
		Store: GenerateStore{TTL: 3600 * second, MaxState: 4 << 20, MaxEntries: 16384, MaxMemory: 64 << 20},
	}
}

// MaxBeams bounds the beams of a search: a step costs as much as that many sequences.
const MaxBeams = 64

// validate checks the section; l bounds what runs at once.
func (g *GenerateAPI) validate(v *verdict, l *Limits) {
	positive := func(key string, f float64) {
		v.check(f > 0 && f <= math.MaxFloat32 && float32(f) > 0, "generate_api.%s must be > 0, given %v", key, f)
	}
	v.between("generate_api.max_prompts", g.MaxPrompts, 1, maxCount)
	v.between("generate_api.num_beams", g.NumBeams, 1, MaxBeams)
	v.check(g.NumBeams <= 1 || g.NumBeams > MaxBeams || g.NumBeams <= (l.MaxConcurrentRequests+1)/2,
		"generate_api.num_beams must be at most half of limits.max_concurrent_requests, given %d and %d", g.NumBeams,
		l.MaxConcurrentRequests)
	positive("temperature", g.Temperature)
	v.check(g.TopP >= 0 && g.TopP <= 1, "generate_api.top_p must be >= 0 and <= 1, given %v", g.TopP)
	v.atLeast("generate_api.top_k", g.TopK, 0)
	v.atLeast("generate_api.max_new_tokens", g.MaxNewTokens, 1)
	positive("repetition_penalty", g.RepetitionPenalty)
	v.check(math.Abs(g.LengthPenalty) <= math.MaxFloat32, "generate_api.length_penalty must be a number, given %v",
		g.LengthPenalty)
	s := &g.Store
	v.redis("generate_api.store.redis_url", s.RedisURL)
	v.positive("generate_api.store.ttl", s.TTL)
	v.check(s.MaxState >= 1024, "generate_api.store.max_state must be >= 1KiB, given %s", s.MaxState.number())
	v.atLeast("generate_api.store.max_entries", s.MaxEntries, 1)
	v.check(s.MaxMemory >= s.MaxState,
		"generate_api.store.max_memory must be >= generate_api.store.max_state, given %s and %s", s.MaxMemory,
		s.MaxState)
}

// redis checks the URL of a Redis; empty is none. The text may hold a password: no error repeats it.
func (v *verdict) redis(key, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	v.check(err == nil && (u.Scheme == "unix" && u.Path != "" || (u.Scheme == "redis" || u.Scheme == "rediss") &&
		u.Host != "" && strings.Trim(u.Path, "/0123456789") == ""), "%s must be a URL such as redis://localhost:6379/0, rediss://… or unix:///path", key)
}

// llmInference are the names by which llm-inference knows settings of this
// server. They are common words: the setting's own variable beats them.
var llmInference = map[string][]string{
	"model-id": {"MODEL_PATH"}, "hostname": {"SERVER_HOST"}, "port": {"SERVER_PORT"},
}

// generateSettings are the ways to set them outside the file. The further
// environment variables are llm-inference's.
var generateSettings = []setting{
	{"generate-eos-text", "generate_api.eos_text", "texts that the model ended end with its end-of-sequence text",
		func(c *Config) any { return &c.GenerateAPI.EOSText }, nil},
	{"generate-max-prompts", "generate_api.max_prompts", "most prompts in one batch",
		func(c *Config) any { return &c.GenerateAPI.MaxPrompts }, nil},
	{"generate-num-beams", "generate_api.num_beams", "beams, where a request names none",
		func(c *Config) any { return &c.GenerateAPI.NumBeams }, []string{"MODEL_DEFAULT_NUM_BEAMS"}},
	{"generate-do-sample", "generate_api.do_sample", "whether to draw, likewise",
		func(c *Config) any { return &c.GenerateAPI.DoSample }, []string{"MODEL_DEFAULT_DO_SAMPLE"}},
	{"generate-temperature", "generate_api.temperature", "temperature, likewise",
		func(c *Config) any { return &c.GenerateAPI.Temperature }, []string{"MODEL_DEFAULT_TEMPERATURE"}},
	{"generate-top-p", "generate_api.top_p", "top_p, likewise", func(c *Config) any { return &c.GenerateAPI.TopP },
		[]string{"MODEL_DEFAULT_TOP_P"}},
	{"generate-top-k", "generate_api.top_k", "top_k, likewise", func(c *Config) any { return &c.GenerateAPI.TopK },
		[]string{"MODEL_DEFAULT_TOP_K"}},
	{"generate-max-new-tokens", "generate_api.max_new_tokens", "most tokens of a text, likewise",
		func(c *Config) any { return &c.GenerateAPI.MaxNewTokens }, []string{"MODEL_DEFAULT_MAX_NEW_TOKENS"}},
	{"generate-repetition-penalty", "generate_api.repetition_penalty", "repetition penalty, likewise",
		func(c *Config) any { return &c.GenerateAPI.RepetitionPenalty }, []string{"MODEL_DEFAULT_REPETITION_PENALTY"}},
	{"generate-length-penalty", "generate_api.length_penalty", "length penalty of beams, likewise",
		func(c *Config) any { return &c.GenerateAPI.LengthPenalty }, []string{"MODEL_DEFAULT_LENGTH_PENALTY"}},
	{"generate-store-redis-url", "generate_api.store.redis_url",
		"Redis that keeps texts to continue; none is this process",
		func(c *Config) any { return &c.GenerateAPI.Store.RedisURL }, nil},
	{"generate-store-ttl", "generate_api.store.ttl", "how long a text can be continued",
		func(c *Config) any { return &c.GenerateAPI.Store.TTL }, []string{"MAX_CACHE_TTL"}},
	{"generate-store-max-state", "generate_api.store.max_state", "most memory for one text to continue",
		func(c *Config) any { return &c.GenerateAPI.Store.MaxState }, nil},
	{"generate-store-max-entries", "generate_api.store.max_entries", "most texts to continue that are kept in memory",
		func(c *Config) any { return &c.GenerateAPI.Store.MaxEntries }, []string{"MAX_CACHE_SIZE"}},
	{"generate-store-max-memory", "generate_api.store.max_memory", "most memory for texts to continue",
		func(c *Config) any { return &c.GenerateAPI.Store.MaxMemory }, nil},
}
