package config

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrHelp: the flags asked for help.
var ErrHelp = errors.New("help requested")

// defaultFile is read from the working folder when it is there and no other
// file is named.
const defaultFile = "tgi.toml"

// setting is one way to set a key outside the file. Its environment variable
// is the flag in upper snake case.
type setting struct {
	flag, key, help string
	// at returns where the value goes: *string, *[]string, *int, *float64 or
	// an encoding.TextUnmarshaler.
	at func(*Config) any
}

var settings = []setting{
	{"model-id", "model.path", "folder of the model to serve; none is the embedded demo", func(c *Config) any { return &c.Model.Path }},
	{"weights", "model.weights", "auto, fp32, int8 or int4", func(c *Config) any { return &c.Model.Weights }},
	{"hostname", "server.hostname", "address to listen on", func(c *Config) any { return &c.Server.Hostname }},
	{"port", "server.port", "port to listen on", func(c *Config) any { return &c.Server.Port }},
	{"api-key", "server.api_keys", "keys that let requests in, separated by commas", func(c *Config) any { return &c.Server.APIKeys }},
	{"admin-key", "server.admin_keys", "keys for the routes below /admin, separated by commas", func(c *Config) any { return &c.Server.AdminKeys }},
	{"cors-allow-origin", "server.cors_allow_origin", "origins whose pages may call, separated by commas", func(c *Config) any { return &c.Server.CORSAllowOrigin }},
	{"payload-limit", "server.payload_limit", "largest body of a request, in bytes", func(c *Config) any { return &c.Server.PayloadLimit }},
	{"graceful-termination-timeout", "server.graceful_termination_timeout", "time for running requests when told to stop", func(c *Config) any { return &c.Server.GracefulTerminationTimeout }},
	{"compute-type", "server.compute_type", "value of the header x-compute-type", func(c *Config) any { return &c.Server.ComputeType }},
	{"max-concurrent-requests", "limits.max_concurrent_requests", "requests waiting or running before others get 429", func(c *Config) any { return &c.Limits.MaxConcurrentRequests }},
	{"max-best-of", "limits.max_best_of", "largest best_of", func(c *Config) any { return &c.Limits.MaxBestOf }},
	{"max-stop-sequences", "limits.max_stop_sequences", "most stop sequences of a request", func(c *Config) any { return &c.Limits.MaxStopSequences }},
	{"max-top-n-tokens", "limits.max_top_n_tokens", "largest top_n_tokens", func(c *Config) any { return &c.Limits.MaxTopNTokens }},
	{"max-client-batch-size", "limits.max_client_batch_size", "most prompts in one request", func(c *Config) any { return &c.Limits.MaxClientBatchSize }},
	{"validation-workers", "limits.validation_workers", "prompts tokenized at the same time", func(c *Config) any { return &c.Limits.ValidationWorkers }},
	{"max-input-tokens", "limits.max_input_tokens", "longest prompt, in tokens", func(c *Config) any { return &c.Limits.MaxInputTokens }},
	{"max-total-tokens", "limits.max_total_tokens", "longest prompt and output together, in tokens", func(c *Config) any { return &c.Limits.MaxTotalTokens }},
	{"max-batch-prefill-tokens", "limits.max_batch_prefill_tokens", "prompt tokens of one step", func(c *Config) any { return &c.Limits.MaxBatchPrefillTokens }},
	{"max-batch-total-tokens", "limits.max_batch_total_tokens", "tokens of all running sequences", func(c *Config) any { return &c.Limits.MaxBatchTotalTokens }},
	{"max-batch-size", "limits.max_batch_size", "most running sequences", func(c *Config) any { return &c.Limits.MaxBatchSize }},
	{"waiting-served-ratio", "limits.waiting_served_ratio", "waiting to running sequences that lets prompts in", func(c *Config) any { return &c.Limits.WaitingServedRatio }},
	{"max-waiting-tokens", "limits.max_waiting_tokens", "steps after which prompts are let in regardless", func(c *Config) any { return &c.Limits.MaxWaitingTokens }},
	{"watermark-gamma", "limits.watermark_gamma", "green share of the vocabulary", func(c *Config) any { return &c.Limits.WatermarkGamma }},
	{"watermark-delta", "limits.watermark_delta", "bonus of green tokens", func(c *Config) any { return &c.Limits.WatermarkDelta }},
	{"plugins-folder", "plugins.folder", "folder whose *.wasm files are plugins", func(c *Config) any { return &c.Plugins.Folder }},
}

// configFlag names the file.
const configFlag = "config"

// env returns the environment variable of a flag: PORT for port. The file's is
// TGI_CONFIG, since CONFIG alone belongs to nobody.
func env(flag string) string {
	if flag == configFlag {
		return "TGI_CONFIG"
	}
	return strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Load returns the settings that args (flags, without the program's name and
// its command) and the environment ask for, validated, and the arguments that
// are no flags. lookup is os.LookupEnv or a stand-in; variables that are set
// but empty count as not set. ErrHelp asks the caller for Usage.
func Load(args []string, lookup func(string) (string, bool)) (Config, []string, error) {
	given, rest, err := parseFlags(args)
	if err != nil {
		return Config{}, nil, err
	}
	c := Default()
	if err := readFile(given, lookup, &c); err != nil {
		return Config{}, nil, err
	}
	for _, s := range settings {
		name := "--" + s.flag
		value, ok := given[s.flag]
		if !ok {
			name = env(s.flag)
			value, ok = lookup(name)
			ok = ok && value != "" && !foreign(s.flag, value)
		}
		if !ok {
			continue
		}
		if err := assign(s.at(&c), value); err != nil {
			return Config{}, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c, rest, c.Validate()
}

// foreign reports whether an environment variable was set by somebody else:
// container engines and shells set HOSTNAME to the machine's name, which is no
// address to listen on. TGI passes over it too.
func foreign(flag, value string) bool {
	return flag == "hostname" && net.ParseIP(value) == nil
}

// readFile reads the file that a flag or the environment names, or else the
// default one if it is there.
func readFile(given map[string]string, lookup func(string) (string, bool), c *Config) error {
	if path, ok := given[configFlag]; ok {
		return ReadFile(path, c)
	}
	if path, ok := lookup(env(configFlag)); ok && path != "" {
		return ReadFile(path, c)
	}
	err := ReadFile(defaultFile, c)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// parseFlags reads --name value and --name=value. After -- nothing is a flag.
func parseFlags(args []string) (given map[string]string, rest []string, err error) {
	names := []string{configFlag}
	for _, s := range settings {
		names = append(names, s.flag)
	}
	given = map[string]string{}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return given, append(rest, args[i+1:]...), nil
		case a == "-h" || a == "--help":
			return nil, nil, ErrHelp
		case len(a) < 2 || a[0] != '-':
			rest = append(rest, a)
			continue
		}
		name, value, inline := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if !slices.Contains(names, name) {
			near := Suggest(name, names)
			return nil, nil, fmt.Errorf("unknown flag --%s%s", name, strings.Replace(near, "mean ", "mean --", 1))
		}
		if !inline {
			if i++; i == len(args) {
				return nil, nil, fmt.Errorf("--%s wants a value", name)
			}
			value = args[i]
		}
		given[name] = value
	}
	return given, rest, nil
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

// Usage writes the table of flags.
func Usage(w io.Writer) {
	fmt.Fprintf(w, "  --%-29s %-30s %s\n", configFlag+" FILE", env(configFlag), "settings to read; "+defaultFile+" here if not given")
	for _, s := range settings {
		fmt.Fprintf(w, "  --%-29s %-30s %s (%s)\n", s.flag, env(s.flag), s.help, s.key)
	}
}
