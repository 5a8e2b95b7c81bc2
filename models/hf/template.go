package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Files that hold chat templates, beside TokenizerConfigFile.
const (
	// ChatTemplateFile is the default template's source.
	ChatTemplateFile = "chat_template.jinja"
	// ChatTemplateFolder holds NAME.jinja, the source of the template NAME.
	ChatTemplateFolder = "additional_chat_templates"
	// ProcessorConfigFile and LegacyTemplateFile are JSON objects of models
	// that read more than text, with the key chat_template.
	ProcessorConfigFile = "processor_config.json"
	LegacyTemplateFile  = "chat_template.json"
)

// DefaultTemplate is the name of the unnamed template.
const DefaultTemplate = "default"

// MaxTemplate is the maximum size of a template's source, in bytes.
const MaxTemplate = 1 << 20

const templateSuffix = ".jinja"

// readTemplates fills ChatTemplates and TemplateFiles from the first of these sources that has a
// template, as transformers 5.23 does:
//
//   - chat_template.jinja and additional_chat_templates/*.jinja together; the folder's
//     default.jinja wins over the former
//   - tokenizer_config.json, which t comes from
//   - processor_config.json
//   - chat_template.json
//
// transformers' tokenizers read the first two. Its processors read the first and the last two, in
// the order 3, 4, 1; here these are for folders whose tokenizer has no template.
func (t *TokenizerConfig) readTemplates(fsys fs.FS) error {
	if t.ChatTemplates == nil {
		t.ChatTemplates = map[string]string{}
	}
	sources, files, err := templateFiles(fsys)
	if err != nil {
		return err
	}
	t.TemplateFiles = files
	if len(files) > 0 {
		t.ChatTemplates = sources
		return nil
	}
	for _, file := range []string{ProcessorConfigFile, LegacyTemplateFile} {
		if len(t.ChatTemplates) > 0 {
			break
		}
		if t.ChatTemplates, err = templatesInJSON(fsys, file); err != nil {
			return err
		}
	}
	for name := range t.ChatTemplates {
		t.TemplateFiles[name] = ""
	}
	return nil
}

// templateFiles reads the templates that are files of their own: their
// sources and their paths, by name.
func templateFiles(fsys fs.FS) (sources, files map[string]string, err error) {
	sources, files = map[string]string{}, map[string]string{}
	take := func(name, file string) error {
		source, err := ReadTemplate(fsys, file)
		if err == nil {
			sources[name], files[name] = source, file
		}
		return err
	}
	if err := take(DefaultTemplate, ChatTemplateFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	entries, err := fs.ReadDir(fsys, ChatTemplateFolder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), templateSuffix)
		if !ok || name == "" || e.IsDir() || name[0] == '.' { // hidden files come from editors and archives
			continue
		}
		if err := take(name, path.Join(ChatTemplateFolder, e.Name())); err != nil {
			return nil, nil, err
		}
	}
	return sources, files, nil
}

// ReadTemplate reads a template's source from a file. The error names the file; it wraps ErrConfig
// if the source has more than MaxTemplate bytes or is not UTF-8.
func ReadTemplate(fsys fs.FS, file string) (string, error) {
	if st, err := fs.Stat(fsys, file); err == nil && !st.Mode().IsRegular() { // a pipe would be waited for
		return "", fmt.Errorf("%s: %w: is not a regular file", file, ErrConfig)
	}
	f, err := fsys.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxTemplate+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if len(b) > MaxTemplate {
		return "", fmt.Errorf("%s: %w: the template has more than %d bytes", file, ErrConfig, MaxTemplate)
	}
	if at := invalidUTF8(b); at >= 0 {
		return "", fmt.Errorf("%s: %w: byte %d is not UTF-8: 0x%02x", file, ErrConfig, at, b[at])
	}
	return string(b), nil
}

// invalidUTF8 returns the index of the first invalid byte of b, -1 if there is none.
func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// templatesInJSON reads the key chat_template of an optional JSON file.
func templatesInJSON(fsys fs.FS, file string) (map[string]string, error) {
	data, err := fs.ReadFile(fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := parseObject(file, data)
	if err != nil {
		return nil, err
	}
	out := o.templates("chat_template")
	return out, o.err
}

// templates reads chat_template: one source, a list of {name, template}, or an
// object of sources by name.
func (o *object) templates(key string) map[string]string {
	out := map[string]string{}
	v, ok := o.raw(key)
	if !ok {
		return out
	}
	put := func(name, source string) {
		if len(source) > MaxTemplate {
			o.fail(key, "the template %q has %d bytes, at most %d", name, len(source), MaxTemplate)
		}
		out[name] = source
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		put(DefaultTemplate, s)
		return out
	}
	var byName map[string]string
	if json.Unmarshal(v, &byName) == nil {
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			put(name, byName[name])
		}
		return out
	}
	var list []struct {
		Name     *string `json:"name"`
		Template *string `json:"template"`
	}
	if err := json.Unmarshal(v, &list); err != nil {
		o.fail(key, "want a string, a list of {name, template} or an object of strings, got %s", shorten(v))
		return out
	}
	for i, t := range list {
		if t.Name == nil || t.Template == nil {
			o.fail(key, "entry %d lacks name or template", i)
			return out
		}
		if _, twice := out[*t.Name]; twice {
			o.fail(key, "two templates are named %q", *t.Name)
			return out
		}
		put(*t.Name, *t.Template)
	}
	return out
}
