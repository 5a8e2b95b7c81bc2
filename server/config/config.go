// Package config owns the server's settings: what they are called in tgi.toml,
// as flags and in the environment, their defaults and their bounds.
//
// Settings come from four places; a later one beats an earlier one, key by key:
// Default, the file, the environment, the flags. Nothing is guessed: an unknown
// key or flag, and a value that does not parse or is out of bounds, is an error
// that names it.
package config

import (
	"log/slog"

	"tgi/server/dialect"
)

// Config is every setting. The zero of a limit that is documented so means
// that Limits.Size derives it from the model and the memory.
type Config struct {
	Server Server `toml:"server"`
	// Model is [model]; ModelList are the blocks [[model]] in their order. A file
	// has one of both, and All returns what it declares.
	Model     Model   `toml:"model"`
	ModelList []Model `toml:"-"`
	// Models is about all of them.
	Models  Models  `toml:"models"`
	Limits  Limits  `toml:"limits"`
	Runtime Runtime `toml:"runtime"`
	Metrics Metrics `toml:"metrics"`
	Trace   Trace   `toml:"trace"`
	Log     Log     `toml:"log"`
	Plugins Plugins `toml:"plugins"`
	// GenerateAPI is about the routes below /api.
	GenerateAPI GenerateAPI `toml:"generate_api"`
	// Responses keeps what /v1/responses answered.
	Responses Responses `toml:"responses"`
	// Record keeps requests and replies in files.
	Record Record `toml:"record"`
	// KVEvents tells routers what is cached.
	KVEvents KVEvents `toml:"kv_events"`
	// Batches keeps files and runs batches.
	Batches Batches `toml:"batches"`
	// Quota is about the limits of keys.
	Quota Quota `toml:"quota"`
	// Images is about the pictures of requests.
	Images Images `toml:"images"`
	// Embeddings is about models that turn texts into vectors or scores.
	Embeddings Embeddings `toml:"embeddings"`
	// MCP are servers whose tools may be called, MCPLimits bound what one request may do with them.
	MCP       []MCP     `toml:"mcp"`
	MCPLimits MCPLimits `toml:"mcp_limits"`
	// Plugin are the plugins that are declared one by one.
	Plugin []Plugin `toml:"plugin"`
	// PluginSigner are those of whom one must have signed a plugin that was installed from a registry; without any,
	// nobody has to.
	PluginSigner []PluginSigner `toml:"plugin_signer"`
	// Key are the keys that are declared one by one.
	Key []Key `toml:"key"`
	// File is where the settings were read from; empty is nowhere, or with Stdin the standard input.
	File  string `toml:"-"`
	Stdin bool   `toml:"-"`
	// Given names the flag or the variable that a value comes from, by key, where it is not from File.
	Given map[string]string `toml:"-"`
	// CUDAWeights is what TGI's --quantize or --dtype asks for: the weights, on a GPU, of models whose
	// own are auto. It is empty where neither is given.
	CUDAWeights string `toml:"-"`
	// text is what File, or the standard input, held.
	text string `toml:"-"`
}

// Server says how to listen and how patient to be.
type Server struct {
	// Hostname is the address to listen on.
	Hostname string `toml:"hostname"`
	// Port to listen on; 0 takes a free one.
	Port int `toml:"port"`
	// Dialect is the version of TGI's API that is spoken to requests that name
	// none.
	Dialect string `toml:"dialect"`
	// APIKeys let a request in as its bearer token, with the scopes
	// ScopeGenerate and ScopeModels. Without any, here or among Config.Key,
	// everyone is let in.
	APIKeys []string `toml:"api_keys"`
	// AdminKeys let requests to the routes below /admin in, as keys with
	// ScopeAdmin do; none of either switches those routes off. They open
	// nothing else.
	AdminKeys []string `toml:"admin_keys"`
	// ReceiptKey is the secret by which receipts have checksums of plugins'
	// configurations; empty makes one at each start.
	ReceiptKey string `toml:"receipt_key"`
	// ProtectMetrics makes /metrics want a key of any scope.
	ProtectMetrics bool `toml:"protect_metrics"`
	// AdminHostname and AdminPort are where the routes below /admin are served,
	// and there alone; AdminPort 0 serves them with the others.
	AdminHostname string `toml:"admin_hostname"`
	AdminPort     int    `toml:"admin_port"`
	// TLSCert and TLSKey are PEM files that are served with, on both addresses,
	// relative to the folder of the settings' file; none of both is no TLS. They
	// are read again when they change.
	TLSCert string `toml:"tls_cert"`
	TLSKey  string `toml:"tls_key"`
	// CORSAllowOrigin lists the origins whose pages may call; none is all.
	CORSAllowOrigin []string `toml:"cors_allow_origin"`
	// PayloadLimit bounds a request's body, in bytes.
	PayloadLimit int `toml:"payload_limit"`
	// PayloadMemory bounds the bodies of all requests together, those that are being
	// sent and those that are being served, with the prompts that templates make of
	// them and what they list; 0 is 128 times PayloadLimit. A body of PayloadLimit always fits.
	PayloadMemory Size `toml:"payload_memory"`
	// MaxConnections bounds the connections of each address that is listened on,
	// MaxConnectionsPerAddress those that come from one; 0 is half of all.
	MaxConnections           int `toml:"max_connections"`
	MaxConnectionsPerAddress int `toml:"max_connections_per_address"`
	// HeaderLimit bounds a request's header, in bytes.
	HeaderLimit Size `toml:"header_limit"`
	// HeaderTimeout bounds how long a client may take to send a request's
	// header.
	HeaderTimeout Duration `toml:"header_timeout"`
	// ReadTimeout bounds how long a client may take to send a request.
	ReadTimeout Duration `toml:"read_timeout"`
	// WriteTimeout bounds how long a client may take to accept one write of a
	// reply; a stream of any length has it for each event. It also bounds all the
	// waits for a client together, for each MiB of a reply.
	WriteTimeout Duration `toml:"write_timeout"`
	// IdleTimeout closes connections without requests.
	IdleTimeout Duration `toml:"idle_timeout"`
	// GracefulTerminationTimeout is the time that running requests have to finish when
	// the server is asked to stop.
	GracefulTerminationTimeout Duration `toml:"graceful_termination_timeout"`
	// DrainDelay is how long requests are still served when the server is asked to stop, while its probes fail
	// already: balancers that ask them notice and send no more. GracefulTerminationTimeout begins behind it.
	DrainDelay Duration `toml:"drain_delay"`
	// StrictFields refuses requests with members that mean nothing.
	StrictFields bool `toml:"strict_fields"`
	// Playground serves pages for browsers at /.
	Playground bool `toml:"playground"`
	// Ollama serves Ollama's API below /api.
	Ollama bool `toml:"ollama"`
	// ComputeType is the value of the header x-compute-type.
	ComputeType string `toml:"compute_type"`
	// DisableGrammar refuses requests that bring a grammar.
	DisableGrammar bool `toml:"disable_grammar_support"`
	// MessagesAPI makes /invocations of the dialect tgi-2.2 a chat.
	MessagesAPI bool `toml:"messages_api_enabled"`
	// PredictRoute and HealthRoute are further paths of Vertex' requests and of
	// the health probe; empty is none.
	PredictRoute string `toml:"predict_route"`
	HealthRoute  string `toml:"health_route"`
}

// Payloads returns how many bytes the bodies of all requests may have together.
func (s *Server) Payloads() int64 {
	if s.PayloadMemory > 0 {
		return max(int64(s.PayloadMemory), int64(s.PayloadLimit))
	}
	return 128 * int64(s.PayloadLimit)
}

// PerAddress returns how many connections one address may have.
func (s *Server) PerAddress() int {
	if s.MaxConnectionsPerAddress > 0 {
		return s.MaxConnectionsPerAddress
	}
	return max(1, s.MaxConnections/2)
}

// Limits bound requests and batches, under the names of TGI's launcher.
type Limits struct {
	// MaxConcurrentRequests may be waiting or running; the next gets 429.
	MaxConcurrentRequests int `toml:"max_concurrent_requests"`
	// MaxBestOf, MaxStopSequences, MaxTopNTokens and MaxClientBatchSize bound
	// what one request may ask for.
	MaxBestOf          int `toml:"max_best_of"`
	MaxStopSequences   int `toml:"max_stop_sequences"`
	MaxTopNTokens      int `toml:"max_top_n_tokens"`
	MaxClientBatchSize int `toml:"max_client_batch_size"`
	// ValidationWorkers is how many prompts are tokenized at the same time.
	ValidationWorkers int `toml:"validation_workers"`
	// MaxInputTokens bounds a prompt; 0 is MaxTotalTokens - 1.
	MaxInputTokens int `toml:"max_input_tokens"`
	// MaxTotalTokens bounds prompt and output; 0 is what model and cache hold.
	MaxTotalTokens int `toml:"max_total_tokens"`
	// MaxBatchPrefillTokens bounds the prompt tokens of one step; 0 lets the
	// server choose.
	MaxBatchPrefillTokens int `toml:"max_batch_prefill_tokens"`
	// PrefillStretch is how many times as long as one without prompts a step may take that computes prompts beside
	// sequences that generate; 0 is no bound.
	PrefillStretch float64 `toml:"prefill_stretch"`
	// PrefillStepTime is how long such a step may take even if it is stretched more.
	PrefillStepTime Duration `toml:"prefill_step_time"`
	// MaxBatchTotalTokens bounds the tokens of all running sequences; 0 is the
	// capacity of the cache.
	MaxBatchTotalTokens int `toml:"max_batch_total_tokens"`
	// MaxBatchSize bounds the running sequences; 0 is MaxConcurrentRequests.
	MaxBatchSize int `toml:"max_batch_size"`
	// WaitingServedRatio of waiting to running sequences lets prompts in.
	WaitingServedRatio float64 `toml:"waiting_served_ratio"`
	// MaxWaitingTokens is after how many steps prompts are let in regardless.
	MaxWaitingTokens int `toml:"max_waiting_tokens"`
	// WatermarkGamma and WatermarkDelta shape the watermark.
	WatermarkGamma float64 `toml:"watermark_gamma"`
	WatermarkDelta float64 `toml:"watermark_delta"`
}

// Runtime says how to compute.
type Runtime struct {
	// Device computes: auto, cpu, cuda or cuda:N (ParseDevice).
	Device string `toml:"device"`
	// CUDAGraphs are the sizes of batches that decode as CUDA graphs: auto, 0 or a list (ParseGraphs).
	CUDAGraphs string `toml:"cuda_graphs"`
	// ORTLib is the ONNX Runtime library; empty looks for one.
	ORTLib string `toml:"ort_lib"`
	// Threads compute; 0 is one per core that the process may use.
	Threads int `toml:"threads"`
	// Spin is whether waiting threads spin for a moment before they sleep: on, off or auto. That is with more than 4
	// threads, and with fewer in small steps while nobody else wants the cores.
	Spin string `toml:"spin"`
	// KVDType is what the CPU stores keys and values as: auto or one of KVDTypes.
	KVDType string `toml:"kv_dtype"`
	// KVMemory is the size of the key/value cache; 0 derives it.
	KVMemory Size `toml:"kv_memory"`
	// KVDisk is a folder in which prompts are kept across restarts; empty keeps none.
	KVDisk string `toml:"kv_disk"`
	// KVDiskSize bounds the bytes of that folder.
	KVDiskSize Size `toml:"kv_disk_size"`
	// PrefixSharing reuses the cache of prompts that begin alike.
	PrefixSharing bool `toml:"prefix_sharing"`
	// PluginWait is how long a step waits for plugins while other sequences could go
	// on; 0 derives it from how long the model computes.
	PluginWait Wait `toml:"plugin_wait"`
	// Verify checks the engine's books after every step.
	Verify bool `toml:"verify"`
}

// Metrics says what to measure.
type Metrics struct {
	// Enabled serves /metrics.
	Enabled bool `toml:"enabled"`
	// VLLMNames serves five gauges once more under vLLM's names, which routers and the
	// endpoint pickers of Kubernetes' gateways look for.
	VLLMNames bool `toml:"vllm_names"`
}

// Trace says where traces of requests go.
type Trace struct {
	// OTLPEndpoint is the URL of an OpenTelemetry collector; empty makes no
	// traces.
	OTLPEndpoint string `toml:"otlp_endpoint"`
	// OTLPServiceName is what traces call this server.
	OTLPServiceName string `toml:"otlp_service_name"`
	// SampleRatio is the share of requests that are traced, of those that no
	// caller has decided about.
	SampleRatio float64 `toml:"sample_ratio"`
	// Content puts what was said into the traces of generation: messages, tools' results and replies, up to 64 KiB of
	// each.
	Content bool `toml:"content"`
}

// Log says what to log.
type Log struct {
	// Level is debug, info, warn or error.
	Level slog.Level `toml:"level"`
	// Format is auto (text on a terminal, otherwise JSON), text or json.
	Format string `toml:"format"`
}

// Values of settings that are one of a few words.
const (
	Auto = "auto"
	None = "none"

	WeightsFP32 = "fp32"
	WeightsBF16 = "bf16"
	WeightsFP16 = "fp16"
	WeightsInt8 = "int8"
	WeightsInt4 = "int4"
	// WeightsStored is for checkpoints that are quantised already.
	WeightsStored = "stored"
	// WeightsQ4 and those after it are for folders of ready ONNX graphs: what the names of such say.
	WeightsQ4        = "q4"
	WeightsQ4F16     = "q4f16"
	WeightsQ8        = "q8"
	WeightsQuantized = "quantized"
	WeightsUint8     = "uint8"
	WeightsBNB4      = "bnb4"

	SpinOn  = "on"
	SpinOff = "off"

	LogAuto = Auto
	LogText = "text"
	LogJSON = "json"
)

// Default returns the default settings.
func Default() Config {
	return Config{
		Server: Server{
			Hostname: "0.0.0.0", Port: 3000, Dialect: dialect.Default().Name(), APIKeys: []string{},
			AdminKeys:     []string{},
			AdminHostname: "127.0.0.1", CORSAllowOrigin: []string{},
			Playground:   true,
			PayloadLimit: 2_000_000, MaxConnections: 4096, HeaderLimit: 64 << 10, HeaderTimeout: 10 * second,
			ReadTimeout: 30 * second, WriteTimeout: 30 * second, IdleTimeout: 120 * second,
			GracefulTerminationTimeout: 90 * second, ComputeType: "cpu+optimized",
		},
		Model: defaultModel(), Models: defaultModels(),
		Limits: Limits{
			MaxConcurrentRequests: 128, MaxBestOf: 2, MaxStopSequences: 4, MaxTopNTokens: 5, MaxClientBatchSize: 4,
			ValidationWorkers: 2, WaitingServedRatio: 0.3, MaxWaitingTokens: 20, WatermarkGamma: 0.5, WatermarkDelta: 2,
			PrefillStretch: 2.5,
		},
		Runtime: Runtime{Device: Auto, CUDAGraphs: Auto, Spin: Auto, KVDType: Auto, PrefixSharing: true,
			KVDiskSize: 10 << 30},
		Metrics: Metrics{Enabled: true, VLLMNames: true},
		Trace:   Trace{OTLPServiceName: "text-generation-inference.router", SampleRatio: 1},
		Log:     Log{Level: slog.LevelInfo, Format: LogAuto},
		Plugins: Plugins{
			Folder: "plugins", Watch: second, UploadLimit: 16 << 20, MemoryWait: 5 * second, BreakerFaults: 10,
			BreakerPause: 30 * second,
			ProgramTime:  300 * second,
			GrammarTime:  30 * second,
			Uploads:      "plugins/uploads", Installed: "plugins/installed",
			CompileTime: 10 * second, CompileTimeout: 300 * second,
			CompileMemory: 1 << 30,
			CacheSize:     1 << 30,
		},
		GenerateAPI: defaultGenerateAPI(),
		Responses:   defaultResponses(),
		Record:      defaultRecord(),
		KVEvents:    defaultKVEvents(),
		MCPLimits:   defaultMCPLimits(),
		Images:      defaultImages(),
		Embeddings:  defaultEmbeddings(),
		Batches:     defaultBatches(),
	}
}
