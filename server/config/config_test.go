package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"time"
)

// rootFile is the documented default, at the root of the tree.
const rootFile = "../../tgi.toml"

func TestRootFileIsTheDefault(t *testing.T) {
	text, err := os.ReadFile(rootFile)
	if err != nil {
		t.Fatal(err)
	}
	var fromNothing Config
	if err := Decode(rootFile, text, &fromNothing); err != nil {
		t.Fatal(err)
	}
	if want := Default(); !reflect.DeepEqual(fromNothing, want) {
		t.Errorf("tgi.toml gives\n%+v\nDefault is\n%+v", fromNothing, want)
	}
	section, there := "", map[string]bool{}
	for _, line := range strings.Split(string(text)+example(string(text)), "\n") {
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "["), "]")
			section = name
			there[section] = true
		} else if key, _, ok := strings.Cut(line, " = "); ok && line[0] != '#' {
			there[section+"."+key] = true
		}
	}
	for _, k := range Keys() {
		if !there[k] {
			t.Errorf("tgi.toml does not show %s", k)
		}
	}
	if d := Default(); d.Validate() != nil {
		t.Error("the default is not valid:", d.Validate())
	}
}

// example uncomments the examples of models, a key and a plugin at the end of
// tgi.toml, and leaves [model] out, which no file has beside [[model]].
func example(text string) string {
	head, rest, _ := strings.Cut(text, "[model]\n")
	_, rest, _ = strings.Cut(rest, "\n[models]\n") // behind its tables
	rest = "\n[models]\n" + rest
	for _, first := range []string{"# [[model]]\n", "# [[model.adapter]]\n", "# [[key]]\n", "# [[mcp]]\n",
		"# [[plugin]]\n", "# [[plugin_signer]]\n"} {
		before, block, _ := strings.Cut(rest, first)
		block, after, _ := strings.Cut(block, "\n\n")
		lines := strings.ReplaceAll("\n"+first+block, "\n# ", "\n")
		rest = before + strings.ReplaceAll(lines, "\n#\n", "\n\n") + "\n\n" + after
	}
	return head + rest
}

func TestRootFileExample(t *testing.T) {
	text, err := os.ReadFile(rootFile)
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	if err := Decode(rootFile, []byte(example(string(text))), &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	want := []Plugin{{
		Name: "no-repeat", Kind: "logits", Source: "plugins/no-repeat.wasm", OnError: "fail",
		Apply: "always", Keys: []string{"dashboard"}, OnFull: "stop", OnExhausted: "stop",
		Limits: PluginLimits{Memory: 64 << 20, FuelPerStep: 2_000_000, FuelPerRequest: 50_000_000,
			FuelLoad:    10_000_000_000,
			TimePerStep: second, TimePerRequest: 10 * second, TimeLoad: 60 * second, Share: 0.25},
		Config: Table{"n": int64(3)},
	}}
	if !reflect.DeepEqual(c.Plugin, want) {
		t.Errorf("got\n%+v\nwant\n%+v", c.Plugin, want)
	}
	demo, qwen := defaultModel(), defaultModel()
	demo.Name = "tgi-demo"
	qwen.Name, qwen.Source, qwen.Weights, qwen.Plugins = "qwen/qwen3-0.6b", "Qwen/Qwen3-0.6B", WeightsInt8,
		[]string{"no-repeat"}
	qwen.Preload, qwen.KeepAlive = false, 600*second
	qwen.Adapters = []Adapter{{"pirate", "adapters/pirate", "org/pirate"}}
	if want := []Model{demo, qwen}; !reflect.DeepEqual(c.ModelList, want) {
		t.Errorf("got\n%+v\nwant\n%+v", c.ModelList, want)
	}
	keys := []Key{{Name: "dashboard", Key: "secret", Scopes: []string{"models"}, Models: []string{"tgi-demo"},
		Plugins: []string{"redact", "house-*"}, MCP: []string{"files"}, RequestsPerMinute: 600,
		TokensPerMinute: 100_000, TokensPerDay: 5_000_000, ConcurrentRequests: 50, Share: 2}}
	if !reflect.DeepEqual(c.Key, keys) {
		t.Errorf("got %+v, want %+v", c.Key, keys)
	}
}

func TestGoodFile(t *testing.T) {
	c := Default()
	text, err := os.ReadFile("testdata/good.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.take("testdata/good.toml", text); err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Server.Port = 8080
	want.Server.APIKeys = []string{"one", "two"}
	want.Server.TLSCert, want.Server.TLSKey = "testdata/tls/cert.pem", "/etc/key.pem"
	want.Server.ReadTimeout = Duration(90 * time.Second)
	want.Limits.MaxTotalTokens = 2048
	want.Runtime.KVMemory = 3 << 29
	want.Runtime.PluginWait = Wait(2 * time.Millisecond)
	want.Log.Level = slog.LevelDebug
	want.File = "testdata/good.toml"
	want.Plugins.Folder, want.Plugins.Watch, want.Plugins.Uploads = "testdata/mine", 0, "testdata/plugins/uploads"
	want.Plugins.Installed = "testdata/plugins/installed"
	want.Plugin = []Plugin{{
		Name: "no-repeat-v2", Source: "testdata/guests/no-repeat.wasm", OnError: OnErrorFail, Apply: ApplyRequest,
		OnFull: GuardStop, OnExhausted: GuardStop,
		SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		Limits: PluginLimits{Memory: 32 << 20, FuelPerStep: 500_000, TimePerStep: Duration(250 * time.Millisecond),
			Share: 2}, Config: c.Plugin[0].Config,
	}, {Name: "dry", Kind: KindLogits, Source: "builtin:dry", OnError: OnErrorSkip, Apply: ApplyAlways,
		OnFull: GuardStop, OnExhausted: GuardStop}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%+v\nwant\n%+v", c, want)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for i, want := range []string{`{"n":3,"rule":[{"weight":0.5}],"since":"2024-05-06","words":["<a>","é"]}`, `{}`} {
		if got, err := c.Plugin[i].Config.JSON(); err != nil || string(got) != want {
			t.Errorf("config of plugin %d: got %s, %v, want %s", i, got, err, want)
		}
	}
}

// TestBadFiles reads testdata/bad: the comments at the head of each file are the
// error that it must give, line by line.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal("no bad files", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, line := range strings.Split(string(text), "\n") {
			if after, ok := strings.CutPrefix(line, "# "); ok {
				want = append(want, after)
			}
		}
		c := Default()
		if err = Decode("tgi.toml", text, &c); err == nil {
			err = c.Validate()
		}
		if got := strings.Join(want, "\n"); err == nil || err.Error() != got {
			t.Errorf("%s\n got %v\nwant %s", file, err, got)
		}
	}
}

// parsed returns the flags of a command line.
func parsed(t *testing.T, args ...string) *Flags {
	t.Helper()
	f := &Flags{}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddTo(set)
	if err := set.Parse(args); err != nil || set.NArg() > 0 {
		t.Fatal(err, set.Args())
	}
	return f
}

// load is Read for the settings alone.
func load(f *Flags, lookup func(string) (string, bool)) (Config, error) {
	l, err := Read(f, lookup)
	return l.Config, err
}

func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.toml")
	if err := os.WriteFile(file, []byte("[server]\nport = 1\nhostname = \"file\"\npayload_limit = 7\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"PORT": "2", "HOSTNAME": "10.1.2.3", "MODEL_ID": "", "MAX_INPUT_TOKENS": "9",
		"TGI_CONFIG": file}
	lookup := func(name string) (string, bool) { v, ok := environ[name]; return v, ok }
	c, err := load(parsed(t, "--port", "3", "--api-key=a,b", "--waiting-served-ratio", "1.5",
		"--graceful-termination-timeout", "5"), lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Server.Port, want.Server.Hostname, want.Server.PayloadLimit = 3, "10.1.2.3", 7
	want.Limits.MaxInputTokens, want.Limits.WaitingServedRatio = 9, 1.5
	want.Server.APIKeys = []string{"a", "b"}
	want.Server.GracefulTerminationTimeout = 5 * second
	want.File, want.Plugins.Folder = file, filepath.Join(filepath.Dir(file), "plugins")
	want.Plugins.Uploads = filepath.Join(want.Plugins.Folder, "uploads")
	want.Plugins.Installed = filepath.Join(want.Plugins.Folder, "installed")
	want.Given, want.text = c.Given, c.text // see TestPlaceGiven
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%+v\nwant\n%+v", c, want)
	}
}

func TestBadSources(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{[]string{"--port", "x"}, nil, `--port: "x" is no whole number`},
		{[]string{"--port=99999"}, nil, "server.port must be >= 0 and <= 65535, given 99999"},
		{[]string{"--max-batch-size=10000000"}, nil,
			"limits.max_batch_size must be >= 0 and <= 1048576, given 10000000"},
		{[]string{"--max-concurrent-requests=1000000000000"}, nil,
			"limits.max_concurrent_requests must be >= 1 and <= 1048576, given 1000000000000"},
		{[]string{"--payload-limit=2000000000000"}, nil,
			"server.payload_limit must be >= 1 and <= 1099511627776, given 2000000000000"},
		{[]string{"--validation-workers=2000000"}, nil, "limits.validation_workers must be <= 1048576, given 2000000"},
		{[]string{"--prefill-stretch=1"}, nil, "limits.prefill_stretch must be > 1, or 0 for no bound, given 1"},
		{[]string{"--prefill-stretch=NaN"}, nil, "limits.prefill_stretch must be > 1, or 0 for no bound, given NaN"},
		{[]string{"--prefill-stretch=Inf"}, nil, "limits.prefill_stretch must be > 1, or 0 for no bound, given +Inf"},
		{[]string{"--generate-num-beams=1000000"}, nil, "generate_api.num_beams must be >= 1 and <= 64, given 1000000"},
		{[]string{"--generate-num-beams=5", "--max-concurrent-requests=8"}, nil,
			"generate_api.num_beams must be at most half of limits.max_concurrent_requests, given 5 and 8"},
		{nil, map[string]string{"PORT": "x"}, `PORT: "x" is no whole number`},
		{nil, map[string]string{"WATERMARK_GAMMA": "half"}, `WATERMARK_GAMMA: "half" is no number`},
		{nil, map[string]string{"GRACEFUL_TERMINATION_TIMEOUT": "-1s"},
			`GRACEFUL_TERMINATION_TIMEOUT: "-1s" is less than 0s`},
		{[]string{"--config", "testdata/none.toml"}, nil,
			"read configuration: open testdata/none.toml: no such file or directory"},
	} {
		_, err := load(parsed(t, c.args...), func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if err == nil || err.Error() != c.want {
			t.Errorf("%q %v\n got %v\nwant %s", c.args, c.env, err, c.want)
		}
	}
}

// TestSettings holds the table of flags against Config: every key exists, and
// every place can be assigned.
func TestSettings(t *testing.T) {
	keys := map[string]bool{}
	for _, k := range Keys() {
		keys[k] = true
	}
	keys["model.adapter"] = true // a list of tables
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Flags).AddTo(set)
	defaults := Default()
	// Values for those that do not take 1, or whose default is what 1 means.
	samples := map[string]string{"log-level": "debug"}
	for _, s := range settings {
		sample, ok := samples[s.flag]
		if !ok {
			sample = "1"
		}
		if !keys[s.key] {
			t.Errorf("--%s sets %s, which is no key", s.flag, s.key)
		}
		var c Config
		if err := assign(s.at(&c), sample); err != nil {
			t.Errorf("--%s %s: %v", s.flag, sample, err)
		}
		if reflect.DeepEqual(c, Config{}) {
			t.Errorf("--%s %s changed nothing", s.flag, sample)
		}
		f := set.Lookup(s.flag)
		if f == nil || f.Hidden || f.Annotations[FlagKey][0] != s.key ||
			f.Annotations[FlagVariables][0] != env(s.flag) {
			t.Errorf("--%s is not among the flags, or not with its key and variable: %+v", s.flag, f)
		} else if f.DefValue != "" && f.DefValue != "0" { // the default that help shows is one
			c := Default()
			if err := assign(s.at(&c), f.DefValue); err != nil || !reflect.DeepEqual(c, defaults) {
				t.Errorf("--%s: help shows the default %s, which is another: %v", s.flag, f.DefValue, err)
			}
		}
	}
}

func TestSizing(t *testing.T) {
	d := Default().Limits
	with := func(change func(*Limits)) Limits { l := d; change(&l); return l }
	for _, c := range []struct {
		name             string
		given            Limits
		positions, cache int
		want             Limits
		err              string
	}{
		{"all derived", d, 2048, 10_000, with(func(l *Limits) {
			l.MaxTotalTokens, l.MaxInputTokens, l.MaxBatchTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchSize = 2048,
				2047, 10_000, 512, 128
		}), ""},
		{"small cache", d, 2048, 100, with(func(l *Limits) {
			l.MaxTotalTokens, l.MaxInputTokens, l.MaxBatchTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchSize = 100,
				99, 100, 100, 128
		}), ""},
		{"all given", with(func(l *Limits) {
			l.MaxTotalTokens, l.MaxInputTokens, l.MaxBatchTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchSize = 50, 20,
				90, 30, 3
		}), 2048, 100, with(func(l *Limits) {
			l.MaxTotalTokens, l.MaxInputTokens, l.MaxBatchTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchSize = 50, 20,
				90, 30, 3
		}), ""},
		{"past the positions", with(func(l *Limits) { l.MaxTotalTokens = 3000 }), 2048, 10_000, Limits{},
			"`max_total_tokens` must be <= the model's positions. Given: 3000 and 2048"},
		{"past the cache", with(func(l *Limits) { l.MaxTotalTokens = 300 }), 2048, 200, Limits{},
			"`max_total_tokens` must be <= `max_batch_total_tokens`. Given: 300 and 200"},
		{"batch past the cache", with(func(l *Limits) { l.MaxBatchTotalTokens = 300 }), 2048, 200, Limits{},
			"`max_batch_total_tokens` must be <= the tokens that the cache holds. Given: 300 and 200"},
		{"input past the derived total", with(func(l *Limits) { l.MaxInputTokens = 200 }), 2048, 200, Limits{},
			"`max_input_tokens` must be < `max_total_tokens`. Given: 200 and 200"},
		{"prefill past the derived batch", with(func(l *Limits) { l.MaxBatchPrefillTokens = 300 }), 2048, 200, Limits{},
			"`max_batch_prefill_tokens` must be <= `max_batch_total_tokens`. Given: 300 and 200"},
		{"total of one", with(func(l *Limits) { l.MaxTotalTokens = 1 }), 2048, 200, Limits{},
			"`max_total_tokens` must be >= 2. Given: 1"},
		{"no cache", d, 2048, 0, Limits{},
			"the model has 2048 positions and the cache holds 0 tokens: both must be >= 2"},
	} {
		got, err := c.given.Size(c.positions, c.cache)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s\n got %v\nwant %s", c.name, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s\n got %+v, %v\nwant %+v", c.name, got, err, c.want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"auto": 0, "0": 0, "123": 123, "7B": 7, "1KiB": 1024, "1.5 MiB": 3 << 19, "2GiB": 2 << 30, "2GB": 2e9,
		"1TiB": 1 << 40,
	} {
		var z Size
		if err := z.UnmarshalText([]byte(text)); err != nil || z != want {
			t.Errorf("%s: got %d, %v, want %d", text, z, err, want)
		}
		var again Size
		if err := again.UnmarshalText([]byte(z.String())); err != nil || again != z {
			t.Errorf("%s is written as %s and read as %d", text, z, again)
		}
	}
	for _, text := range []string{"", "-1", "GiB", "1XB", "nan", "1e30GiB", "2gib"} {
		var z Size
		if err := z.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted as %d", text, z)
		}
	}
}

// TestHostnameOfTheMachine: container engines set HOSTNAME to a name that is no
// address to listen on.
func TestHostnameOfTheMachine(t *testing.T) {
	lookup := func(name string) (string, bool) { return "pod-7f9c", name == "HOSTNAME" }
	if c, err := load(parsed(t, "--config", rootFile), lookup); err != nil ||
		c.Server.Hostname != Default().Server.Hostname {
		t.Errorf("from the environment: %q, %v", c.Server.Hostname, err)
	}
	if c, err := load(parsed(t, "--config", rootFile, "--hostname", "localhost"), lookup); err != nil ||
		c.Server.Hostname != "localhost" {
		t.Errorf("from a flag: %q, %v", c.Server.Hostname, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("[server]\nport = 1\n")
	f.Add("[limits]\nmax_best_of = 2\n[[plugin]]\n")
	f.Add("[[plugin]]\nname = \"a\"\nsource = \"b\"\nlimits.memory = \"1MiB\"\n[plugin.config]\na = [1, {b = nan}]\nc = 0001-01-01\n")
	f.Add("[[plugin]]\nname = \"a\"\nsource = \"\\u0001\\t\"\nlimits = {memory = \"1MiB\"}\nconfig = {\"a b\" = {c = \"\\u007f\"}}\n[[key]]\nname = \"k\"\nkey = \"x\"\nscopes = [\"models\"]\n")
	f.Add("[server]\ncompute_type = \"\\u0007\\u007f\\u2028<\"\n")
	f.Add("[[model]]\nname = \"a/b\"\nsource = \"http://h/?x\"\nquantization = \"int8\"\n[[model]]\nname = \"c\"\nkeep_alive = 5\nplugins = []\n[models]\nhub_token = \"t\"\n")
	f.Add("model = [{name = \"a\", preload = false}, {NAME = \"b\"}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		l := Loaded{Config: Default(), origins: map[string]string{}}
		c := &l.Config
		if Decode("tgi.toml", []byte(text), c) != nil || c.Validate() != nil {
			return
		}
		for _, p := range c.Plugin {
			if b, err := p.Config.JSON(); err != nil || !json.Valid(b) {
				t.Errorf("the configuration of %s became %q, %v", p.Name, b, err)
			}
		}
		for key := range lines([]byte(text)) {
			l.origins[key] = "x"
		}
		var out strings.Builder
		if err := l.WriteEffective(&out); err != nil {
			t.Fatal(err)
		}
		var again Config
		if err := Decode("printed", []byte(out.String()), &again); err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
		hide := func(keys []string) {
			for i := range keys {
				keys[i] = masked
			}
		}
		hide(c.Server.APIKeys)
		hide(c.Server.AdminKeys)
		for i := range c.Key {
			c.Key[i].Key = masked
		}
		for i := range c.ModelList {
			c.ModelList[i].Source = Shown(c.ModelList[i].Source)
		}
		for i := range c.Plugin {
			c.Plugin[i].Source = Shown(c.Plugin[i].Source)
			c.Plugin[i].Reference = Shown(c.Plugin[i].Reference)
		}
		for i := range c.MCP {
			c.MCP[i].Endpoint = ShownHost(c.MCP[i].Endpoint)
			hide(c.MCP[i].Command[min(1, len(c.MCP[i].Command)):])
		}
		for i := range c.PluginSigner {
			if s := &c.PluginSigner[i]; !s.IsFile() {
				s.PublicKey = masked
			}
		}
		c.Trace.OTLPEndpoint = ShownHost(c.Trace.OTLPEndpoint)
		c.Model.Source = Shown(c.Model.Source)
		if c.Models.HubToken != "" {
			c.Models.HubToken = masked
		}
		if c.GenerateAPI.Store.RedisURL != "" {
			c.GenerateAPI.Store.RedisURL = masked
		}
		if len(c.ModelList) > 0 {
			c.Model = Model{}
		}
		if got, want := fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", *c); got != want {
			t.Errorf("printed\n%s\nwant\n%s", got, want)
		}
	})
}
