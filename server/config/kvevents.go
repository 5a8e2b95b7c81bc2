package config

import (
	"net"
	"strconv"
	"strings"
)

// KVEvents tells routers which blocks the caches of models hold.
type KVEvents struct {
	// Endpoint is the address that subscribers connect to, such as tcp://127.0.0.1:5557; "" tells nobody. Whoever
	// reaches it sees the tokens of all requests.
	Endpoint string `toml:"endpoint"`
	// ReplayEndpoint is the one that sends again what a subscriber missed; "" does not.
	ReplayEndpoint string `toml:"replay_endpoint"`
	// Topic of a model's messages: {host} is the machine's name, {port} the server's port and {model} the model's name.
	Topic string `toml:"topic"`
	// Buffer bounds the messages that are kept for replays, for each model, Queue those that wait for a subscriber,
	// which misses what comes beyond them.
	Buffer Size `toml:"buffer"`
	Queue  Size `toml:"queue"`
	// MaxConnections bounds the connections to each of the two addresses.
	MaxConnections int `toml:"max_connections"`
}

func defaultKVEvents() KVEvents {
	return KVEvents{Topic: "kv@{host}:{port}@{model}", Buffer: 16 << 20, Queue: 8 << 20, MaxConnections: 64}
}

// validate checks the section.
func (k *KVEvents) validate(v *verdict, sharing bool) {
	for _, e := range []struct{ key, value string }{
		{"kv_events.endpoint", k.Endpoint}, {"kv_events.replay_endpoint", k.ReplayEndpoint},
	} {
		_, ok := ZMQAddress(e.value)
		v.check(e.value == "" || ok, "%s must be empty, tcp://ADDRESS:PORT or tcp://*:PORT, with a port from 1 to 65535, "+
			"given %q", e.key, trim(ShownHost(e.value)))
	}
	v.check(k.ReplayEndpoint == "" || k.Endpoint != "",
		"kv_events.replay_endpoint repeats what kv_events.endpoint sends, given %q and none",
		trim(ShownHost(k.ReplayEndpoint)))
	v.check(k.Endpoint == "" || sharing,
		"kv_events.endpoint tells what runtime.prefix_sharing shares, given %q and false",
		trim(ShownHost(k.Endpoint)))
	v.check(k.Topic != "" && len(k.Topic) <= maxTopic, "kv_events.topic must have 1 to %d bytes, given %d", maxTopic,
		len(k.Topic))
	v.check(strings.Contains(k.Topic, "{model}"), "kv_events.topic must contain {model}, since each model has messages "+
		"and numbers of its own, given %q", trim(k.Topic))
	v.check(k.Buffer >= 1<<20, "kv_events.buffer must be >= 1MiB, given %s", k.Buffer.number())
	v.check(k.Queue >= 1<<20, "kv_events.queue must be >= 1MiB, given %s", k.Queue.number())
	v.between("kv_events.max_connections", k.MaxConnections, 1, maxCount)
}

const maxTopic = 512

// ZMQAddress returns the address to listen on of an endpoint as ZeroMQ writes them.
func ZMQAddress(endpoint string) (address string, ok bool) {
	rest, tcp := strings.CutPrefix(endpoint, "tcp://")
	host, port, err := net.SplitHostPort(rest)
	n, numeric := strconv.ParseUint(port, 10, 16)
	if !tcp || err != nil || host == "" || numeric != nil || n == 0 {
		return "", false
	}
	if host == "*" {
		host = ""
	}
	return net.JoinHostPort(host, port), true
}

// kvEventSettings are the ways to set them outside the file.
var kvEventSettings = []setting{
	{"kv-events-endpoint", "kv_events.endpoint", "address of events of the cache for routers, such as tcp://*:5557",
		func(c *Config) any { return &c.KVEvents.Endpoint }, nil},
	{"kv-events-replay-endpoint", "kv_events.replay_endpoint", "address that sends them again, such as tcp://*:5558",
		func(c *Config) any { return &c.KVEvents.ReplayEndpoint }, nil},
	{"kv-events-topic", "kv_events.topic", "their topic, with {host}, {port} and {model}",
		func(c *Config) any { return &c.KVEvents.Topic }, nil},
}

// IsLocal reports whether only this machine reaches a host name or an address.
func IsLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
