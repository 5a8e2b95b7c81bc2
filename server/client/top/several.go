package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"tgi/server/api/admin"
	"tgi/server/client/call"
	"tgi/server/client/terminal"
	"tgi/server/config"
)

// Source is a server that is shown, by its address as it may be shown.
type Source struct {
	URL  string
	Asks *call.Caller
}

// Sources are the servers at addresses; key is an admin key of all.
func Sources(addresses []string, key string) ([]Source, error) {
	asks, err := call.NewAll(addresses, key)
	list := make([]Source, len(asks))
	for i, c := range asks {
		list[i] = Source{config.Shown(addresses[i]), c}
	}
	return list, err
}

// name is the address without what all have in common.
func (s Source) name() string {
	_, name, found := strings.Cut(s.URL, "://")
	if !found {
		name = s.URL
	}
	return strings.TrimRight(name, "/")
}

// Answer is what one of several servers told, or why it told nothing.
type Answer struct {
	URL   string `json:"url"`
	Error string `json:"error,omitempty"`
	// Reading is nil where there is an Error.
	*Reading

	name string
	err  error
}

// AskAll asks all servers at the same time, each for at most so long.
func AskAll(ctx context.Context, sources []Source, patience time.Duration) []Answer {
	answers := make([]Answer, len(sources))
	var asked sync.WaitGroup
	for i, s := range sources {
		asked.Go(func() {
			limited, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
			defer cancel()
			a := Answer{URL: s.URL, name: s.name()}
			r, err := Ask(limited, s.Asks)
			if err != nil {
				a.err, a.Error = err, err.Error()
			} else {
				a.Reading = &r
			}
			answers[i] = a
		})
	}
	asked.Wait()
	return answers
}

// Failed is an error that says how many did not answer, nil if all did. Of one server it is that server's own.
func Failed(answers []Answer) error {
	var failed []error
	for _, a := range answers {
		if a.err != nil {
			failed = append(failed, a.err)
		}
	}
	if len(answers) == 1 || len(failed) == 0 {
		return errors.Join(failed...)
	}
	return fmt.Errorf("%d of %s did not answer", len(failed), terminal.Count(len(answers), "server"))
}

// sum is what several readings of one thing come to together.
type sum struct {
	waiting, running, parked, requests int
	prefill, generated                 float64
	// cached is what sequences hold of the caches, and caches what these take, in bytes.
	cached, caches float64
	resident       int64
	// on are the servers that it is of.
	on []string
}

func (s *sum) addModel(m admin.LiveModel) {
	s.waiting, s.running, s.parked = s.waiting+m.Waiting, s.running+m.Running, s.parked+m.Parked
	if m.Rates != nil {
		s.prefill, s.generated = s.prefill+m.Rates.Prefill, s.generated+m.Rates.Generated
	}
	if c := m.Cache; c != nil && c.Total > 0 {
		s.caches += float64(c.Bytes)
		s.cached += share(c.Used, c.Total) * float64(c.Bytes)
	}
}

func (s *sum) add(o sum) {
	s.waiting, s.running, s.parked = s.waiting+o.waiting, s.running+o.running, s.parked+o.parked
	s.requests, s.resident = s.requests+o.requests, s.resident+o.resident
	s.prefill, s.generated = s.prefill+o.prefill, s.generated+o.generated
	s.cached, s.caches = s.cached+o.cached, s.caches+o.caches
}

// columns are the figures that servers and models have in common.
func (s *sum) columns() string {
	cache := "-"
	if s.caches > 0 {
		used := min(max(s.cached/s.caches, 0), 1)
		cache = bar(used) + fmt.Sprintf(" %3.0f%%", 100*used)
	}
	return fmt.Sprintf("%7d %7d %6d %-15s %9.1f %9.1f", s.waiting, s.running, s.parked, cache, s.prefill, s.generated)
}

const sumColumns = "WAITING RUNNING PARKED CACHE            PROMPT/S  TOKENS/S"

// Servers returns what several servers told as at most rows lines that take at most columns: a line for each, their
// sum, and what models, plugins and keys come to together. A plugin has a line for each version that serves.
func Servers(answers []Answer, columns, rows int) []string {
	names := min(max(columns-rest, leastName), mostName)
	var told []Answer
	all, lines := sum{}, []string{}
	for _, a := range answers {
		if a.Reading == nil {
			lines = append(lines, cell(a.name, names)+" "+terminal.Line(a.err.Error()))
			continue
		}
		told = append(told, a)
		one, state := sum{requests: a.Live.Requests, resident: a.Live.Memory.Resident}, "serving"
		if a.Live.Draining {
			state = "draining"
		}
		for _, m := range a.Live.Models {
			one.addModel(m)
		}
		all.add(one)
		lines = append(lines, fmt.Sprintf("%s %-8s %s %9d %9s", cell(a.name, names), state, one.columns(), one.requests,
			size(one.resident)))
	}
	out := []string{fmt.Sprintf("%d of %s answer%s", len(told), terminal.Count(len(answers), "server"), versions(told)),
		"", fmt.Sprintf("%s %-8s %s %9s %9s", cell("SERVER", names), "STATE", sumColumns, "REQUESTS", "MEMORY")}
	out = append(out, lines...)
	out = append(out, fmt.Sprintf("%s %-8s %s %9d %9s", cell(everywhere(told, len(answers)), names), "", all.columns(),
		all.requests, size(all.resident)))
	out = append(out, models(told, len(answers), names)...)
	out = append(out, plugins(told, len(answers), names)...)
	out = append(out, keys(told, names)...)
	return within(out, columns, rows)
}

// versions says so where servers are of different versions.
func versions(told []Answer) string {
	seen := map[string]bool{}
	for _, a := range told {
		seen[word(a.Live.Version, 20)] = true
	}
	if list := slices.Sorted(maps.Keys(seen)); len(list) > 1 {
		return "; they differ: tgi " + strings.Join(list, ", ")
	}
	return ""
}

// everywhere is all that were asked, or of those the servers that told something.
func everywhere(told []Answer, asked int) string {
	if len(told) < asked {
		return "all that answer"
	}
	return "all"
}

// on says which of the servers that answered, of those that were asked, have something.
func on(have []string, told []Answer, asked int) string {
	if len(have) == len(told) {
		return everywhere(told, asked)
	}
	return word(strings.Join(have, ", "), 60)
}

// models are their lines, those first that do most.
func models(told []Answer, asked, names int) (out []string) {
	by, left := map[string]*sum{}, 0
	for _, a := range told {
		left += a.Live.OmittedModels
		for _, m := range a.Live.Models {
			s := by[m.ID]
			if s == nil {
				s = &sum{}
				by[m.ID] = s
			}
			s.addModel(m)
			s.on = append(s.on, a.name)
		}
	}
	if len(by) == 0 {
		return nil
	}
	out = append(out, "", fmt.Sprintf("%s %s  ON", cell("MODEL", names), sumColumns))
	ids := slices.Sorted(maps.Keys(by))
	slices.SortStableFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b].running, by[a].running), cmp.Compare(by[b].generated, by[a].generated))
	})
	for _, id := range ids {
		out = append(out, fmt.Sprintf("%s %s  %s", cell(id, names), by[id].columns(), on(by[id].on, told, asked)))
	}
	return omitted(out, left)
}

// plugins are their lines: one for each version of each, below it one for each that is tried beside it, those that are
// not the same at all servers first.
func plugins(told []Answer, asked, names int) (out []string) {
	type version struct{ name, trial, sha256 string } // trial of one that is tried
	type use struct {
		version           string
		calls, faults     uint64
		seconds           float64
		answers, differed uint64 // of a shadow
		on                []string
	}
	by, seconds, left := map[version]*use{}, map[string]float64{}, 0
	add := func(v version, said string, calls, faults uint64, took float64, at string) *use {
		u := by[v]
		if u == nil {
			u = &use{version: said}
			by[v] = u
		}
		u.calls, u.faults, u.seconds = u.calls+calls, u.faults+faults, u.seconds+took
		u.on = append(u.on, at)
		return u
	}
	for _, a := range told {
		left += a.Live.OmittedPlugins
		for _, p := range a.Live.Plugins {
			add(version{p.Name, "", p.SHA256}, p.Version, p.Calls, p.Faults, p.Seconds, a.name)
			seconds[p.Name] += p.Seconds
			if c := p.Canary; c != nil {
				u := add(version{p.Name, trial(c), c.SHA256}, c.Version, c.Calls, c.Faults, c.Seconds, a.name)
				u.answers, u.differed = u.answers+c.Answers, u.differed+c.DifferentAnswers
			}
		}
	}
	if len(by) == 0 {
		return nil
	}
	list := slices.SortedFunc(maps.Keys(by), func(a, b version) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.trial, b.trial), cmp.Compare(a.sha256, b.sha256))
	})
	differs := map[string]bool{}
	for _, v := range list {
		differs[v.name] = differs[v.name] || len(by[v].on) < len(told)
	}
	slices.SortStableFunc(list, func(a, b version) int {
		switch {
		case differs[a.name] == differs[b.name] && differs[a.name]:
			return 0 // the versions of one stay together
		case differs[a.name] == differs[b.name]:
			return cmp.Compare(seconds[b.name], seconds[a.name])
		case differs[a.name]:
			return -1
		}
		return 1
	})
	out = append(out, "", fmt.Sprintf("%s %-12s %-12s %10s %10s %8s  ON", cell("PLUGIN", names), "VERSION", "SHA256",
		"CALLS", "µs/CALL", "FAULTS"))
	for _, v := range list {
		u := by[v]
		at := on(u.on, told, asked)
		if u.answers > 0 {
			at += "; " + differing(u.differed, u.answers)
		}
		out = append(out, fmt.Sprintf("%s %s %s %10d %10.1f %8d  %s", cell(cmp.Or(v.trial, v.name), names),
			cell(u.version, 12), cell(terminal.Cut(v.sha256, 12), 12), u.calls,
			1e6*u.seconds/max(float64(u.calls), 1), u.faults, at))
	}
	return omitted(out, left)
}

// keys are their lines, added up.
func keys(told []Answer, names int) []string {
	by, unnamed := map[string]*Key{}, Key{}
	add := func(to *Key, k Key) {
		to.Requests, to.Prompt = to.Requests+k.Requests, to.Prompt+k.Prompt
		to.Generated, to.Unseen = to.Generated+k.Generated, to.Unseen+k.Unseen
		to.Running += k.Running
	}
	nameless := false
	for _, a := range told {
		for _, k := range a.Keys {
			to := &unnamed
			if k.Name == nil {
				nameless = true
			} else if to = by[*k.Name]; to == nil {
				to = &Key{Name: k.Name}
				by[*k.Name] = to
			}
			add(to, k)
		}
	}
	var list []Key
	for _, name := range slices.Sorted(maps.Keys(by)) {
		list = append(list, *by[name])
	}
	if nameless {
		list = append(list, unnamed)
	}
	return keyLines(list, names)
}

// show are the lines of what was told, of one server or of several.
func show(answers []Answer, columns, rows int) []string {
	if len(answers) > 1 {
		return Servers(answers, columns, rows)
	}
	a := answers[0]
	if a.Reading == nil {
		lines := append(wrapped(terminal.Line(a.err.Error()), columns), "", "asking again; Ctrl-C ends")
		return within(lines, columns, rows)
	}
	return Lines(*a.Reading, columns, rows)
}

// whole is a terminal that has room for everything.
const whole = math.MaxInt32
