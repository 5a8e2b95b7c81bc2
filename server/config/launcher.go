package config

import (
	"fmt"
	"slices"
	"strings"
)

// Notice is something that was asked for and has no effect here, or another one than it seems.
type Notice struct {
	// Name is the flag or the environment variable.
	Name string
	// Why says what happens instead.
	Why string
	// CPU says that it has an effect on GPUs.
	CPU bool
	// Effect says that it has an effect; Why says which.
	Effect bool
}

// String returns a sentence for logs.
func (n Notice) String() string {
	where := ""
	if n.Effect {
		return n.Name + ": " + n.Why
	}
	if n.CPU {
		where = " on the CPU"
	}
	return fmt.Sprintf("%s has no effect%s: %s", n.Name, where, n.Why)
}

// effect is a flag or environment variable of TGI's launcher, its router or
// its images that is accepted, so that deployments start, and does nothing.
type effect struct {
	// flag is empty for what is an environment variable alone.
	flag string
	// env are the variables; nil is the flag in upper snake case.
	env []string
	// bare is a flag without a value.
	bare bool
	// same are values that ask for what happens anyway; they are not reported.
	same []string
	// reason says what happens instead.
	reason string
	// weights are the values of model.weights that values stand for on a GPU.
	weights map[string]string
}

// Weights on a GPU, by the values of TGI's flags. Its other quantizations are formats of checkpoints, or fp8.
var (
	quantizeWeights = map[string]string{"bitsandbytes": WeightsInt8, "eetq": WeightsInt8,
		"bitsandbytes-nf4": WeightsInt4, "bitsandbytes-fp4": WeightsInt4}
	dtypeWeights = map[string]string{"float16": WeightsFP16, "bfloat16": WeightsBF16}
)

var no = []string{"false", "0", "off", "no"}

const (
	whyOneProcess = "one process serves the model on one device"
	whyWeights    = "--weights says how the model is computed"
	whyModelFiles = "it is read from the files of the model"
	whyFolder     = "models lie in --models-folder, or in the folder that --model-id names"
	whyRevision   = "--model-id and sources in the settings name their revision, as in org/name@revision"
	whyFetch      = "it is about another program that fetches"
	whyNoGPU      = "it is about kernels for GPUs that this server does not have"
	whyNoCall     = "this server reports to nobody"
	whyNgrok      = "the server opens no tunnels"
	whyPrefill    = "log-probabilities of the prompt are given to every request that asks for them"
	whyBuild      = "it is a label of TGI's own images"
	whyOneEngine  = "there is one engine, which reads the model's own files"
	whyLlamaCpp   = "it is an option of TGI's llama.cpp backend"
)

var effectless = []effect{
	{flag: "revision", env: []string{"REVISION", "HF_MODEL_REVISION"}, reason: whyRevision},
	{flag: "sharded", same: no, reason: whyOneProcess},
	{flag: "num-shard", env: []string{"NUM_SHARD", "SM_NUM_GPUS"}, same: []string{"1"}, reason: whyOneProcess},
	{flag: "dtype", reason: whyWeights, weights: dtypeWeights},
	{flag: "quantize", env: []string{"QUANTIZE", "HF_MODEL_QUANTIZE"}, reason: whyWeights, weights: quantizeWeights,
		same: []string{"awq", "gptq", "marlin", "compressed-tensors"}}, // of which a checkpoint says so itself
	{flag: "trust-remote-code", env: []string{"TRUST_REMOTE_CODE", "HF_MODEL_TRUST_REMOTE_CODE"}, bare: true, same: no,
		reason: "no code of a model is run; plugins are the way to add code"},
	{flag: "cuda-memory-fraction", reason: "runtime.kv_memory says how much memory the cache takes"},
	{flag: "disable-custom-kernels", bare: true, same: no, reason: whyNoGPU},
	{flag: "prometheus-port", reason: "/metrics is served on --port, and on --admin-port if that is given"},
	{flag: "shard-uds-path", reason: whyOneProcess},
	{flag: "master-addr", reason: whyOneProcess},
	{flag: "master-port", reason: whyOneProcess},
	{flag: "master-shard-uds-path", reason: whyOneProcess},
	{flag: "huggingface-hub-cache", reason: whyFolder},
	{flag: "weights-cache-override", reason: whyFolder},
	{flag: "rope-scaling", reason: whyModelFiles},
	{flag: "rope-factor", reason: whyModelFiles},
	{flag: "tokenizer-config-path", reason: whyModelFiles},
	{flag: "tokenizer-name", reason: whyModelFiles},
	{flag: "ngrok", bare: true, same: no, reason: whyNgrok},
	{flag: "ngrok-authtoken", reason: whyNgrok},
	{flag: "ngrok-edge", reason: whyNgrok},
	{flag: "env", env: []string{}, bare: true, same: no,
		reason: "`tgi version` and `tgi check` print what this is about"},
	{flag: "usage-stats", same: append([]string{"no-stack"}, no...), reason: whyNoCall},
	{flag: "disable-usage-stats", bare: true, same: []string{"true", "1"}, reason: whyNoCall},
	{flag: "disable-crash-reports", bare: true, same: []string{"true", "1"}, reason: whyNoCall},
	{flag: "enable-prefill-logprobs", bare: true, same: []string{"true", "1"}, reason: whyPrefill},
	{flag: "n-gpu-layers", same: []string{"0"}, reason: whyLlamaCpp},
	{flag: "type-k", reason: whyLlamaCpp},
	{flag: "type-v", reason: whyLlamaCpp},
	{env: []string{"HF_HUB_ENABLE_HF_TRANSFER", "HF_HUB_USER_AGENT_ORIGIN"}, reason: whyFetch},
	{env: []string{"HF_HUB_OFFLINE"}, same: no,
		reason: "models are fetched where a source in the settings or a pull asks for it, and never else"},
	{env: []string{"LOG_COLORIZE"}, same: no, reason: "the log has no colours"},
	{env: []string{"ATTENTION"}, same: []string{"paged"}, reason: "attention is always paged"},
	{env: []string{"USE_FLASH_ATTENTION"}, same: no, reason: whyNoGPU},
	{env: []string{"PREFILL_CHUNKING"}, same: []string{"1", "true"},
		reason: "long prompts are always computed in chunks"},
	{env: []string{"REQUEST_LOGPROBS"}, same: []string{"1", "true"}, reason: whyPrefill},
	{env: []string{"TGI_WIGGLE_ROOM"}, reason: "runtime.kv_memory says how much memory the cache takes"},
	{env: []string{"PYTORCH_TUNABLEOP_ENABLED", "PYTORCH_TUNABLEOP_TUNING"}, same: no, reason: whyNoGPU},
	{env: []string{"DOCKER_LABEL", "GIT_SHA"}, reason: whyBuild},
	{env: []string{"USE_LLAMA_CPP"}, same: no, reason: whyOneEngine},
	{env: []string{"LLAMA_CPP_MAX_CONTEXT"}, reason: "limits.max_total_tokens bounds the context"},
	{env: []string{"LLAMA_CPP_BATCH_TOKENS"}, reason: "limits.max_batch_prefill_tokens bounds the tokens of a step"},
	{env: []string{"LLAMA_RAM_CACHE_MB"}, reason: "runtime.kv_memory says how much memory the cache takes"},
	{env: []string{"ENABLE_CUDA"}, reason: "runtime.device says what computes"},
	{env: []string{"DEVICE_MAP_AUTO"}, same: no, reason: whyOneProcess},
	{env: []string{"TARGET_GPU_INDEX"}, same: []string{"0"}, reason: whyOneProcess},
	{env: []string{"LOAD_IN_8BIT", "LOAD_IN_4BIT"}, same: no, reason: whyWeights},
	{env: []string{"SPACE_TOKEN_CHAR"}, reason: "the tokenizer's own files say how words are joined"},
	{env: []string{"MODEL_SEED"}, reason: "every request has a seed of its own"},
	{env: []string{"MODEL_LOADER"}, same: []string{"automodelforcausallm"}, reason: whyOneEngine},
}

// variables returns the environment variables of e.
func (e *effect) variables() []string {
	if e.env == nil {
		return []string{env(e.flag)}
	}
	return e.env
}

// launcher notes what was given and has no effect, in the order of the table, and what has one on GPUs alone.
func (l *Loaded) launcher(given map[string]string, present func(string) (string, bool)) {
	tell := func(e *effect, name, value string) {
		if slices.Contains(e.same, strings.ToLower(value)) {
			return
		}
		w := e.weights[strings.ToLower(value)]
		if w != "" {
			l.Config.CUDAWeights = w
			if kind, _, err := ParseDevice(l.Config.Runtime.Device); err == nil && kind == DeviceCUDA {
				return // it has its effect
			}
		}
		l.Notices = append(l.Notices, Notice{Name: name, Why: e.reason, CPU: w != ""})
	}
	for i := range effectless {
		e := &effectless[i]
		if value, ok := given[e.flag]; ok {
			tell(e, "--"+e.flag, value)
			continue
		}
		for _, name := range e.variables() {
			if value, ok := present(name); ok && !foreign(e.flag, value) {
				tell(e, name, value)
			}
		}
	}
}
