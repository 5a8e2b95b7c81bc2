package operate

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/client/terminal"
)

// use is how a module is used that is sent to a server. What is not given the server takes from what serves.
type use struct {
	flags  *pflag.FlagSet
	texts  map[string]*string // by the flag
	limits map[string]string
	module func() (Module, error) // of checked, for all servers; nil where one is asked
}

// checked reads the module for all of several servers, and not again for each: what was checked is what they have.
func (u *use) checked(read func(file string) ([]byte, error), file string) (Module, error) {
	u.module = sync.OnceValues(func() (Module, error) { return readModule(read, file) })
	return u.module()
}

// read is the module that is sent.
func (u *use) read(read func(file string) ([]byte, error), file string) (Module, error) {
	if u.module != nil {
		return u.module()
	}
	return readModule(read, file)
}

// Flags adds those of the settings of an upload.
func (u *use) Flags(set *pflag.FlagSet) {
	u.flags, u.texts = set, map[string]*string{}
	for _, f := range [][2]string{
		{"apply", "`apply` of the plugin: request or always; like the flags below, it stays as it is if left out"},
		{"keys", "`names` of the keys, with commas, to whose requests it applies always; \"\" for all"},
		{"on-error", "`on_error` of the plugin: fail, skip or stop"},
		{"on-full", "`on_full` of a guard: stop or release"},
		{"on-exhausted", "`on_exhausted` of a guard: stop or release"},
		{"config", "`JSON` object that the module is configured with"},
	} {
		u.texts[f[0]] = set.String(f[0], "", f[1])
	}
	set.StringToStringVar(&u.limits, "limits", nil, "`limits` of the plugin, such as memory=64MiB,share=0.5")
}

// given is the first flag that was given of those, "" for none.
func (u *use) given() string {
	for _, name := range slices.Sorted(maps.Keys(u.texts)) {
		if u.flags.Changed(name) {
			return name
		}
	}
	if u.flags.Changed("limits") {
		return "limits"
	}
	return ""
}

// add adds what was given to a query.
func (u *use) add(q url.Values) {
	for name, text := range u.texts {
		if u.flags.Changed(name) {
			q.Set(strings.ReplaceAll(name, "-", "_"), *text)
		}
	}
	for key, value := range u.limits {
		q.Set("limits."+key, value)
	}
}

// Upload is what is asked of a module that takes the place of what serves.
type Upload struct {
	// Read reads the file of a module.
	Read func(file string) ([]byte, error)

	use
	dry, kinds bool
}

// Flags adds what Run reads.
func (u *Upload) Flags(set *pflag.FlagSet) {
	u.use.Flags(set)
	set.BoolVar(&u.dry, "dry-run", false, "have the server check the module and say what would change; change nothing")
	KindsFlag(set, &u.kinds)
}

// errNoModule is of an upload without a file.
const errNoModule = Misuse("plugin upload takes the name of a plugin and the file of its module")

// Run uploads a module, or has it checked. The first result is for programs.
func (u *Upload) Run(ctx context.Context, at *Server, name, file string) (v any, text string, err error) {
	if file == "" {
		return nil, "", errNoModule
	}
	m, err := u.read(u.Read, file)
	if err != nil {
		return nil, "", err
	}
	q := u.query()
	if u.dry {
		t, err := at.Try(ctx, name, m, q)
		return t, trialText(t), err
	}
	p, fresh, err := at.Upload(ctx, name, m, q)
	if err != nil {
		return nil, "", err
	}
	text = Serving{Name: p.Name, SHA256: p.SHA256, Version: p.Version}.text(name)
	if !fresh {
		// The version before may be the same, or too large to be kept: the server knows.
		if list, _, err := at.Versions(ctx, name); err == nil && len(list) > 1 {
			text += fmt.Sprintf("  %s kept: tgi plugin rollback %s has the latest of before serve again\n",
				terminal.Count(len(list)-1, "earlier version"), back(at, name, list))
		}
	}
	return p, text + used(p), nil
}

// query are the settings of an upload.
func (u *Upload) query() url.Values {
	q := url.Values{}
	u.add(q)
	if u.kinds {
		q.Set("change_kinds", "true")
	}
	return q
}

// back are the arguments of the rollback that has the latest of the earlier versions serve again: at this server, and
// by name, so that the same is right at each of several.
func back(at *Server, name string, list []admin.Version) string {
	words := name + " --url " + terminal.Line(at.url)
	if list[1].SHA256 != list[0].SHA256 || list[1].SettingsID != list[0].SettingsID {
		words += " --to " + terminal.Line(nameOf(list[1], list))
	}
	return words
}

// Upload has the server load a module under a name, in place of one that was uploaded before, unless it is fresh. q
// are settings of the route; what they leave out stays as it is.
func (s *Server) Upload(ctx context.Context, name string, m Module, q url.Values) (got server.Plugin, fresh bool,
	err error) {
	status, err := s.put(ctx, at(name, query(q)), m, &got, "name", "sha256")
	if err == nil {
		err = s.same(name, m.sum(), got.Name, got.SHA256)
	}
	return got, status == http.StatusCreated, err
}

// Try has the server check an upload and change nothing.
func (s *Server) Try(ctx context.Context, name string, m Module, q url.Values) (got admin.Trial, err error) {
	given := url.Values{"dry_run": {"true"}}
	maps.Copy(given, q)
	if _, err = s.put(ctx, at(name, query(given)), m, &got, "dry_run", "plugin"); err == nil {
		err = s.same(name, m.sum(), got.Plugin.Name, got.Plugin.SHA256)
	}
	return got, err
}

// query is the end of a path.
func query(q url.Values) string {
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// trialText is a dry run as people read it.
func trialText(t admin.Trial) string {
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "  %-23s %s\n", key, terminal.Line(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(&b, "%s: the module is good; nothing was changed\n", terminal.Line(t.Plugin.Name))
	line("version", "%q, sha256 %.16s, %s", t.Plugin.Version, t.Plugin.SHA256, strings.Join(t.Plugin.Kinds, ", "))
	if r := t.Replaces; r != nil {
		line("replaces", "%q, sha256 %.16s", r.Version, r.SHA256)
	}
	line("models", "%s", strings.Join(t.Models, ", "))
	word := func(text string) string {
		if text == "" {
			return "default"
		}
		return text
	}
	for _, s := range t.Settings {
		switch {
		case s.Before == nil:
			line(s.Name, "%s", word(s.After))
		case *s.Before == s.After:
			line(s.Name, "%s, as now", word(s.After))
		default:
			line(s.Name, "%s -> %s", word(*s.Before), word(s.After))
		}
	}
	if t.Refuses != "" {
		line("refuses", "a request without parameters: %s", t.Refuses)
	}
	return b.String()
}
