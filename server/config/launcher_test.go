package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// launcherFlags are the flags of TGI's launcher (3.3, with those that only 2.2
// had) and of its router, each with a value that may be given; none is a flag
// without a value.
var launcherFlags = map[string]string{
	"model-id": "x", "revision": "main", "validation-workers": "2", "sharded": "true", "num-shard": "2",
	"quantize": "fp8", "speculate": "2",
	"dtype": "float16", "kv-cache-dtype": "fp8_e5m2", "trust-remote-code": "", "max-concurrent-requests": "8",
	"max-best-of":        "2",
	"max-stop-sequences": "4", "max-top-n-tokens": "5", "max-input-tokens": "10", "max-input-length": "10",
	"max-total-tokens":     "20",
	"waiting-served-ratio": "1.2", "max-batch-prefill-tokens": "4096", "max-batch-total-tokens": "8192",
	"max-waiting-tokens": "20",
	"max-batch-size":     "4", "cuda-graphs": "1,2", "hostname": "0.0.0.0", "port": "80", "prometheus-port": "9000",
	"shard-uds-path": "/tmp/x",
	"master-addr":    "localhost", "master-port": "29500", "huggingface-hub-cache": "/data",
	"weights-cache-override": "/data",
	"disable-custom-kernels": "", "cuda-memory-fraction": "0.9", "rope-scaling": "linear", "rope-factor": "2.0",
	"json-output":   "",
	"otlp-endpoint": "http://localhost:4318", "otlp-service-name": "me", "cors-allow-origin": "https://a",
	"api-key": "k", "watermark-gamma": "0.4",
	"watermark-delta": "1.0", "ngrok": "", "ngrok-authtoken": "x", "ngrok-edge": "x", "tokenizer-config-path": "x",
	"disable-grammar-support": "",
	"env":                     "", "max-client-batch-size": "4", "lora-adapters": "a,b", "usage-stats": "on",
	"payload-limit":                "2000000",
	"enable-prefill-logprobs":      "",
	"graceful-termination-timeout": "90", "messages-api-enabled": "", "disable-usage-stats": "",
	"disable-crash-reports": "",
	"master-shard-uds-path": "/tmp/x-0", "tokenizer-name": "bigscience/bloom", "max-image-fetch-size": "1",
}

// launcherVariables are what TGI reads besides the variables of its flags.
var launcherVariables = map[string]string{
	"HF_TOKEN": "x", "HUGGING_FACE_HUB_TOKEN": "x", "HF_API_TOKEN": "x", "HF_HUB_OFFLINE": "1",
	"HUGGINGFACE_HUB_CACHE":     "/data",
	"HF_HUB_ENABLE_HF_TRANSFER": "1", "HF_HUB_USER_AGENT_ORIGIN": "x", "COMPUTE_TYPE": "cpu", "LOG_LEVEL": "debug",
	"LOG_COLORIZE": "true",
	"ATTENTION":    "flashinfer", "PREFIX_CACHING": "0", "PREFILL_CHUNKING": "0", "REQUEST_LOGPROBS": "0",
	"TGI_WIGGLE_ROOM": "0.9",
	"CUDA_GRAPHS":     "1", "USE_FLASH_ATTENTION": "true", "DOCKER_LABEL": "x", "GIT_SHA": "x", "AIP_HTTP_PORT": "8081",
	"AIP_PREDICT_ROUTE": "/p", "AIP_HEALTH_ROUTE": "/h", "HF_MODEL_ID": "x", "HF_MODEL_REVISION": "x",
	"SM_NUM_GPUS":       "4",
	"HF_MODEL_QUANTIZE": "fp8", "HF_MODEL_TRUST_REMOTE_CODE": "true",
}

// works reports whether the setting has an effect; the others are told of.
func works(flag string) bool {
	for i := range settings {
		if settings[i].flag == flag {
			return true
		}
	}
	return false
}

func TestLauncherFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	nothing := func(string) (string, bool) { return "", false }
	for flag, value := range launcherFlags {
		args := []string{"--" + flag}
		if value != "" {
			args = append(args, value)
		}
		l, err := Read(parsed(t, args...), nothing)
		if err != nil {
			t.Errorf("%q: %v", args, err)
		}
		// Those that ask for what happens anyway say nothing.
		silent := works(flag) || strings.HasPrefix(flag, "disable-usage") || strings.HasPrefix(flag, "disable-crash") ||
			flag == "enable-prefill-logprobs"
		if silent != (len(l.Notices) == 0) || !silent && (l.Notices[0].Name != "--"+flag || l.Notices[0].Why == "") {
			t.Errorf("%q: notices %v", args, l.Notices)
		}
		if flag == "env" {
			continue // has no variable
		}
		if value == "" {
			value = "true"
		}
		name := env(flag)
		l, err = Read(nil, func(n string) (string, bool) { return value, n == name })
		if err != nil || silent != (len(l.Notices) == 0) || !silent && l.Notices[0].Name != name {
			t.Errorf("%s=%s: %v, notices %v", name, value, err, l.Notices)
		}
	}
}

func TestLauncherVariables(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, value := range launcherVariables {
		l, err := Read(nil, func(n string) (string, bool) { return value, n == name })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(l.Notices) == 0 == (len(l.origins) == 0) {
			t.Errorf("%s=%s sets %v and gives notices %v, want one of both", name, value, l.origins, l.Notices)
		}
	}
}

// TestLauncherWeights: what TGI computes with by --quantize and --dtype is what a GPU computes with here. Formats of
// checkpoints, and fp8, have no counterpart.
func TestLauncherWeights(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args, want string
	}{
		{"", ""},
		{"--dtype float16", "fp16"},
		{"--dtype bfloat16", "bf16"},
		{"--quantize bitsandbytes", "int8"},
		{"--quantize eetq", "int8"},
		{"--quantize bitsandbytes-nf4", "int4"},
		{"--quantize bitsandbytes-fp4", "int4"},
		{"--dtype bfloat16 --quantize eetq", "int8"},
		{"--quantize awq", ""},
		{"--quantize fp8 --dtype float16", "fp16"},
	} {
		l, err := Read(parsed(t, strings.Fields(c.args)...), func(string) (string, bool) { return "", false })
		if err != nil || l.Config.CUDAWeights != c.want || l.Config.Model.Weights != Auto {
			t.Errorf("%s: weights %q on a GPU, %v, want %q", c.args, l.Config.CUDAWeights, err, c.want)
		}
	}
	l, err := Read(nil, func(name string) (string, bool) { return "bitsandbytes-nf4", name == "HF_MODEL_QUANTIZE" })
	want := "HF_MODEL_QUANTIZE has no effect on the CPU: --weights says how the model is computed"
	on, onErr := Read(parsed(t, "--device", "cuda:1", "--dtype", "float16", "--quantize", "fp8"),
		func(string) (string, bool) { return "", false })
	if onErr != nil || on.Config.CUDAWeights != "fp16" || len(on.Notices) != 1 || on.Notices[0].Name != "--quantize" {
		t.Errorf("on a GPU: %q, notices %v, %v", on.Config.CUDAWeights, on.Notices, onErr)
	}
	if err != nil || l.Config.CUDAWeights != "int4" || len(l.Notices) != 1 || l.Notices[0].String() != want {
		t.Errorf("got %q, notices %v, %v", l.Config.CUDAWeights, l.Notices, err)
	}
}

func TestLauncherMeanings(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("here/name", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		env    map[string]string
		change func(*Config)
	}{
		{[]string{"--json-output", "--trust-remote-code=false"}, nil, func(c *Config) { c.Log.Format = LogJSON }},
		{nil, map[string]string{"JSON_OUTPUT": "false"}, func(*Config) {}},
		{nil, map[string]string{"LOG_LEVEL": "warn,text_generation_router=debug"}, func(c *Config) {
			c.Log.Level = slog.LevelWarn
		}},
		{[]string{"-p", "81"}, map[string]string{"AIP_HTTP_PORT": "82"}, func(c *Config) { c.Server.Port = 81 }},
		{nil, map[string]string{"PORT": "81", "AIP_HTTP_PORT": "82"}, func(c *Config) { c.Server.Port = 82 }},
		{nil, map[string]string{"HF_MODEL_ID": "m", "MODEL_ID": "n"}, func(c *Config) {
			c.Model.Path, c.Server.Port = "m", 8080
		}},
		{nil, map[string]string{"HF_MODEL_ID": "m", "SAGEMAKER_BIND_TO_PORT": "9"}, func(c *Config) {
			c.Model.Path, c.Server.Port = "m", 9
		}},
		{[]string{"--model-id", "n"}, map[string]string{"HF_MODEL_ID": "m"}, func(c *Config) { c.Model.Path = "n" }},
		{[]string{"--model-id", "org/name@v1"}, nil, func(c *Config) { c.Model.Source = "org/name@v1" }},
		{[]string{"--model-id", "here/name"}, nil, func(c *Config) { c.Model.Path = "here/name" }},
		{[]string{"--model-id", "./org/name"}, nil, func(c *Config) { c.Model.Path = "./org/name" }},
		{[]string{"--model-id", "../name"}, nil, func(c *Config) { c.Model.Path = "../name" }},
		{[]string{"--model-id", "/name"}, nil, func(c *Config) { c.Model.Path = "/name" }},
		{nil, map[string]string{"MODEL_ID": "org/name"}, func(c *Config) { c.Model.Source = "org/name" }},
		{[]string{"--cors-allow-origin", "http://a", "--cors-allow-origin=http://b"}, nil, func(c *Config) {
			c.Server.CORSAllowOrigin = []string{"http://a", "http://b"}
		}},
		{[]string{"--max-input-length", "7"}, nil, func(c *Config) { c.Limits.MaxInputTokens = 7 }},
		{nil, map[string]string{"ADMIN_PORT": "tcp://10.0.0.1:80", "PORT": "tcp://10.0.0.1:80",
			"PROMETHEUS_PORT": "tcp://10.0.0.1:80"}, func(*Config) {}},
		{nil, map[string]string{"PREFIX_CACHING": "false"}, func(c *Config) { c.Runtime.PrefixSharing = false }},
	} {
		l, err := Read(parsed(t, c.args...), func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		want := Default()
		c.change(&want)
		want.Given = l.Config.Given // see TestPlaceGiven
		if err != nil || !reflect.DeepEqual(l.Config, want) || l.Notices != nil {
			t.Errorf("%q %v: %v\n got %+v\nwant %+v", c.args, c.env, err, l.Config, want)
		}
	}
}

// TestEffective: what WriteEffective writes is a file that gives the same
// settings, the secrets aside, and says where each came from.
func TestEffective(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.toml")
	text := `[server]
port = 81
api_keys = ["secret-a", "secret-b"]
[limits]

max_best_of = 3
[[key]]
name = "x"
key = "secret-c"
scopes = ["models"]
[[plugin]]
name = "p"
source = "/p.wasm"
limits = {memory = "1MiB"}
[plugin.config]
n = [1, {deep = "q\"uote"}]
[[plugin]]
name = "q"
source = "builtin:q"
[plugin.limits]
fuel_load = 9
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"TGI_CONFIG": file, "MAX_TOTAL_TOKENS": "99", "ADMIN_KEY": "secret-d"}
	l, err := Read(parsed(t, "--port", "82"), func(name string) (string, bool) { v, ok := environ[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := l.WriteEffective(&out); err != nil {
		t.Fatal(err)
	}
	var again Config
	if err := Decode("printed", []byte(out.String()), &again); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	want := l.Config
	want.File, want.Given, want.text = "", nil, ""
	want.Server.APIKeys, want.Server.AdminKeys = []string{"***", "***"}, []string{"***"}
	want.Key[0].Key = "***"
	if !reflect.DeepEqual(again, want) {
		t.Errorf("printed\n%+v\nwant\n%+v", again, want)
	}
	if strings.Contains(out.String(), "secret") {
		t.Error("a key is shown:\n", out.String())
	}
	squeezed := strings.Join(strings.Fields(out.String()), " ")
	for _, line := range []string{
		"port = 82 # flag --port", `api_keys = ["***", "***"] # ` + file + ":3", "max_best_of = 3 # " + file + ":6",
		`name = "x" # ` + file + ":8",
		"max_total_tokens = 99 # env MAX_TOTAL_TOKENS", "admin_port = 0 # default", `memory = "1MiB" # ` + file + ":14",
		"fuel_load = 9 # " + file + ":21",
		`admin_keys = ["***"] # env ADMIN_KEY`, "waiting_served_ratio = 0.3 # default", "sample_ratio = 1.0 # default",
		`level = "INFO" # default`,
	} {
		if !strings.Contains(squeezed, line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
}

func TestBothNames(t *testing.T) {
	t.Chdir(t.TempDir())
	environ := map[string]string{"MAX_INPUT_LENGTH": "5"}
	_, err := Read(parsed(t, "--max-input-tokens", "6"), func(name string) (string, bool) {
		v, ok := environ[name]
		return v, ok
	})
	want := "both `max_input_tokens` (6) and `max_input_length` (5) are set; give `max_input_tokens` alone, the other is its older name"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, bad := range []struct{ name, value, want string }{
		{"JSON_OUTPUT", "maybe", `JSON_OUTPUT: "maybe" is neither true nor false`},
		{"LOG_LEVEL", "x=debug", `LOG_LEVEL: "x=debug" holds none of the levels trace, debug, info, warn and error`},
		{"AIP_HTTP_PORT", "http", `AIP_HTTP_PORT: "http" is no whole number`},
	} {
		_, err := Read(nil, func(name string) (string, bool) { return bad.value, name == bad.name })
		if err == nil || err.Error() != bad.want {
			t.Errorf("got %v, want %s", err, bad.want)
		}
	}
}
