package toolcalls

import (
	"slices"
	"strings"
)

// Preset is the built-in format of that name, or of a name that other servers use for it. The format is shared:
// change a copy.
func Preset(name string) (*Format, bool) {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if to, ok := aliases[name]; ok {
		name = to
	}
	for _, f := range presets {
		if f.Name == name {
			return f, true
		}
	}
	return nil, false
}

// Presets are the names of the built-in formats, in the order in which Detect tries them.
func Presets() []string {
	names := make([]string, len(presets))
	for i, f := range presets {
		names[i] = f.Name
	}
	return names
}

// Detect finds the built-in format of a chat template's source. Not ok: the template uses none; the model can then be
// instructed to write TGI's own JSON, which is the preset "tgi".
func Detect(template string) (preset string, ok bool) {
	for _, f := range presets {
		for _, e := range f.Detect {
			if e.in(template) {
				return f.Name, true
			}
		}
	}
	return "", false
}

// ForTemplate is the format of a model with this chat template: the one that Detect finds, or TGI's own JSON. If the
// template never reads the variable tools, the tools are described in TGI's words, which ask for TGI's JSON: it is read
// in addition to the format of calls of earlier turns in the template.
func ForTemplate(template string) *Format {
	own, _ := Preset("tgi")
	name, ok := Detect(template)
	if !ok {
		return own
	}
	f, _ := Preset(name)
	if readsTools(template) {
		return f
	}
	told := *own
	if f.Reasoning != nil {
		told.Reasoning = f.Reasoning
	}
	if f.JSON == nil && f.Named != nil || f.JSON == nameAndArguments {
		told = *f
		told.Bare, told.Fence, told.JSON = own.Bare, own.Fence, own.JSON
	}
	return &told
}

// readsTools says whether the name tools occurs in a Jinja template's tags other than as an attribute, a text, or what
// is set.
func readsTools(template string) bool {
	for {
		at := strings.IndexByte(template, '{')
		if at < 0 || at+1 == len(template) {
			return false
		}
		kind := template[at+1]
		template = template[at+1:]
		end, ok := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[kind]
		if !ok {
			continue
		}
		template = template[1:]
		if kind == '#' {
			_, template, _ = strings.Cut(template, end)
			continue
		}
		found := false
		if found, template = tagReadsTools(template, end); found {
			return true
		}
	}
}

// tagReadsTools looks through one tag. rest is what follows it.
func tagReadsTools(s, end string) (found bool, rest string) {
	before := byte(0) // the last byte that is no white space
	for s != "" && !strings.HasPrefix(s, end) {
		c, n := s[0], 1
		switch {
		case c == '"' || c == '\'':
			for n < len(s) && s[n] != c {
				if s[n] == '\\' {
					n++
				}
				n++
			}
			n = min(n+1, len(s))
		case isWord(c):
			for n < len(s) && isWord(s[n]) {
				n++
			}
			after := strings.TrimLeft(s[n:], whiteSpace)
			set := strings.HasPrefix(after, "=") && !strings.HasPrefix(after, "==")
			if s[:n] == "tools" && before != '.' && !set {
				return true, ""
			}
		}
		if !isSpace(c) {
			before = c
		}
		s = s[n:]
	}
	return false, s
}

func (e Evidence) in(template string) bool {
	for _, s := range e.All {
		if !strings.Contains(template, s) {
			return false
		}
	}
	for _, s := range e.None {
		if strings.Contains(template, s) {
			return false
		}
	}
	return len(e.All) > 0
}

// Reasons reports whether a model is known to reason in this format: its chat template contains a marker of reasoning,
// its vocabulary has one as a single token, or the format has channels.
func (f *Format) Reasons(template string, token func(marker string) bool) bool {
	if f.Channels != nil {
		return true
	}
	if f.Reasoning == nil {
		return false
	}
	for _, m := range slices.Concat(f.Reasoning.Begin, f.Reasoning.End) {
		if strings.Contains(template, m) || token(m) {
			return true
		}
	}
	return false
}

// Thinking says whether a rendered prompt ends inside reasoning: its last text is the marker that begins it.
func (f *Format) Thinking(prompt string) bool {
	if f.Reasoning == nil {
		return false
	}
	prompt = strings.TrimRight(prompt, whiteSpace)
	for _, m := range f.Reasoning.Begin {
		if strings.HasSuffix(prompt, m) {
			return true
		}
	}
	return false
}
