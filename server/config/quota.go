package config

// Quota is about the limits of keys, which [[key]] sets.
type Quota struct {
	// RedisURL is the Redis in which several replicas count what keys use; empty is this process.
	RedisURL string `toml:"redis_url"`
}

// quotaSettings are the ways to set them outside the file.
var quotaSettings = []setting{
	{"quota-redis-url", "quota.redis_url", "Redis in which replicas count what keys use; none is this process",
		func(c *Config) any { return &c.Quota.RedisURL }, nil},
}
