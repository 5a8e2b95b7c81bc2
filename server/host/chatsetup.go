package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"tgi/models/hf"
	"tgi/plugins"
	"tgi/plugins/std/toolcalls"
	"tgi/runtime/regular"
	"tgi/sdk/abi"
	"tgi/server/config"
)

// templateFiles are the files of a model's folder that chat templates and the
// texts of special tokens come from.
var templateFiles = []string{
	hf.ChatTemplateFile, hf.ChatTemplateFolder, hf.TokenizerConfigFile, hf.SpecialTokensFile, hf.LegacyTemplateFile,
	hf.ProcessorConfigFile,
}

// chatSetup is what conversations are rendered and parsed with.
type chatSetup struct {
	specs []plugins.Spec      // of the plugins that [model] stands for
	use   plugins.ChatPlugins // the names of those that conversations get

	rendered, parsed string   // by what, in words
	templates        []string // of the model, by name, where it has several

	settings config.Config // that ask for it
}

// keyError says which key of [model] is wrong, and where it stands.
func (c *chatSetup) keyError(key string, err error) error {
	if at := c.settings.Place(key); at != "" {
		return config.Wrong(fmt.Errorf("%s: model.%s: %w", at, key, err))
	}
	return config.Wrong(fmt.Errorf("model.%s: %w", key, err))
}

// String says what conversations go through.
func (c *chatSetup) String() string {
	if c.use.Template == "" {
		return "no template: conversations are refused"
	}
	return c.rendered + ", tool calls: " + c.parsed
}

// chatFiles are the files that a chatSetup is made of; dir is the model's folder,
// "" for the embedded one.
func chatFiles(cfg config.Config, dir string) (files []string) {
	if dir != "" {
		for _, f := range templateFiles {
			files = append(files, filepath.Join(dir, f))
		}
		named, _ := filepath.Glob(filepath.Join(dir, hf.ChatTemplateFolder, "*.jinja")) // the pattern is well-formed
		files = append(files, named...)
	}
	if t := cfg.Model.Template; config.IsTemplateFile(t) {
		files = append(files, t)
	}
	if t := cfg.Model.Tools; config.IsFormatFile(t) {
		files = append(files, t)
	}
	return files
}

// DescribeChat says what conversations with a model go through by the settings of cfg, given
// the model's name, its folder, "" for the embedded one, and its own templates.
func DescribeChat(cfg config.Config, name, dir string, own hf.TokenizerConfig) (string, error) {
	c, err := chatSetupOf(cfg, name, dir, own)
	if err != nil {
		return "", err
	}
	return c.String(), nil
}

// chatSetupOf says what the settings ask for, given the model's name, its folder and
// its own templates.
func chatSetupOf(cfg config.Config, name, dir string, own hf.TokenizerConfig) (chatSetup, error) {
	c := chatSetup{settings: cfg}
	model := map[string]any{"name": name, "tokens": own.Tokens, "templates": own.ChatTemplates}
	source, err := c.template(cfg, model, dir, own)
	if err != nil {
		return c, err
	}
	if c.use.Template == config.TemplatePlugin {
		c.use.TemplateSum = templateSum(source, own.ChatTemplates)
	}
	return c, c.tools(cfg, model, source, own)
}

// templateSum is the checksum of the text of a file or, without one, of the model's own templates.
func templateSum(source string, own map[string]string) string {
	h := sha256.New()
	if source != "" {
		own = map[string]string{hf.DefaultTemplate: source}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		fmt.Fprintf(h, "%d %s%d %s", len(name), name, len(own[name]), own[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// template settles model.template. source is that of a file.
func (c *chatSetup) template(cfg config.Config, model map[string]any, dir string,
	own hf.TokenizerConfig) (source string, err error) {
	settings := map[string]any{"model": model}
	files := map[string]string{} // what errors call templates
	if !readsPrompted(cfg) {
		settings["tools"] = "keep"
	}
	switch t := cfg.Model.Template; {
	case t == config.None, t == config.Auto && len(own.ChatTemplates) == 0:
		return "", nil
	case t == config.Auto:
		c.rendered = "the model's template"
		if len(own.ChatTemplates) > 1 {
			c.templates = slices.Sorted(maps.Keys(own.ChatTemplates))
		}
		for name, file := range own.TemplateFiles {
			if file != "" && dir != "" {
				files[name] = filepath.Join(dir, file)
			}
		}
	case config.IsTemplateFile(t):
		text, err := regular.Read(t, 0, config.MaxFile)
		if err != nil {
			return "", c.keyError("template", err)
		}
		if len(text) == 0 { // half written; the plugin would take the model's own
			return "", fmt.Errorf("model.template: %s is empty", t)
		}
		source = string(text)
		settings["source"] = source
		files[hf.DefaultTemplate] = t
		c.rendered = "template " + t
	default:
		c.use.Template = t
		c.rendered = "template plugin " + t
		return "", nil
	}
	if len(files) > 0 {
		settings["files"] = files
	}
	c.use.Template = config.TemplatePlugin
	return source, c.add(config.TemplatePlugin, config.KindTemplate, "builtin:jinja", settings)
}

// readsPrompted says whether calls are read in the format that a template's plugin
// asks for in words of its own, where the template says nothing of tools.
func readsPrompted(cfg config.Config) bool {
	t := cfg.Model.Tools
	f, ok := toolcalls.Preset(t)
	return t == config.Auto || ok && f.Name == "tgi"
}

// tools settles model.tools, once model.template is settled. source is that of a
// file.
func (c *chatSetup) tools(cfg config.Config, model map[string]any, source string, own hf.TokenizerConfig) error {
	settings := map[string]any{"model": model}
	if source != "" {
		settings["template"] = source
	}
	t := cfg.Model.Tools
	_, preset := toolcalls.Preset(t)
	declared := slices.ContainsFunc(cfg.Plugin, func(p config.Plugin) bool { return p.Name == t })
	switch {
	case t == config.None, c.use.Template == "":
		c.parsed = config.None
		return nil
	case t == config.Auto:
		settings["format"] = t
		if source == "" { // as the plugin does
			source = own.ChatTemplates["tool_use"] + own.ChatTemplates[hf.DefaultTemplate]
		}
		c.parsed = "format " + toolcalls.ForTemplate(source).Name
	case config.IsFormatFile(t):
		text, err := regular.Read(t, 0, config.MaxFile)
		if err != nil {
			return c.keyError("tools", err)
		}
		if _, err := toolcalls.ReadFormat(text); err != nil {
			return c.keyError("tools", fmt.Errorf("%s: %w", t, err))
		}
		settings["format"] = json.RawMessage(text)
		c.parsed = "format of " + t
	case preset && !declared:
		settings["format"] = t
		c.parsed = "format " + t
	default:
		c.use.Tools = t
		c.parsed = "plugin " + t
		return nil
	}
	c.use.Tools = config.ToolsPlugin
	return c.add(config.ToolsPlugin, config.KindTools, "builtin:toolcalls", settings)
}

func (c *chatSetup) add(name, kind, source string, settings map[string]any) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.specs = append(c.specs, plugins.Spec{Name: name, Kind: kind, Source: source, Config: text})
	return nil
}

// wantedPlugins are the plugins that the settings name.
func (c *chatSetup) wantedPlugins() (list []wantedPlugin) {
	formats := toolcalls.Presets()
	for _, want := range []wantedPlugin{
		{"template", config.KindTemplate, c.use.Template, "and it is neither auto, none nor a file *.jinja", nil},
		{"tools", config.KindTools, c.use.Tools, "and it is neither auto, none, a file *.json nor one of the formats " +
			strings.Join(formats, ", "), formats},
	} {
		if want.name != "" {
			list = append(list, want)
		}
	}
	return list
}

// wantedPlugin is one, with the key of [model] that names it.
type wantedPlugin struct {
	key, kind, name, other string
	words                  []string // that the key may have beside names of plugins
}

// checkNamed says whether the plugins are among those that are to be, or are there already.
func (c *chatSetup) checkNamed(specs []plugins.Spec, set *plugins.Set) error {
	for _, want := range c.wantedPlugins() {
		_, there := set.Get(want.name)
		if !there && !slices.ContainsFunc(specs, func(s plugins.Spec) bool { return s.Name == want.name }) {
			return c.missing(want, set)
		}
	}
	return nil
}

// missing says that a plugin is not there, and what may have been meant.
func (c *chatSetup) missing(want wantedPlugin, set *plugins.Set) error {
	known := slices.Concat([]string{config.Auto, config.None}, want.words)
	for _, p := range set.List() {
		known = append(known, p.Name)
	}
	return c.keyError(want.key, fmt.Errorf("there is no plugin %q, %s%s", want.name, want.other,
		config.Suggest(want.name, known)))
}

// check says whether the plugins are there and of the kind.
func (c *chatSetup) check(set *plugins.Set) error {
	for _, want := range c.wantedPlugins() {
		s, ok := set.Get(want.name)
		switch {
		case !ok:
			return c.missing(want, set)
		case s.State == plugins.StateFailed:
			return c.keyError(want.key, fmt.Errorf("plugin %s: %s", want.name, s.Error))
		case !slices.Contains(s.Kinds, want.kind):
			return c.keyError(want.key, fmt.Errorf("plugin %s serves %s, kind %s is wanted", want.name,
				strings.Join(s.Kinds, ", "), want.kind))
		}
	}
	return nil
}

// grammarPlugin is the name of the built-in plugin of kind grammar, unless the
// settings declare a plugin of that name.
const grammarPlugin = "grammar"

// grammarSpecs returns the built-in plugin, which comes behind those of the
// settings: they are asked first for the languages that they know.
func grammarSpecs(cfg config.Config) []plugins.Spec {
	if slices.ContainsFunc(cfg.Plugin, func(p config.Plugin) bool { return p.Name == grammarPlugin }) {
		return nil
	}
	return []plugins.Spec{{Name: grammarPlugin, Kind: abi.KindGrammar, Source: plugins.Builtin + grammarPlugin}}
}
