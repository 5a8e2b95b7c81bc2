package ollama

import (
	"cmp"
	"strings"

	"tgi/server/dispatch"
)

// latest is the tag of names without one.
const latest = ":latest"

// hubs are what Ollama's names of repositories of the hub begin with.
var hubs = []string{"hf.co/", "huggingface.co/"}

// candidates are the ids that a client may mean by a name, the likeliest first: Ollama's names have a tag, and those of
// models of the hub a host.
func candidates(name string) []string {
	list := []string{name}
	add := func(s string) {
		if s != "" && s != list[len(list)-1] {
			list = append(list, s)
		}
	}
	short := strings.TrimSuffix(name, latest)
	add(short)
	for _, host := range hubs {
		short = strings.TrimPrefix(short, host)
	}
	add(short)
	if bare, tag, ok := strings.Cut(short, ":"); ok {
		add(bare + "-" + tag)
		if short != name && !strings.HasSuffix(name, latest) { // of the hub: the tag names a file
			add(bare)
		}
	}
	return list
}

// means returns the id that a name means: the first of its candidates that is a model's, or else the name without
// its tag latest. has reports whether there is a model of a name.
func means(name string, has func(string) bool) string {
	list := candidates(name)
	for _, id := range list {
		if has(id) {
			return id
		}
	}
	return strings.TrimSuffix(name, latest)
}

// tagged is an id as Ollama's clients know it: with a tag.
func tagged(id string) string { return id + latest }

// echoed is the name of the model with an id in the reply to a request that named it: its own name again, as in
// Ollama, unless that is too long to be repeated in each line.
func echoed(named, id string) string {
	if len(named) > dispatch.LongestEcho {
		return tagged(id)
	}
	return named
}

// source is what a name that is to be fetched means to the hub.
func source(name string) string {
	name = strings.TrimSuffix(name, latest)
	for _, host := range hubs {
		name = strings.TrimPrefix(name, host)
	}
	return name
}

// subject is what a body calls a model: under its name of today, or that of older clients.
func subject(model, older string) (string, error) {
	name := cmp.Or(model, older)
	if name == "" {
		return "", errNoModel
	}
	return name, nil
}
