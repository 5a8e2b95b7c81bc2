package config

// Embeddings is about models that turn texts into vectors or scores.
type Embeddings struct {
	// MaxBatchTokens bounds the tokens of one step, unless one text has more.
	MaxBatchTokens int `toml:"max_batch_tokens"`
	// MaxClientBatchSize bounds the texts of one request.
	MaxClientBatchSize int `toml:"max_client_batch_size"`
	// AutoTruncate cuts texts that are longer than the model reads, unless a request says otherwise.
	AutoTruncate bool `toml:"auto_truncate"`
	// BusyStep is how long a step should take while models generate on the same processors; between two such steps as
	// much time is left to these. 0 is no bound.
	BusyStep Duration `toml:"busy_step"`
}

func defaultEmbeddings() Embeddings {
	return Embeddings{MaxBatchTokens: 4096, MaxClientBatchSize: 2048, BusyStep: second / 20}
}

// validate checks the section.
func (e *Embeddings) validate(v *verdict) {
	v.between("embeddings.max_batch_tokens", e.MaxBatchTokens, 1, 1<<20)
	v.between("embeddings.max_client_batch_size", e.MaxClientBatchSize, 1, 1<<16)
	v.check(e.BusyStep >= 0, "embeddings.busy_step must be >= 0, given %s", e.BusyStep)
}

// embeddingSettings are the ways to set them outside the file.
var embeddingSettings = []setting{
	{"embeddings-max-batch-tokens", "embeddings.max_batch_tokens", "most tokens of a step of texts",
		func(c *Config) any { return &c.Embeddings.MaxBatchTokens }, nil},
	{"embeddings-max-client-batch-size", "embeddings.max_client_batch_size", "most texts of a request",
		func(c *Config) any { return &c.Embeddings.MaxClientBatchSize }, nil},
	{"auto-truncate", "embeddings.auto_truncate", "cut texts that are longer than their model reads",
		func(c *Config) any { return &c.Embeddings.AutoTruncate }, []string{"AUTO_TRUNCATE"}},
	{"embeddings-busy-step", "embeddings.busy_step", "how long a step of texts may take beside models that generate",
		func(c *Config) any { return &c.Embeddings.BusyStep }, nil},
}
