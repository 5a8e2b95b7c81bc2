package toolcalls

import (
	"tgi/sdk/go/params"
)

// ReadFormat reads a format from JSON and checks it. A field that it does not know is an error. Errors wrap ErrFormat.
func ReadFormat(data []byte) (*Format, error) {
	f, r := new(Format), params.Read(data)
	f.read(r)
	if err := r.Close(); err != nil {
		return nil, formatError(err.Error())
	}
	return f, f.Check()
}

// formatError says what is wrong with a format. It wraps ErrFormat.
type formatError string

func (e formatError) Error() string { return ErrFormat.Error() + ": " + string(e) }
func (e formatError) Unwrap() error { return ErrFormat }

// fields reads an object: each member by its function, null as if it were not there.
func fields(r *params.Reader, where string, of map[string]func()) {
	for key := range r.Object() {
		read := of[key]
		switch {
		case read == nil:
			r.Fail(`unknown field "` + key + `" in ` + where)
		case !r.Null():
			read()
		}
	}
}

func textOf(r *params.Reader, to *string) func() { return func() { *to = r.String() } }
func boolOf(r *params.Reader, to *bool) func()   { return func() { *to = r.Bool() } }

func textsOf(r *params.Reader, to *[]string) func() {
	return func() {
		*to = []string{}
		for range r.Array() {
			*to = append(*to, r.String())
		}
	}
}

func (f *Format) read(r *params.Reader) {
	fields(r, "the format", map[string]func(){
		"name": textOf(r, &f.Name), "bare": textOf(r, &f.Bare), "ids": textOf(r, (*string)(&f.IDs)),
		"implicit": boolOf(r, &f.Implicit), "keep_space": boolOf(r, &f.KeepSpace),
		"trim_start": boolOf(r, &f.TrimStart),
		"drop":       textsOf(r, &f.Drop),
		"section":    func() { f.Section.read(r, "section") },
		"call":       func() { f.Call.read(r, "call") },
		"fence":      func() { f.Fence.read(r, "fence") },
		"reasoning": func() {
			f.Reasoning = new(Span)
			f.Reasoning.read(r, "reasoning")
		},
		"json":     func() { f.JSON = readJSON(r) },
		"named":    func() { f.Named = readNamed(r) },
		"tagged":   func() { f.Tagged = readTagged(r) },
		"channels": func() { f.Channels = readChannels(r) },
		"python": func() {
			f.Python = new(Python)
			fields(r, "python", nil)
		},
		"detect": func() {
			for range r.Array() {
				var e Evidence
				fields(r, "detect", map[string]func(){"all": textsOf(r, &e.All), "none": textsOf(r, &e.None)})
				f.Detect = append(f.Detect, e)
			}
		},
	})
}

func (s *Span) read(r *params.Reader, where string) {
	fields(r, where, map[string]func(){"begin": textsOf(r, &s.Begin), "end": textsOf(r, &s.End)})
}

func readJSON(r *params.Reader) *JSON {
	j := new(JSON)
	fields(r, "json", map[string]func(){
		"name_keys": textsOf(r, &j.NameKeys), "argument_keys": textsOf(r, &j.ArgumentKeys),
		"id_keys": textsOf(r, &j.IDKeys),
		"wrap":    textsOf(r, &j.Wrap), "flat": boolOf(r, &j.Flat), "plain_keys": textsOf(r, &j.PlainKeys),
		"separators": textOf(r, &j.Separators),
		"answers": func() {
			j.Answers = map[string]string{}
			for key := range r.Object() {
				j.Answers[key] = r.String()
			}
		},
	})
	return j
}

func readNamed(r *params.Reader) *Named {
	n := new(Named)
	fields(r, "named", map[string]func(){
		"separators": textsOf(r, &n.Separators), "id": textOf(r, &n.ID), "prefix": textOf(r, &n.Prefix),
		"index":    textOf(r, &n.Index),
		"whole_id": boolOf(r, &n.WholeID), "after": textsOf(r, &n.After),
	})
	return n
}

func readTagged(r *params.Reader) *Tagged {
	t := new(Tagged)
	fields(r, "tagged", map[string]func(){
		"name_end": textsOf(r, &t.NameEnd), "open": textsOf(r, &t.Open), "open_end": textsOf(r, &t.OpenEnd),
		"string_end": textsOf(r, &t.StringEnd), "json_end": textsOf(r, &t.JSONEnd),
		"value_open": textsOf(r, &t.ValueOpen),
		"close":      textsOf(r, &t.Close), "newlines": boolOf(r, &t.Newlines), "guess_types": boolOf(r, &t.GuessTypes),
	})
	return t
}

func readChannels(r *params.Reader) *Channels {
	c := new(Channels)
	fields(r, "channels", map[string]func(){
		"start": textOf(r, &c.Start), "channel": textOf(r, &c.Channel), "message": textOf(r, &c.Message),
		"end":       textsOf(r, &c.End),
		"recipient": textOf(r, &c.Recipient), "prefix": textOf(r, &c.Prefix), "reasoning": textsOf(r, &c.Reasoning),
	})
	return c
}
