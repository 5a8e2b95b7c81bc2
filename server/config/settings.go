package config

import (
	"encoding"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// setting is one way to set a key outside the file. Its environment variable
// is the flag in upper snake case. Flags of TGI's launcher have its names.
type setting struct {
	flag, key, help string
	// at returns where the value goes: *string, *[]string, *int, *bool, *float64
	// or an encoding.TextUnmarshaler.
	at func(*Config) any
	// also are further environment variables, each of which beats those before
	// it and the setting's own.
	also []string
}

var settings = append([]setting{
	{"model-id", "model.path",
		"folder or GGUF file of the model to serve, or org/name[@revision][:file] of the hub; none is the embedded demo",
		func(c *Config) any { return &c.Model.Path }, []string{"HF_MODEL_ID"}},
	{"chat-template", "model.template", "auto (the model's), none, a file *.jinja or the name of a plugin",
		func(c *Config) any { return &c.Model.Template }, nil},
	{"tool-call-parser", "model.tools", "auto, none, the name of a format, a file *.json or the name of a plugin",
		func(c *Config) any { return &c.Model.Tools }, nil},
	{"weights", "model.weights", "auto, fp32, int8, int4 or stored (as a quantised checkpoint has them); on GPUs auto, bf16, fp16, int8 or int4; of ready ONNX graphs what their names say, such as q4f16",
		func(c *Config) any { return &c.Model.Weights }, nil},
	{"lora-adapters", "model.adapter", "low-rank adapters of the model: name=folder, separated by commas",
		func(c *Config) any { return loraAdapters{&c.Model.Adapters} }, nil},
	{"speculate", "model.speculation.tokens",
		"most tokens that are guessed for a text in a step, also by looking them up in it; 0 is off",
		func(c *Config) any { return speculate{&c.Model.Speculation} }, nil},
	{"device", "runtime.device", "what computes: auto, cpu, cuda or cuda:N",
		func(c *Config) any { return &c.Runtime.Device }, nil},
	{"cuda-graphs", "runtime.cuda_graphs",
		"sizes of batches that a GPU decodes as CUDA graphs: auto, 0 for none, or a list",
		func(c *Config) any { return &c.Runtime.CUDAGraphs }, nil},
	{"kv-cache-dtype", "runtime.kv_dtype",
		"what the CPU stores keys and values as: auto, float32, float16, bfloat16 or int8",
		func(c *Config) any { return kvDType{&c.Runtime.KVDType} }, nil},
	{"kv-disk", "runtime.kv_disk", "folder that keeps the cache of prompts across restarts",
		func(c *Config) any { return &c.Runtime.KVDisk }, nil},
	{"models-folder", "models.folder", "folder that holds the models", func(c *Config) any { return &c.Models.Folder },
		nil},
	{"hub-url", "models.hub", "URL of the hub that models are fetched from", func(c *Config) any {
		return &c.Models.Hub
	},
		[]string{"HF_ENDPOINT"}},
	{"hub-token", "models.hub_token", "token for the hub", func(c *Config) any { return &c.Models.HubToken },
		[]string{"HF_API_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN"}},
	{"models-allow-hosts", "models.allow_hosts",
		"hosts that models may be fetched from beside the hub, separated by commas", func(c *Config) any {
			return &c.Models.AllowHosts
		}, nil},
	{"hostname", "server.hostname", "address to listen on", func(c *Config) any { return &c.Server.Hostname }, nil},
	{"port", "server.port", "port to listen on", func(c *Config) any { return &c.Server.Port },
		[]string{"SAGEMAKER_BIND_TO_PORT", "AIP_HTTP_PORT"}},
	{"api-key", "server.api_keys", "keys that let requests in, separated by commas",
		func(c *Config) any { return &c.Server.APIKeys }, nil},
	{"admin-key", "server.admin_keys", "keys for the routes below /admin, separated by commas",
		func(c *Config) any { return &c.Server.AdminKeys }, nil},
	{"cors-allow-origin", "server.cors_allow_origin", "origins whose pages may call, separated by commas",
		func(c *Config) any { return &c.Server.CORSAllowOrigin }, nil},
	{"payload-limit", "server.payload_limit", "largest body of a request, in bytes",
		func(c *Config) any { return &c.Server.PayloadLimit }, nil},
	{"graceful-termination-timeout", "server.graceful_termination_timeout",
		"time for running requests when told to stop",
		func(c *Config) any { return &c.Server.GracefulTerminationTimeout }, nil},
	{"drain-delay", "server.drain_delay", "time in which probes fail and requests are served still, when told to stop",
		func(c *Config) any { return &c.Server.DrainDelay }, nil},
	{"compute-type", "server.compute_type", "value of the header x-compute-type",
		func(c *Config) any { return &c.Server.ComputeType }, nil},
	{"dialect", "server.dialect", "version of TGI's API that is spoken by default: tgi-0.6, tgi-2.2 or tgi-3",
		func(c *Config) any { return &c.Server.Dialect }, nil},
	{"strict-fields", "server.strict_fields", "refuse requests with members that mean nothing, such as misspelt ones",
		func(c *Config) any { return &c.Server.StrictFields }, nil},
	{"ollama", "server.ollama", "serve Ollama's API below /api",
		func(c *Config) any { return &c.Server.Ollama }, nil},
	{"protect-metrics", "server.protect_metrics", "/metrics wants a key",
		func(c *Config) any { return &c.Server.ProtectMetrics }, nil},
	{"admin-hostname", "server.admin_hostname", "address for the routes below /admin",
		func(c *Config) any { return &c.Server.AdminHostname }, nil},
	{"admin-port", "server.admin_port", "port for the routes below /admin alone; 0 serves them beside the others",
		func(c *Config) any { return &c.Server.AdminPort }, nil},
	{"tls-cert", "server.tls_cert", "PEM file of the certificate", func(c *Config) any { return &c.Server.TLSCert },
		nil},
	{"tls-key", "server.tls_key", "PEM file of the certificate's key", func(c *Config) any { return &c.Server.TLSKey },
		nil},
	{"disable-grammar-support", "server.disable_grammar_support", "refuse requests that bring a grammar",
		func(c *Config) any { return &c.Server.DisableGrammar }, nil},
	{"messages-api-enabled", "server.messages_api_enabled", "/invocations of tgi-2.2 is a chat",
		func(c *Config) any { return &c.Server.MessagesAPI }, nil},
	{"predict-route", "server.predict_route", "further path of Vertex' requests",
		func(c *Config) any { return &c.Server.PredictRoute }, []string{"AIP_PREDICT_ROUTE"}},
	{"health-route", "server.health_route", "further path of the health probe",
		func(c *Config) any { return &c.Server.HealthRoute }, []string{"AIP_HEALTH_ROUTE"}},
	{"max-concurrent-requests", "limits.max_concurrent_requests", "requests waiting or running before others get 429",
		func(c *Config) any { return &c.Limits.MaxConcurrentRequests }, nil},
	{"max-best-of", "limits.max_best_of", "largest best_of", func(c *Config) any { return &c.Limits.MaxBestOf }, nil},
	{"max-stop-sequences", "limits.max_stop_sequences", "most stop sequences of a request",
		func(c *Config) any { return &c.Limits.MaxStopSequences }, nil},
	{"max-top-n-tokens", "limits.max_top_n_tokens", "largest top_n_tokens",
		func(c *Config) any { return &c.Limits.MaxTopNTokens }, nil},
	{"max-client-batch-size", "limits.max_client_batch_size", "most prompts in one request",
		func(c *Config) any { return &c.Limits.MaxClientBatchSize }, nil},
	{"validation-workers", "limits.validation_workers", "prompts tokenized at the same time",
		func(c *Config) any { return &c.Limits.ValidationWorkers }, nil},
	{"max-input-tokens", "limits.max_input_tokens", "longest prompt, in tokens",
		func(c *Config) any { return &c.Limits.MaxInputTokens }, nil},
	{legacyInput, "limits.max_input_tokens", "older name of --max-input-tokens",
		func(c *Config) any { return &c.Limits.MaxInputTokens }, nil},
	{"max-total-tokens", "limits.max_total_tokens", "longest prompt and output together, in tokens",
		func(c *Config) any { return &c.Limits.MaxTotalTokens }, nil},
	{"max-batch-prefill-tokens", "limits.max_batch_prefill_tokens", "prompt tokens of one step",
		func(c *Config) any { return &c.Limits.MaxBatchPrefillTokens }, nil},
	{"prefill-stretch", "limits.prefill_stretch",
		"how many times as long as without prompts a step may take beside running texts; 0: any",
		func(c *Config) any { return &c.Limits.PrefillStretch }, nil},
	{"prefill-step-time", "limits.prefill_step_time",
		"time that a step with prompts may take beside running texts even if it is stretched more",
		func(c *Config) any { return &c.Limits.PrefillStepTime }, nil},
	{"max-batch-total-tokens", "limits.max_batch_total_tokens", "tokens of all running sequences",
		func(c *Config) any { return &c.Limits.MaxBatchTotalTokens }, nil},
	{"max-batch-size", "limits.max_batch_size", "most running sequences",
		func(c *Config) any { return &c.Limits.MaxBatchSize }, nil},
	{"waiting-served-ratio", "limits.waiting_served_ratio", "waiting to running sequences that lets prompts in",
		func(c *Config) any { return &c.Limits.WaitingServedRatio }, nil},
	{"max-waiting-tokens", "limits.max_waiting_tokens", "steps after which prompts are let in regardless",
		func(c *Config) any { return &c.Limits.MaxWaitingTokens }, nil},
	{"watermark-gamma", "limits.watermark_gamma", "green share of the vocabulary",
		func(c *Config) any { return &c.Limits.WatermarkGamma }, nil},
	{"watermark-delta", "limits.watermark_delta", "bonus of green tokens",
		func(c *Config) any { return &c.Limits.WatermarkDelta }, nil},
	{"prefix-caching", "runtime.prefix_sharing", "prompts that begin alike share their cache",
		func(c *Config) any { return &c.Runtime.PrefixSharing }, nil},
	{"vllm-names", "metrics.vllm_names", "serve five gauges under vLLM's names too",
		func(c *Config) any { return &c.Metrics.VLLMNames }, nil},
	{"otlp-endpoint", "trace.otlp_endpoint", "URL of an OpenTelemetry collector; none makes no traces",
		func(c *Config) any { return &c.Trace.OTLPEndpoint }, nil},
	{"otlp-service-name", "trace.otlp_service_name", "what traces call this server",
		func(c *Config) any { return &c.Trace.OTLPServiceName }, nil},
	{"trace-sample-ratio", "trace.sample_ratio", "share of requests that are traced",
		func(c *Config) any { return &c.Trace.SampleRatio }, nil},
	{"trace-content", "trace.content", "put what conversations said into traces",
		func(c *Config) any { return &c.Trace.Content }, nil},
	{"log-level", "log.level", "debug, info, warn or error", func(c *Config) any { return logLevel{&c.Log.Level} },
		nil},
	{"json-output", "log.format", "log JSON", func(c *Config) any { return jsonOutput{&c.Log.Format} }, nil},
	{"plugins-folder", "plugins.folder", "folder whose *.wasm files are plugins",
		func(c *Config) any { return &c.Plugins.Folder }, nil},
	{"plugins-memory", "plugins.memory", "memory of all plugins together, such as 1GiB",
		func(c *Config) any { return &c.Plugins.Memory }, nil},
}, slices.Concat(generateSettings, responsesSettings, recordSettings, kvEventSettings, quotaSettings, imageSettings,
	embeddingSettings, batchSettings)...)

// legacyInput is what TGI called max-input-tokens before.
const legacyInput = "max-input-length"

// configFlag names the file.
const configFlag = "config"

// env returns the environment variable of a flag: PORT for port. The file's is
// TGI_CONFIG, since CONFIG alone is too general.
func env(flag string) string {
	if flag == configFlag {
		return "TGI_CONFIG"
	}
	return strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// assign parses text into dst.
func assign(dst any, text string) error {
	var err error
	switch d := dst.(type) {
	case *string:
		*d = text
	case *[]string:
		*d = strings.Split(text, ",")
	case *int:
		if *d, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%q is no whole number", text)
		}
	case *bool:
		if *d, err = truth(text); err != nil {
			return err
		}
	case *float64:
		if *d, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("%q is no number", text)
		}
	case encoding.TextUnmarshaler:
		return d.UnmarshalText([]byte(text))
	default:
		panic(fmt.Sprintf("BUG: no way to parse a setting of type %T", dst))
	}
	return nil
}

// truth reads a boolean as TGI's launcher does (clap's boolish values).
func truth(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "t", "yes", "y", "on", "1":
		return true, nil
	case "false", "f", "no", "n", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

// jsonOutput is the launcher's switch for JSON logs, laid over log.format.
type jsonOutput struct{ format *string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (j jsonOutput) UnmarshalText(text []byte) error {
	on, err := truth(string(text))
	if on {
		*j.format = LogJSON
	}
	return err
}

// logLevel reads a level as slog does, and TGI's filters such as
// "info,text_generation_router=debug", of which the part without a target
// counts.
type logLevel struct{ level *slog.Level }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l logLevel) UnmarshalText(text []byte) error {
	for part := range strings.SplitSeq(string(text), ",") {
		if strings.EqualFold(part, "trace") {
			part = "debug"
		}
		if l.level.UnmarshalText([]byte(part)) == nil {
			return nil
		}
	}
	return fmt.Errorf("%q holds none of the levels trace, debug, info, warn and error", text)
}
