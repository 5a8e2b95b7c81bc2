package config

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Plugins says where plugins come from, what they may take together, and when one
// counts as broken.
type Plugins struct {
	// Folder holds files *.wasm that are plugins named after their files;
	// empty means no folder, and a missing folder counts as empty. It is relative
	// to the folder of the settings' file.
	Folder string `toml:"folder"`
	// Watch is how often the folder, the sources and the settings' file are checked for changes; 0 means never.
	Watch Duration `toml:"watch"`
	// UploadLimit bounds a module that is uploaded, in bytes.
	UploadLimit Size `toml:"upload_limit"`
	// Memory bounds what the instances of all plugins of all models take together,
	// as they touch it, with what they share and what is remembered of grammars; 0
	// derives it from what the machine has.
	Memory Size `toml:"memory"`
	// MemoryWait is how long a request waits for memory for its plugins.
	MemoryWait Duration `toml:"memory_wait"`
	// GrammarMemory bounds what is remembered of the grammars of one model and of
	// their masks, within Memory; 0 derives it from that.
	GrammarMemory Size `toml:"grammar_memory"`
	// GrammarTime bounds the time of a processor that the masks of one request's grammar take.
	GrammarTime Duration `toml:"grammar_time"`
	// BreakerFaults switch a plugin off for BreakerPause; 0 never does.
	BreakerFaults int      `toml:"breaker_faults"`
	BreakerPause  Duration `toml:"breaker_pause"`
	// ProgramTime is how long a program may take for a text, waits included.
	ProgramTime Duration `toml:"program_time"`
	// Uploads is the folder in which modules that are uploaded are kept, with
	// their settings, so that a restart brings them back; empty keeps none. It
	// is relative to the folder of the settings' file.
	Uploads string `toml:"uploads"`
	// Installed is the folder that `tgi plugin install` puts modules in. It is relative to the folder of the settings'
	// file.
	Installed string `toml:"installed"`
	// RequireSigned has every module that is not built in be signed by one of PluginSigner, wherever it comes from: a
	// [[plugin]], the folder, an upload.
	RequireSigned bool `toml:"require_signed"`
	// CompileTime of a processor, CompileTimeout on the clock and CompileMemory
	// bound what compiling one module may take. Modules that are part of the
	// program may take ten times as long.
	CompileTime    Duration `toml:"compile_time"`
	CompileTimeout Duration `toml:"compile_timeout"`
	CompileMemory  Size     `toml:"compile_memory"`
	// CacheSize bounds the compiled modules on disk, which the next start reuses.
	// The least recently used ones are removed first.
	CacheSize Size `toml:"cache_size"`
}

// IndexDir is the folder of plugins that were pulled from registries: tgi/plugins in the user's data folder, beside the
// models. It makes nothing.
func (p *Plugins) IndexDir() (string, error) {
	data, err := dataDir()
	if err != nil {
		return "", fmt.Errorf("there is no home folder for the index of plugins: %w", err)
	}
	return filepath.Join(data, "plugins"), nil
}

// Plugin is one [[plugin]]: a module, what it is called and what it may use.
type Plugin struct {
	// Name is what requests call it; see CheckName.
	Name string `toml:"name"`
	// Kind is the kind that is used of the module; empty is all of them.
	Kind string `toml:"kind"`
	// Source is a file, relative to the folder of the settings' file, or
	// builtin:NAME.
	Source string `toml:"source"`
	// SHA256 pins the module, 64 hexadecimal digits; empty does not.
	SHA256 string `toml:"sha256"`
	// Reference is the artefact that `tgi plugin install` took the module from, with the digest of its manifest. A
	// signer of PluginSigner, if any, must have signed it.
	Reference string `toml:"reference"`
	// OnError is fail (the request fails with its plugin), skip (it goes on
	// without) or, for a guard, stop (the text ends with what went out).
	OnError string `toml:"on_error"`
	// Apply is request (to requests that name it) or always.
	Apply string `toml:"apply"`
	// Keys are the names of the keys to whose requests Apply = always applies; without it, to all.
	Keys []string `toml:"keys"`
	// OnFull says what happens to a text of which a guard holds back as much as it may: stop (it ends with what went
	// out) or release. OnExhausted says so for one that a guard took back as often as it may.
	OnFull      string `toml:"on_full"`
	OnExhausted string `toml:"on_exhausted"`
	// Limits bound what the guest may use.
	Limits PluginLimits `toml:"limits"`
	// Config is handed to the plugin when it is loaded.
	Config Table `toml:"config"`
}

// PluginLimits bound a guest. A zero stands for the default of the code that runs
// guests.
type PluginLimits struct {
	// Memory of one instance.
	Memory Size `toml:"memory"`
	// FuelPerStep bounds a step on average, FuelPerRequest the check of the
	// parameters and the begin of a sequence, each, and FuelLoad the loading. A unit is about 0.2 ns.
	FuelPerStep    int64 `toml:"fuel_per_step"`
	FuelPerRequest int64 `toml:"fuel_per_request"`
	FuelLoad       int64 `toml:"fuel_load"`
	// TimePerStep, TimePerRequest and TimeLoad bound the time of a call of the guest, for instructions that take
	// unusually long for their fuel; loading counts as one call.
	TimePerStep    Duration `toml:"time_per_step"`
	TimePerRequest Duration `toml:"time_per_request"`
	TimeLoad       Duration `toml:"time_load"`
	// Share is how many cores the guest may use in the long run while others
	// wait for tokens.
	Share float64 `toml:"share"`
}

// Values of a plugin's settings that are one of a few words.
const (
	OnErrorFail = "fail"
	OnErrorSkip = "skip"
	OnErrorStop = "stop"

	GuardStop    = "stop"
	GuardRelease = "release"

	ApplyRequest = "request"
	ApplyAlways  = "always"

	KindLogits   = "logits"
	KindSampler  = "sampler"
	KindTemplate = "template"
	KindTools    = "tools"
	KindGrammar  = "grammar"
	KindGuard    = "guard"
	KindProgram  = "program"
	KindDraft    = "draft"
)

// Names of the plugins that [model] template and tools stand for where they
// name none; no other plugin has them.
const (
	TemplatePlugin = "chat-template"
	ToolsPlugin    = "tool-calls"
)

// Builtin marks the source of a plugin that is part of the program.
const Builtin = "builtin:"

// Bounds of a plugin's settings.
const (
	maxName = 64
	// A page of WebAssembly's memory, and all that 32 bits address.
	minMemory, maxMemory = 64 << 10, 4 << 30
	// minCompile is what the compiler needs for a small module.
	minCompile = 256 << 20
	// minCache is what the plugins that are part of the program need.
	minCache = 64 << 20
	// MaxFuel is the most of limits.fuel_*: about 200 s of computing.
	MaxFuel = 1_000_000_000_000
	maxTime = Duration(time.Hour)
	minTime = Duration(time.Millisecond) // with less no guest gets anything done
	// With less than minShare pauses would last seconds; no machine has maxShare cores.
	minShare, maxShare = 0.01, 1024
	// maxUpload is far above any module and far below what hurts.
	maxUpload = 1 << 30
	// What the plugins that are built in need, and what a grammar does.
	minPluginsMemory, minGrammarMemory = 32 << 20, 1 << 20
	// minWatch is the shortest interval at which checking files costs a negligible amount.
	minWatch = Duration(10 * time.Millisecond)
	// maxMemoryWait is far above what clients wait for.
	maxMemoryWait = 3600 * second
)

// CheckName refuses names that a plugin cannot have: they stand in paths of
// URLs and files and in labels of metrics.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName && 'a' <= name[0] && name[0] <= 'z' && !strings.HasSuffix(name, "-") &&
		!strings.Contains(name, "--")
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-'
	}
	if !ok {
		return fmt.Errorf("must be 1 to %d lower-case letters, digits and single hyphens between them, a letter first, given %q", maxName, trim(name))
	}
	return nil
}

// trim shortens a value for an error.
func trim(s string) string {
	if len(s) > 2*maxName {
		return s[:2*maxName] + "…"
	}
	return s
}

// settle sets the omitted settings of p to their defaults, and normalizes the pin.
func (p *Plugin) settle() {
	p.SHA256 = strings.ToLower(p.SHA256)
	if p.OnError == "" {
		p.OnError = OnErrorFail
	}
	if p.Apply == "" {
		p.Apply = ApplyRequest
	}
	if p.OnFull == "" {
		p.OnFull = GuardStop
	}
	if p.OnExhausted == "" {
		p.OnExhausted = GuardStop
	}
}

// locate makes the paths of files in c relative to the working folder; dir is that of
// the settings' file.
func (c *Config) locate(dir string) {
	at := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) && !strings.Contains(*path, "://") { // a URL is refused as it is
			*path = filepath.Join(dir, *path)
		}
	}
	at(&c.Plugins.Folder)
	at(&c.Plugins.Uploads)
	at(&c.Plugins.Installed)
	for i := range c.PluginSigner {
		if s := &c.PluginSigner[i]; s.IsFile() {
			at(&s.PublicKey)
		}
	}
	at(&c.Server.TLSCert)
	at(&c.Server.TLSKey)
	at(&c.Models.Folder)
	at(&c.Record.Folder)
	at(&c.Batches.Folder)
	for i := range c.MCP {
		at(&c.MCP[i].Folder)
	}
	at(&c.Runtime.ORTLib)
	at(&c.Runtime.KVDisk)
	c.Model.locate(at)
	for i := range c.ModelList {
		c.ModelList[i].locate(at)
	}
	for i := range c.Plugin {
		if p := &c.Plugin[i]; !strings.HasPrefix(p.Source, Builtin) {
			at(&p.Source)
		}
	}
}

// IsTemplateFile reports whether the setting model.template is a file.
func IsTemplateFile(setting string) bool { return strings.HasSuffix(setting, ".jinja") }

// IsFormatFile reports whether the setting model.tools is a file.
func IsFormatFile(setting string) bool { return strings.HasSuffix(setting, ".json") }

// Check returns what is out of bounds among the settings that an upload has
// too: the name, OnError, Apply, the limits and Config. Errors name the keys
// behind prefix, such as "plugin[0].".
func (p *Plugin) Check(prefix string) []error {
	v := &verdict{}
	if err := CheckName(p.Name); err != nil {
		v.check(false, "%sname %w", prefix, err)
	}
	v.oneOf(prefix+"on_error", p.OnError, OnErrorFail, OnErrorSkip, OnErrorStop)
	v.oneOf(prefix+"apply", p.Apply, ApplyRequest, ApplyAlways)
	v.oneOf(prefix+"on_full", p.OnFull, GuardStop, GuardRelease)
	v.oneOf(prefix+"on_exhausted", p.OnExhausted, GuardStop, GuardRelease)
	l := &p.Limits
	v.check(l.Memory == 0 || l.Memory >= minMemory && l.Memory <= maxMemory,
		"%slimits.memory must be >= %s and <= %s, given %s", prefix, Size(minMemory), Size(maxMemory), l.Memory)
	for _, f := range []struct {
		key  string
		fuel int64
	}{{"fuel_per_step", l.FuelPerStep}, {"fuel_per_request", l.FuelPerRequest}, {"fuel_load", l.FuelLoad}} {
		v.check(f.fuel >= 0 && f.fuel <= MaxFuel, "%slimits.%s must be >= 0 and <= %d, given %d", prefix, f.key,
			int64(MaxFuel), f.fuel)
	}
	for _, f := range []struct {
		key  string
		time Duration
	}{{"time_per_step", l.TimePerStep}, {"time_per_request", l.TimePerRequest}, {"time_load", l.TimeLoad}} {
		v.check(f.time == 0 || f.time >= minTime && f.time <= maxTime, "%slimits.%s must be 0s or >= %s and <= %s, given %s",
			prefix, f.key, minTime, maxTime, f.time)
	}
	v.check(l.Share == 0 || l.Share >= minShare && l.Share <= maxShare,
		"%slimits.share must be >= %v and <= %v, given %v", prefix, minShare, maxShare, l.Share)
	if _, err := p.Config.JSON(); err != nil {
		v.check(false, "%sconfig%w", prefix, err)
	}
	return v.errs
}

// validatePlugins adds what is out of bounds in [plugins] and [[plugin]].
func (c *Config) validatePlugins(v *verdict) {
	p := &c.Plugins
	v.check(p.Watch == 0 || p.Watch >= minWatch, "plugins.watch must be 0s or >= %s, given %s", minWatch, p.Watch)
	v.check(p.UploadLimit >= 1 && p.UploadLimit <= maxUpload, "plugins.upload_limit must be >= 1B and <= %s, given %s",
		Size(maxUpload), p.UploadLimit.number())
	v.check(p.Memory == 0 || p.Memory >= minPluginsMemory, "plugins.memory must be auto or >= %s, given %s",
		Size(minPluginsMemory), p.Memory)
	v.check(p.MemoryWait >= 0 && p.MemoryWait <= maxMemoryWait, "plugins.memory_wait must be >= 0s and <= %s, given %s",
		maxMemoryWait, p.MemoryWait)
	v.check(p.GrammarMemory == 0 || p.GrammarMemory >= minGrammarMemory,
		"plugins.grammar_memory must be auto or >= %s, given %s", Size(minGrammarMemory), p.GrammarMemory)
	v.check(p.Memory == 0 || p.GrammarMemory <= p.Memory,
		"plugins.grammar_memory must be <= plugins.memory, given %s and %s", p.GrammarMemory, p.Memory)
	v.positive("plugins.grammar_time", p.GrammarTime)
	v.atLeast("plugins.breaker_faults", p.BreakerFaults, 0)
	v.positive("plugins.breaker_pause", p.BreakerPause)
	v.positive("plugins.program_time", p.ProgramTime)
	v.check(p.CompileTime >= second && p.CompileTime%second == 0,
		"plugins.compile_time must be whole seconds, at least 1s, given %s", p.CompileTime)
	v.check(p.CompileTimeout >= second, "plugins.compile_timeout must be >= 1s, given %s", p.CompileTimeout)
	v.check(p.CompileMemory >= minCompile, "plugins.compile_memory must be >= %s, given %s", Size(minCompile),
		p.CompileMemory.number())
	v.check(p.CacheSize >= minCache, "plugins.cache_size must be >= %s, given %s", Size(minCache), p.CacheSize.number())
	c.validateSigners(v)
	v.check(!p.RequireSigned || len(c.PluginSigner) > 0,
		"plugins.require_signed wants a [[plugin_signer]], whose signatures count: given none")
	first := map[string]int{}
	for i := range c.Plugin {
		p, at := &c.Plugin[i], fmt.Sprintf("plugin[%d].", i)
		v.errs = append(v.errs, p.Check(at)...)
		if j, ok := first[p.Name]; ok {
			v.check(false, "%sname must differ from plugin[%d].name, given %q twice", at, j, trim(p.Name))
		} else {
			first[p.Name] = i
		}
		v.check(!slices.Contains([]string{TemplatePlugin, ToolsPlugin, Auto, None}, p.Name),
			"%sname must not be %s: that is what [model] stands for", at, p.Name)
		kinds := []string{KindLogits, KindSampler, KindTemplate, KindTools, KindGrammar, KindGuard, KindProgram,
			KindDraft}
		v.check(p.Kind == "" || slices.Contains(kinds, p.Kind), "%skind must be one of %s, given %q", at,
			strings.Join(kinds, ", "), trim(p.Kind))
		v.check(len(p.Keys) == 0 || p.Apply == ApplyAlways, "%skeys goes with apply = %q, given %q", at, ApplyAlways,
			trim(p.Apply))
		for j, name := range p.Keys {
			v.check(slices.ContainsFunc(c.AllKeys(), func(k Key) bool { return k.Name == name }),
				"%skeys[%d] must be the name of a key, given %q", at, j, trim(name))
		}
		v.check(p.Source != "" && p.Source != Builtin, "%ssource must name a file or %sNAME, given %q", at, Builtin,
			p.Source)
		v.check(!strings.Contains(p.Source, "://"), "%ssource must name a file or %sNAME, given %q: tgi plugin "+
			"install fetches from registries, and what else has a URL must be saved as a file", at, Builtin,
			trim(Shown(p.Source)))
		sum, err := hex.DecodeString(p.SHA256)
		v.check(p.SHA256 == "" || err == nil && len(sum) == 32, "%ssha256 must be 64 hexadecimal digits, given %q", at,
			trim(p.SHA256))
		v.check(p.Reference == "" || p.SHA256 != "", "%sreference goes with sha256, which locks the module, given %q", at,
			trim(Shown(p.Reference)))
	}
}

// Table is a TOML table of any shape.
type Table map[string]any

// ConfigText returns Config as JSON. After Config.Validate it cannot fail; the error names plugin and key.
func (p *Plugin) ConfigText() ([]byte, error) {
	text, err := p.Config.JSON()
	if err != nil {
		return nil, fmt.Errorf("plugin %s: config%w", p.Name, err) // which begins with the key, as in .penalty
	}
	return text, nil
}

// JSON returns the table as a JSON object with its keys in order; dates and times become strings. JSON cannot hold NaN
// and infinities: they are an error that begins with the key, as in ".penalty must be a finite number". After
// Config.Validate it cannot fail.
func (t Table) JSON() ([]byte, error) {
	if t == nil {
		return []byte("{}"), nil
	}
	if err := finite("", map[string]any(t)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]any(t)); err != nil {
		return nil, fmt.Errorf(" has no form in JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// finite refuses floats that JSON cannot hold; at is the key of value.
func finite(at string, value any) error {
	switch value := value.(type) {
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("%s must be a finite number, given %v", at, value)
		}
	case []any:
		for i, one := range value {
			if err := finite(fmt.Sprintf("%s[%d]", at, i), one); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if err := finite(at+"."+key, value[key]); err != nil {
				return err
			}
		}
	}
	return nil
}
