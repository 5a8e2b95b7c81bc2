package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/client/call"
	"tgi/server/client/terminal"
	"tgi/server/config"
)

// Flags name servers whose plugins a command is about, instead of those of the settings here.
type Flags struct {
	// Notes is where it says which server it waits for; nil says nothing.
	Notes io.Writer

	urls []string
	key  string
}

// AddTo adds the flags of a command; what says what --url does.
func (f *Flags) AddTo(set *pflag.FlagSet, what string) {
	set.StringArrayVar(&f.urls, "url", nil, what+"; again for each of several servers")
	set.StringVar(&f.key, "key", "", "with --url: an admin `key` of the server; by default the variable "+EnvKey+" has it")
}

// Ask asks the servers that the flags name about a plugin, or with "" about all, and says what they said, as a value
// too. asked is false where they name none. setting is a flag of the settings here, at which a server does not look.
func (f *Flags) Ask(ctx context.Context, name, setting string, lookup func(string) (string, bool),
	say func(v any, text string) error) (asked bool, err error) {
	switch {
	case len(f.urls) == 0 && f.key != "":
		return false, Misuse("--key belongs to the server at --url")
	case len(f.urls) == 0:
		return false, nil
	case setting != "":
		return false, Misuse("--" + setting + " is of the settings here, the server at --url has its own")
	}
	all, err := NewFleet(f.urls, AdminKey(f.key, lookup))
	if err != nil {
		return false, Misuse("--url: " + err.Error())
	}
	all.Note(f.Notes)
	if name == "" {
		v, text, err := all.List(ctx)
		if text == "" && err != nil {
			return true, err
		}
		return true, cmp.Or(say(v, text), err)
	}
	return true, all.Run(ctx, Verb{Run: func(ctx context.Context, at *Server, words []string,
		say func(v any, text string) error) error {
		p, text, err := at.Show(ctx, words[0])
		if err != nil {
			return err
		}
		return say(p, text)
	}}, []string{name}, say)
}

// List returns the plugins that the server has, and as a text: a table, and below it what is wrong with them and what
// is tried beside them.
func (s *Server) List(ctx context.Context) (list []admin.Plugin, text string, err error) {
	var got struct {
		Plugins []admin.Plugin `json:"plugins"`
	}
	if err := s.do(ctx, http.MethodGet, "/admin/plugins", &got, "plugins"); err != nil {
		return nil, "", err
	}
	for _, p := range got.Plugins {
		if p.Name == "" || p.State == "" {
			return nil, "", fmt.Errorf("%s: %w: it lists a plugin without name or state", s.url, call.ErrForeign)
		}
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVERSION\tKINDS\tSTATE\tAPPLY\tCALLS\tSOURCE")
	for _, p := range got.Plugins {
		row := []string{p.Name, cmp.Or(p.Version, "-"), cmp.Or(strings.Join(p.Kinds, ", "), "none"), p.State,
			applyOf(p.Plugin), fmt.Sprint(p.Calls), p.Source}
		for i := range row {
			row[i] = terminal.Line(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	err = t.Flush()
	for _, p := range got.Plugins {
		if p.Error != "" {
			fmt.Fprintf(&b, "plugin %s: %s\n", terminal.Line(p.Name), terminal.Line(p.Error))
		}
		if p.Canary != nil {
			fmt.Fprintf(&b, "plugin %s: %s\n", terminal.Line(p.Name), shortly(p.Canary))
		}
	}
	return got.Plugins, b.String(), err
}

// applyOf says to whose requests a plugin applies.
func applyOf(p server.Plugin) string {
	if p.Apply != config.ApplyAlways || len(p.Keys) == 0 {
		return p.Apply
	}
	return p.Apply + " of " + strings.Join(p.Keys, ", ")
}

// limitsOf are the limits of a plugin that are no default, as --limits takes them.
func limitsOf(p server.Plugin) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p.Limits)) {
		list = append(list, name+"="+p.Limits[name])
	}
	return strings.Join(list, ",")
}

// Show describes a plugin that the server has, as a text too.
func (s *Server) Show(ctx context.Context, name string) (p admin.Plugin, text string, err error) {
	if err := s.do(ctx, http.MethodGet, at(name, ""), &p, "name", "sha256", "state"); err != nil {
		return p, "", err
	}
	if p.Name != name {
		return p, "", s.same(name, "", p.Name, p.SHA256)
	}
	var b strings.Builder
	line := func(key, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s %s\n", key, terminal.Line(text))
		}
	}
	line("plugin", strings.TrimSpace(p.Name+" "+p.Version))
	line("about", p.Doc)
	line("kinds", strings.Join(p.Kinds, ", "))
	line("languages", strings.Join(p.Languages, ", "))
	line("params", string(p.Params))
	line("from", p.Source)
	line("sha256", p.SHA256)
	line("state", strings.TrimSuffix(p.State+": "+p.Error, ": "))
	line("apply", applyOf(p.Plugin))
	line("on_error", p.OnError)
	line("on_full", p.OnFull)
	line("exhausted", p.OnExhausted)
	line("limits", limitsOf(p.Plugin))
	if !p.Loaded.IsZero() {
		line("loaded", p.Loaded.Local().Format(time.DateTime))
	}
	line("used", fmt.Sprintf("%s, %.3f s, %d fuel, %s", terminal.Count(int(p.Calls), "call"), p.Seconds,
		p.Fuel, faultsOf(p.Plugin)))
	line("instances", fmt.Sprintf("%d in use, %d ready, %d bytes", p.InstancesOut, p.InstancesWaiting, p.InstanceBytes))
	if g := p.Guard; g != nil {
		line("guard", guardText(g))
	}
	if p.Canary != nil {
		line("beside it", shortly(p.Canary))
	}
	return p, b.String(), nil
}

// guardText is what a plugin did as a guard.
func guardText(g *server.Guard) string {
	return fmt.Sprintf("%s, %s held, %d taken back", terminal.Count(int(sum(g.Verdicts)), "verdict"),
		terminal.Count(int(g.Held), "token"), g.Rewound)
}

// faultsOf counts the calls that failed, by kind.
func faultsOf(p server.Plugin) string {
	text := terminal.Count(int(sum(p.Faults)), "fault")
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(p.Faults)) {
		if n := p.Faults[kind]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
		}
	}
	if len(kinds) > 0 {
		text += " (" + strings.Join(kinds, ", ") + ")"
	}
	return text
}

// sum is that of all counts.
func sum(counts map[string]uint64) (total uint64) {
	for _, n := range counts {
		total += n
	}
	return total
}
