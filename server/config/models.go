package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Model is a model to serve: that of [model], or one of the [[model]].
type Model struct {
	// Name is the model's id, see CheckModelID. [[model]] needs one; if
	// [model] has none, Config.All sets one.
	Name string `toml:"name"`
	// Path is the model's folder, relative to the folder of the settings' file. Empty is what
	// Source names, or else the model of the models folder that has the name, or
	// else, for DemoModel and a [model] without a name, the embedded demo model.
	Path string `toml:"path"`
	// Source is where the model is fetched from when the models folder does not
	// have it; see ParseSource.
	Source string `toml:"source"`
	// Weights is auto, fp32, bf16, fp16, int8 or int4; which of them can be used depends on the device. For a folder of
	// ready ONNX graphs it chooses one of these.
	// Files may call it quantization.
	Weights string `toml:"weights"`
	// Context bounds prompt and output together, in tokens; 0 is
	// Limits.MaxTotalTokens.
	Context int `toml:"context"`
	// KVMemory is the size of the key/value cache; 0 is Runtime.KVMemory.
	KVMemory Size `toml:"kv_memory"`
	// Template turns conversations into prompts: Auto (what the model brings),
	// None, a file *.jinja relative to the folder of the settings' file, or the
	// name of a plugin of the kind template.
	Template string `toml:"template"`
	// Tools finds tool calls and reasoning in what the model writes: Auto (in the
	// format that the template shows), None, the name of a format, a file *.json
	// that describes one, or the name of a plugin of the kind tools.
	Tools string `toml:"tools"`
	// Plugins are the names of those that the model has; nil is all.
	Plugins []string `toml:"plugins"`
	// Speculation says what is guessed ahead of the model.
	Speculation Speculation `toml:"speculation"`
	// Preload loads the model when the server starts.
	Preload bool `toml:"preload"`
	// KeepAlive unloads the model after so long without a request; 0 never does.
	KeepAlive Duration `toml:"keep_alive"`
	// TokenHealing heals the last token of the prompts of requests that say nothing about it.
	TokenHealing bool `toml:"token_healing"`
	// AdapterMemory bounds the memory of its adapters; 0 is what the declared ones take. See Adapts.
	AdapterMemory Size `toml:"adapter_memory"`
	// Adapters are the model's low-rank adapters.
	Adapters []Adapter `toml:"adapter"`
}

// Adapts reports whether the model is loaded such that it can have adapters, which costs a model that has none some of
// its speed.
func (m Model) Adapts() bool { return len(m.Adapters) > 0 || m.AdapterMemory > 0 }

// DemoModel is the name of the embedded demo model.
const DemoModel = "tgi-demo"

// Demo reports whether m, as Config.All returns it, is the embedded model.
func (m *Model) Demo() bool { return m.Name == DemoModel && m.Path == "" && m.Source == "" }

// ShownSource returns Source without what may be secret in it: a URL's query.
func (m *Model) ShownSource() string { return Shown(m.Source) }

func defaultModel() Model {
	return Model{Weights: Auto, Template: Auto, Tools: Auto, Preload: true, Speculation: defaultSpeculation()}
}

// locate hands the paths of m that are relative to the settings' file to at.
func (m *Model) locate(at func(*string)) {
	at(&m.Path)
	if IsTemplateFile(m.Template) {
		at(&m.Template)
	}
	if IsFormatFile(m.Tools) {
		at(&m.Tools)
	}
	for i := range m.Adapters {
		at(&m.Adapters[i].Path)
	}
}

// findAdapters gives adapters without a folder that of their name in the models folder.
func (c *Config) findAdapters() {
	dir, err := c.Models.Dir()
	if err != nil {
		return // which opening the models folder says
	}
	all := [][]Adapter{c.Model.Adapters}
	for i := range c.ModelList {
		all = append(all, c.ModelList[i].Adapters)
	}
	for _, list := range all {
		for i := range list {
			inFolder := filepath.Join(dir, filepath.FromSlash(list[i].Name))
			if list[i].Path == "" || missing(list[i].Path) && (!missing(inFolder) || list[i].Source != "") {
				list[i].Path = inFolder
			}
		}
	}
}

// Models says where models lie and come from, and how several share the memory.
type Models struct {
	// Folder holds the models, each in a folder named after its id. It is
	// relative to the folder of the settings' file; Dir resolves empty.
	Folder string `toml:"folder"`
	// Default is the id that requests without a model mean; empty is the first
	// that is declared. See Config.DefaultModel.
	Default string `toml:"default"`
	// Unknown is what a request gets whose model does not exist: UnknownRefuse,
	// UnknownDefault, or Auto. See Config.RefuseUnknown.
	Unknown string `toml:"unknown"`
	// Memory bounds all loaded models together; 0 is what was available at the
	// start.
	Memory Size `toml:"memory"`
	// Policy is what happens when a model does not fit beside those that are
	// loaded: PolicyRefuse or PolicyEvict.
	Policy string `toml:"policy"`
	// Autoload lets a request load a model that is not loaded, unless it was
	// stopped on request.
	Autoload bool `toml:"autoload"`
	// LoadWait is how long a request waits for that.
	LoadWait Duration `toml:"load_wait"`
	// Drain is the time that running requests have to finish when their model is stopped.
	Drain Duration `toml:"drain"`
	// Hub is the URL of the hub that sources without a URL are fetched from.
	Hub string `toml:"hub"`
	// HubToken is sent to the hub, and to no other host. It is a secret.
	HubToken string `toml:"hub_token"`
	// AllowHosts are hosts, or host:port, that models may be fetched from besides
	// the hub and where that redirects to; "*" is every host.
	AllowHosts []string `toml:"allow_hosts"`
	// Pulls bounds the models that are fetched at the same time.
	Pulls int `toml:"pulls"`
	// MaxSize bounds the files of one model that is fetched.
	MaxSize Size `toml:"max_size"`
}

// Values of settings of Models that are one of a few words.
const (
	UnknownRefuse  = "refuse"
	UnknownDefault = "default"

	PolicyRefuse = "refuse"
	PolicyEvict  = "evict"
)

// EveryHost among Models.AllowHosts allows all of them.
const EveryHost = "*"

func defaultModels() Models {
	return Models{
		Unknown: Auto, Policy: PolicyRefuse, Autoload: true, LoadWait: 30 * second, Drain: 30 * second,
		Hub: "https://huggingface.co", AllowHosts: []string{}, Pulls: 2, MaxSize: 1 << 40,
	}
}

// Dir returns the models folder: Folder, or else tgi/models in the user's data
// folder, which is $XDG_DATA_HOME or ~/.local/share. It makes nothing.
func (m *Models) Dir() (string, error) {
	if m.Folder != "" {
		return m.Folder, nil
	}
	data, err := dataDir()
	if err != nil {
		return "", fmt.Errorf("models.folder is not set and there is no home folder to put it in: %w", err)
	}
	return filepath.Join(data, "models"), nil
}

// dataDir is the program's part of the user's data folder.
func dataDir() (string, error) {
	// The specification of XDG's folders wants relative ones ignored.
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "tgi"), nil
}

// All returns the models that are declared, at least one: those of [[model]], or
// else that of [model]. Each has a name.
func (c *Config) All() []Model {
	if len(c.ModelList) > 0 {
		return slices.Clone(c.ModelList)
	}
	m := c.Model
	switch {
	case m.Name != "":
	case m.Path != "":
		m.Name = idOf(m.Path)
	case m.Source != "":
		m.Name = DefaultID(m.Source)
	default:
		m.Name = DemoModel
	}
	return []Model{m}
}

// DefaultModel returns the id that requests without a model mean.
func (c *Config) DefaultModel() string {
	if c.Models.Default != "" {
		return c.Models.Default
	}
	return c.All()[0].Name
}

// RefuseUnknown reports whether a request for a model that does not exist is refused;
// otherwise it gets the default model. Auto refuses once there are [[model]] or
// adapters, whose names could be mistyped: a server of one model serves it under
// any name, as TGI does.
func (c *Config) RefuseUnknown() bool {
	return c.Models.Unknown == UnknownRefuse ||
		c.Models.Unknown == Auto && (len(c.ModelList) > 0 || c.Model.Adapts())
}

// Source is where a model is fetched from: URL alone, or a repository of the hub.
type Source struct {
	// URL is that of an archive, or of a file in the GGUF format.
	URL string
	// Repo is name or namespace/name.
	Repo string
	// Revision is a branch, tag or commit of Repo; empty is the hub's default.
	Revision string
	// File names a file in the GGUF format of Repo, or how its name ends, such as Q4_K_M; empty takes what there is one
	// of.
	File string
}

// String is the form that ParseSource reads.
func (s Source) String() string {
	if s.URL != "" {
		return s.URL
	}
	text := s.Repo
	if s.Revision != "" {
		text += "@" + s.Revision
	}
	if s.File != "" {
		text += ":" + s.File
	}
	return text
}

// errSource is the form of a source.
var errSource = errors.New("want namespace/name[@revision][:file] of the hub, or an http or https URL")

// ParseSource reads a source: name or namespace/name, with @revision and :file if wanted, or the http or https URL of
// an archive or of a file in the GGUF format. Errors show neither names and passwords nor the query of a URL.
func ParseSource(s string) (Source, error) {
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		switch {
		case err != nil:
			return Source{}, fmt.Errorf("is no URL: %w", errSource)
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return Source{}, fmt.Errorf("%q: %w", trim(Shown(s)), errSource)
		case u.User != nil:
			return Source{}, fmt.Errorf("%q holds a user name: it would end up in logs", trim(Shown(s)))
		case mayHoldUser(u):
			return Source{}, fmt.Errorf("%q may hold a password with a slash: an @ in a path is written %%40",
				trim(Shown(s)))
		}
		return Source{URL: s}, nil
	}
	given := s
	s, file, one := strings.Cut(s, ":")
	repo, revision, pinned := strings.Cut(s, "@")
	if one && (file == "" || len(file) > maxModelID || strings.Contains(file, "..") ||
		strings.ContainsFunc(file, func(r rune) bool { return notInID(r) && r != '/' })) {
		return Source{}, fmt.Errorf("file %q: want the name of a file in the GGUF format, or its end, such as Q4_K_M",
			trim(withoutUser(file)))
	}
	if CheckModelID(repo) != nil || strings.Count(repo, "/") > 1 {
		return Source{}, fmt.Errorf("%q: %w", trim(Shown(given)), errSource)
	}
	if pinned && revision == "" || len(revision) > maxModelID || strings.Contains(revision, "..") ||
		strings.ContainsFunc(revision, func(r rune) bool {
			return r == unicode.ReplacementChar ||
				!unicode.IsPrint(r)
		}) {
		return Source{}, fmt.Errorf("revision %q: want a branch, tag or commit", trim(revision))
	}
	return Source{Repo: repo, Revision: revision, File: file}, nil
}

// DefaultID returns the id of a model that is fetched from source without an id: that of the repository, with the end
// of a file's name if one is chosen; or the file's name.
func DefaultID(source string) string {
	s, err := ParseSource(source)
	switch {
	case err != nil:
		return idOf(source)
	case s.Repo != "" && s.File == "":
		return s.Repo
	case strings.Contains(strings.ToLower(s.File), ".gguf"):
		return path.Join(path.Dir(s.Repo), idOf(s.File))
	case s.Repo != "":
		return s.Repo + "-" + idOf(s.File)
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return idOf(source)
	}
	name := u.Path
	for _, suffix := range []string{".gz", ".tgz", ".tar", ".zip", ".gguf"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return idOf(name)
}
