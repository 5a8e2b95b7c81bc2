package host

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"

	"tgi/models/library"
	"tgi/runtime/kv"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/kvevents"
)

// openKVEvents listens for who wants to know what is cached; the result is nil without an endpoint.
func openKVEvents(cfg config.KVEvents, log *slog.Logger) (*kvevents.Publisher, error) {
	if cfg.Endpoint == "" {
		return nil, nil
	}
	o := kvevents.Options{Buffer: int(cfg.Buffer), Queue: int(cfg.Queue), Peers: cfg.MaxConnections}
	o.Endpoint, _ = config.ZMQAddress(cfg.Endpoint)
	o.Replay, _ = config.ZMQAddress(cfg.ReplayEndpoint)
	p, err := kvevents.Open(o)
	if err != nil {
		return nil, fmt.Errorf("kv_events: %w", err)
	}
	log.Info("events of the cache are published", "endpoint", cfg.Endpoint, "replay", cfg.ReplayEndpoint)
	for _, address := range []string{o.Endpoint, o.Replay} {
		if host, _, _ := net.SplitHostPort(address); address != "" && !config.IsLocal(host) {
			log.Warn("whoever reaches the address of kv_events sees the tokens of all requests", "address", address)
		}
	}
	return p, nil
}

// openEvents begins to tell of a model's cache; the result is nil where nobody is told.
func (f *manager) openEvents(id library.ID) *kvevents.Stream {
	if f.kvEvents == nil {
		return nil
	}
	f.mu.Lock()
	topic, port := f.cfg.KVEvents.Topic, f.cfg.Server.Port
	f.mu.Unlock()
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	return f.kvEvents.Stream(strings.NewReplacer("{host}", name, "{port}", strconv.Itoa(port), "{model}", string(id)).
		Replace(topic))
}

// kvEventsMetrics are what the metrics show of events of the cache.
func (f *manager) kvEventsMetrics() server.KVEventsMetrics {
	s := f.kvEvents.Stats()
	return server.KVEventsMetrics{Subscribers: s.Subscribers, Queued: s.Queued, Batches: s.Batches, Skipped: s.Skipped,
		Replays: s.Replays, Full: s.Full, Broken: s.Broken}
}

// cacheWatch tells a stream of a cache. As in vLLM the hash of a block is the end of its SHA-256 sum.
type cacheWatch struct{ to *kvevents.Stream }

// Stored implements kv.Watcher.
func (w cacheWatch) Stored(key, parent kv.Key, first bool, tokens []llm.Token) {
	w.to.Stored(hashOf(key), hashOf(parent), first, tokens)
}

// Removed implements kv.Watcher.
func (w cacheWatch) Removed(key kv.Key) { w.to.Removed(hashOf(key)) }

func hashOf(k kv.Key) uint64 { return binary.BigEndian.Uint64(k[len(k)-8:]) }
