package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"tgi/plugins"
	"tgi/server/config"
)

// pluginPlace says where the setting stands that an error of a plugin is about, and what it is called: "tgi.toml:3:1:
// plugin.source". It is empty where no line of the file names the plugin.
func pluginPlace(cfg config.Config, of *plugins.SpecError) string {
	var at, key string
	switch of.Plugin {
	case config.TemplatePlugin:
		key, at = "model.template", cfg.Place("template")
	case config.ToolsPlugin:
		key, at = "model.tools", cfg.Place("tools")
	default:
		setting := of.Setting
		if p := settingsBlock(cfg, of.Plugin); p != nil && setting == "config" {
			setting = configKey(*p, of.Error())
		}
		key, at = "plugin."+setting, cfg.PluginPlace(of.Plugin, setting)
	}
	if at == "" {
		return ""
	}
	return at + ": " + key
}

// configKey is the key of a plugin's configuration that a text names, the longest of several; config for none.
func configKey(p config.Plugin, text string) string {
	found := ""
	for key := range p.Config {
		if len(key) > len(found) && names(text, key) {
			found = key
		}
	}
	if found == "" {
		return "config"
	}
	return "config." + found
}

// names reports whether a text has a word.
func names(text, word string) bool {
	part := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for rest := text; word != ""; {
		i := strings.Index(rest, word)
		if i < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(rest[:i])
		after, _ := utf8.DecodeRuneInString(rest[i+len(word):])
		if !part(before) && !part(after) {
			return true
		}
		rest = rest[i+len(word):]
	}
	return false
}

// placed has each error of a plugin of the settings begin with where the setting stands that it is about. It matches
// config.ErrWrong but where the machine is at fault.
func placed(cfg config.Config, err error) error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		if errs := list.Unwrap(); errors.Join(errs...).Error() == err.Error() { // several lines, each an error
			var out []error
			for _, e := range errs {
				out = append(out, placed(cfg, e))
			}
			return errors.Join(out...)
		}
	}
	var of *plugins.SpecError
	if !errors.As(err, &of) {
		return err
	}
	if at := pluginPlace(cfg, of); at != "" {
		err = fmt.Errorf("%s: %w", at, reworded{loadText(err), err})
	}
	if errors.Is(err, plugins.ErrNoPlace) || errors.Is(err, context.Canceled) {
		return err
	}
	return config.Wrong(err)
}
