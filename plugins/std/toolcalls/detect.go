package toolcalls

import "strings"

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

// Detect finds the built-in format that a chat template's source is written for. Not ok: the template shows none, and
// a model can then be told to write TGI's own JSON, which is the preset "tgi".
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
