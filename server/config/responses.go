package config

// Responses keeps the responses of /v1/responses, so that they can be asked for and followed.
type Responses struct {
	// RedisURL is where to keep them for all replicas; empty is the memory of this process.
	RedisURL string `toml:"redis_url"`
	// TTL is how long a response is kept.
	TTL Duration `toml:"ttl"`
	// MaxResponse bounds one response with its input, in bytes.
	MaxResponse Size `toml:"max_response"`
	// MaxKeyResponses and MaxKeyMemory bound those of one key; the oldest are forgotten first.
	MaxKeyResponses int  `toml:"max_key_responses"`
	MaxKeyMemory    Size `toml:"max_key_memory"`
	// MaxResponses and MaxMemory bound those of all keys that are kept in memory; the key that has most loses its
	// oldest first.
	MaxResponses int  `toml:"max_responses"`
	MaxMemory    Size `toml:"max_memory"`
}

func defaultResponses() Responses {
	return Responses{TTL: 24 * 3600 * second, MaxResponse: 4 << 20, MaxKeyResponses: 2048, MaxKeyMemory: 32 << 20,
		MaxResponses: 16384, MaxMemory: 128 << 20}
}

// validate checks the section.
func (r *Responses) validate(v *verdict) {
	v.redis("responses.redis_url", r.RedisURL)
	v.positive("responses.ttl", r.TTL)
	v.check(r.MaxResponse >= 1024, "responses.max_response must be >= 1KiB, given %s", r.MaxResponse.number())
	v.atLeast("responses.max_key_responses", r.MaxKeyResponses, 1)
	v.check(r.MaxKeyMemory >= r.MaxResponse,
		"responses.max_key_memory must be >= responses.max_response, given %s and %s", r.MaxKeyMemory, r.MaxResponse)
	v.atLeast("responses.max_responses", r.MaxResponses, 1)
	v.check(r.MaxMemory >= r.MaxKeyMemory,
		"responses.max_memory must be >= responses.max_key_memory, given %s and %s", r.MaxMemory, r.MaxKeyMemory)
}

// responsesSettings are the ways to set them outside the file.
var responsesSettings = []setting{
	{"responses-redis-url", "responses.redis_url", "Redis that keeps responses; none is this process",
		func(c *Config) any { return &c.Responses.RedisURL }, nil},
	{"responses-ttl", "responses.ttl", "how long a response is kept",
		func(c *Config) any { return &c.Responses.TTL }, nil},
	{"responses-max-response", "responses.max_response", "most memory for one response as it is kept, with its input",
		func(c *Config) any { return &c.Responses.MaxResponse }, nil},
	{"responses-max-key-responses", "responses.max_key_responses", "most responses that are kept for one key",
		func(c *Config) any { return &c.Responses.MaxKeyResponses }, nil},
	{"responses-max-key-memory", "responses.max_key_memory", "most memory for the responses of one key",
		func(c *Config) any { return &c.Responses.MaxKeyMemory }, nil},
	{"responses-max-responses", "responses.max_responses", "most responses that are kept in memory",
		func(c *Config) any { return &c.Responses.MaxResponses }, nil},
	{"responses-max-memory", "responses.max_memory", "most memory for responses",
		func(c *Config) any { return &c.Responses.MaxMemory }, nil},
}
