package config

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"tgi/server/dialect"
)

// Bounds that no use comes near: what exceeds them is a slip, and later arithmetic holds below them.
const (
	maxCount   = 1 << 20 // requests, sequences and what one of them may ask for
	maxPayload = 1 << 40
	maxThreads = 1024
)

// Bounds of server.header_limit.
const (
	minHeader = 1 << 10
	maxHeader = 1 << 20
)

// Validate returns every setting that is out of bounds, by key, bound and value.
func (c *Config) Validate() error {
	v := &verdict{}
	s, l := &c.Server, &c.Limits
	v.check(s.Hostname != "", "server.hostname must not be empty")
	v.check(mayBeHost(s.Hostname), "server.hostname must be the name or the IP address of a host, given %q",
		trim(ShownHost(s.Hostname)))
	v.between("server.port", s.Port, 0, 65535)
	v.oneOf("server.dialect", s.Dialect, dialect.Names()...)
	c.validateKeys(v)
	v.check(!s.ProtectMetrics || c.Keyed(),
		"server.protect_metrics wants a key to protect them with: server.api_keys, server.admin_keys or [[key]]")
	v.check(s.AdminHostname != "", "server.admin_hostname must not be empty")
	v.check(mayBeHost(s.AdminHostname), "server.admin_hostname must be the name or the IP address of a host, given %q",
		trim(ShownHost(s.AdminHostname)))
	v.between("server.admin_port", s.AdminPort, 0, 65535)
	v.check(s.AdminPort == 0 || s.AdminPort != s.Port, "server.admin_port must differ from server.port, given %d twice",
		s.Port)
	v.check(s.AdminPort == 0 || c.administered(),
		"server.admin_port wants a key that is let in there: server.admin_keys, or [[key]] with the scope admin; given %d",
		s.AdminPort)
	v.check((s.TLSCert == "") == (s.TLSKey == ""),
		"server.tls_cert and server.tls_key must be given together, given %q and %q", s.TLSCert, s.TLSKey)
	v.between("server.payload_limit", s.PayloadLimit, 1, maxPayload)
	v.atLeast("server.max_connections", s.MaxConnections, 1)
	v.atLeast("server.max_connections_per_address", s.MaxConnectionsPerAddress, 0)
	v.check(s.HeaderLimit >= minHeader && s.HeaderLimit <= maxHeader,
		"server.header_limit must be >= %s and <= %s, given %s", Size(minHeader), Size(maxHeader),
		s.HeaderLimit.number())
	v.positive("server.header_timeout", s.HeaderTimeout)
	v.positive("server.read_timeout", s.ReadTimeout)
	v.positive("server.write_timeout", s.WriteTimeout)
	v.positive("server.idle_timeout", s.IdleTimeout)
	v.check(s.DrainDelay >= 0 && s.DrainDelay <= maxDrainDelay,
		"server.drain_delay must be between 0s and %s, given %s", maxDrainDelay, s.DrainDelay)
	v.check(s.GracefulTerminationTimeout >= 0, "server.graceful_termination_timeout must not be negative, given %s",
		s.GracefulTerminationTimeout)

	c.validateModels(v)

	v.between("limits.max_concurrent_requests", l.MaxConcurrentRequests, 1, maxCount)
	v.between("limits.max_best_of", l.MaxBestOf, 1, maxCount)
	v.between("limits.max_stop_sequences", l.MaxStopSequences, 0, maxCount)
	v.between("limits.max_top_n_tokens", l.MaxTopNTokens, 0, maxCount)
	v.between("limits.max_client_batch_size", l.MaxClientBatchSize, 1, maxCount)
	v.check(l.ValidationWorkers > 0, "`validation_workers` must be > 0")
	v.check(l.ValidationWorkers <= maxCount, "limits.validation_workers must be <= %d, given %d", maxCount,
		l.ValidationWorkers)
	v.atLeast("limits.max_input_tokens", l.MaxInputTokens, 0)
	v.atLeast("limits.max_total_tokens", l.MaxTotalTokens, 0)
	v.atLeast("limits.max_batch_prefill_tokens", l.MaxBatchPrefillTokens, 0)
	v.atLeast("limits.max_batch_total_tokens", l.MaxBatchTotalTokens, 0)
	v.between("limits.max_batch_size", l.MaxBatchSize, 0, maxCount)
	v.atLeast("limits.max_waiting_tokens", l.MaxWaitingTokens, 0)
	v.check(l.PrefillStretch == 0 || l.PrefillStretch > 1 && !math.IsInf(l.PrefillStretch, 0),
		"limits.prefill_stretch must be > 1, or 0 for no bound, given %v", l.PrefillStretch)
	v.check(l.WaitingServedRatio >= 0 && !math.IsInf(l.WaitingServedRatio, 0),
		"limits.waiting_served_ratio must be >= 0, given %v", l.WaitingServedRatio)
	v.check(l.WatermarkGamma > 0 && l.WatermarkGamma < 1, "limits.watermark_gamma must be > 0 and < 1, given %v",
		l.WatermarkGamma)
	v.check(!math.IsNaN(l.WatermarkDelta) && !math.IsInf(l.WatermarkDelta, 0),
		"limits.watermark_delta must be a number, given %v", l.WatermarkDelta)

	v.between("runtime.threads", c.Runtime.Threads, 0, maxThreads)
	v.check(c.Runtime.PluginWait <= maxPluginWait, "runtime.plugin_wait must be at most %s, given %s", maxPluginWait,
		c.Runtime.PluginWait)
	if _, _, err := ParseDevice(c.Runtime.Device); err != nil {
		v.add(fmt.Errorf("runtime.device %w", err))
	}
	if _, err := ParseGraphs(c.Runtime.CUDAGraphs); err != nil {
		v.add(fmt.Errorf("runtime.cuda_graphs %w", err))
	}
	v.oneOf("runtime.spin", c.Runtime.Spin, Auto, SpinOn, SpinOff)
	v.oneOf("runtime.kv_dtype", c.Runtime.KVDType, append([]string{Auto}, KVDTypes...)...)
	v.check(c.Runtime.KVDisk == "" || c.Runtime.KVDiskSize > 0,
		"runtime.kv_disk_size must be > 0, or runtime.kv_disk empty, given %s", c.Runtime.KVDiskSize)
	v.check(c.Runtime.KVDisk == "" || c.Runtime.PrefixSharing,
		"runtime.kv_disk keeps what runtime.prefix_sharing shares, given %q and false", c.Runtime.KVDisk)
	c.Trace.validate(v)
	c.GenerateAPI.validate(v, l)
	c.Responses.validate(v)
	c.Record.validate(v)
	c.KVEvents.validate(v, c.Runtime.PrefixSharing)
	c.validateMCP(v)
	v.redis("quota.redis_url", c.Quota.RedisURL)
	c.Batches.validate(v)
	c.Images.validate(v)
	c.Embeddings.validate(v)
	v.oneOf("log.format", c.Log.Format, LogAuto, LogText, LogJSON)
	c.validatePlugins(v)
	if v.errs == nil {
		v.add(l.checkGiven())
	}
	return errors.Join(v.errs...)
}

// validateModels adds what is out of bounds in [model], [[model]] and [models].
func (c *Config) validateModels(v *verdict) {
	if len(c.ModelList) == 0 {
		c.Model.validate(v, "model.")
	}
	for i := range c.ModelList {
		m, at := &c.ModelList[i], fmt.Sprintf("model[%d].", i)
		m.validate(v, at)
		v.check(m.Name != "", "%sname is needed: it is what requests call the model", at)
		for j := range c.ModelList[:i] {
			v.check(m.Name == "" || c.ModelList[j].Name != m.Name,
				"%sname must differ from model[%d].name, given %q twice", at,
				j, trim(m.Name))
		}
	}
	c.validateAdapters(v)
	m := &c.Models
	v.id("models.default", m.Default)
	v.oneOf("models.unknown", m.Unknown, Auto, UnknownRefuse, UnknownDefault)
	v.oneOf("models.policy", m.Policy, PolicyRefuse, PolicyEvict)
	hub, err := url.Parse(m.Hub)
	v.check(err == nil && (hub.Scheme == "http" || hub.Scheme == "https") && hub.Host != "" && hub.User == nil &&
		!mayHoldUser(hub) && hub.RawQuery == "" && hub.Fragment == "",
		"models.hub must be an http or https URL without user and query, given %q", trim(ShownHost(m.Hub)))
	v.check(!strings.ContainsFunc(m.HubToken, func(r rune) bool { return r <= ' ' || r > '~' }),
		"models.hub_token must hold neither white space nor what no header may hold")
	for i, host := range m.AllowHosts {
		v.check(host != "" && !strings.ContainsAny(host, "/@? \t"),
			"models.allow_hosts[%d] must be a host, host:port or %s, given %q", i, EveryHost, trim(ShownHost(host)))
	}
	v.between("models.pulls", m.Pulls, 1, maxPulls)
	v.check(m.MaxSize > 0, "models.max_size must be >= 1B, given %s", m.MaxSize.number())
}

// maxPulls bounds models.pulls: each has several connections.
const maxPulls = 64

// maxDrainDelay bounds server.drain_delay: no balancer takes longer to notice.
const maxDrainDelay = 600 * second

// maxPluginWait is more than any step should wait for a plugin.
const maxPluginWait = Wait(time.Minute)

func (m *Model) validate(v *verdict, at string) {
	v.id(at+"name", m.Name)
	v.check(m.Path == "" || m.Source == "",
		"%spath and %ssource must not both be given: a folder is served as it is, a source is fetched into the models folder", at, at)
	v.check(!strings.Contains(m.Path, "://"), "%spath must be a folder, given %q: a URL belongs to %ssource", at,
		trim(Shown(m.Path)), at)
	if m.Source != "" {
		if _, err := ParseSource(m.Source); err != nil {
			v.check(false, "%ssource %w", at, err)
		}
	}
	v.oneOf(at+"weights", m.Weights, Auto, WeightsFP32, WeightsBF16, WeightsFP16, WeightsInt8,
		WeightsInt4, WeightsStored, WeightsQ4, WeightsQ4F16, WeightsQ8, WeightsQuantized, WeightsUint8, WeightsBNB4)
	v.check(m.Context == 0 || m.Context >= 2, "%scontext must be 0 or >= 2, given %d", at, m.Context)
	m.Speculation.validate(v, at+"speculation.")
	v.check(m.Template != "", "%stemplate must be %s, %s, a file *.jinja or the name of a plugin, given %q", at, Auto,
		None, "")
	v.check(m.Tools != "",
		"%stools must be %s, %s, the name of a format, a file *.json or the name of a plugin, given %q", at, Auto, None,
		"")
	for i, name := range m.Plugins {
		if err := CheckName(name); err != nil {
			v.check(false, "%splugins[%d] %w", at, i, err)
		}
		v.check(!slices.Contains(m.Plugins[:i], name), "%splugins[%d] must not be there twice, given %q", at, i,
			trim(name))
	}
}

func (t *Trace) validate(v *verdict) {
	u, err := url.Parse(t.OTLPEndpoint)
	v.check(t.OTLPEndpoint == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "",
		"trace.otlp_endpoint must be a URL such as http://localhost:4318, given %q", trim(ShownHost(t.OTLPEndpoint)))
	v.check(t.OTLPServiceName != "", "trace.otlp_service_name must not be empty")
	v.check(t.SampleRatio >= 0 && t.SampleRatio <= 1, "trace.sample_ratio must be >= 0 and <= 1, given %v",
		t.SampleRatio)
}

// verdict collects what is wrong.
type verdict struct{ errs []error }

func (v *verdict) add(err error) {
	if err != nil {
		v.errs = append(v.errs, err)
	}
}

func (v *verdict) check(ok bool, format string, args ...any) {
	if !ok {
		v.errs = append(v.errs, fmt.Errorf(format, args...))
	}
}

// id checks the id of a model; it may be empty.
func (v *verdict) id(key, id string) {
	if id == "" {
		return
	}
	if err := CheckModelID(id); err != nil {
		v.check(false, "%s %w", key, err)
	}
}

func (v *verdict) atLeast(key string, n, low int) {
	v.check(n >= low, "%s must be >= %d, given %d", key, low, n)
}

func (v *verdict) between(key string, n, low, high int) {
	v.check(n >= low && n <= high, "%s must be >= %d and <= %d, given %d", key, low, high, n)
}

func (v *verdict) positive(key string, d Duration) {
	v.check(d > 0, "%s must be longer than 0s, given %s", key, d)
}

func (v *verdict) oneOf(key, word string, words ...string) {
	v.check(slices.Contains(words, word), "%s must be one of %s, given %q", key, strings.Join(words, ", "), trim(word))
}
