package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"tgi/server/api/admin"
	"tgi/server/client/terminal"
)

// List returns the plugins of the servers, and as a text. Of several it is one table, in which a plugin has a line for
// each version and use of it, those that are not the same at all servers first. The error is of servers that did not
// answer; what the others said comes with it.
func (f Fleet) List(ctx context.Context) (v any, text string, err error) {
	if len(f) == 1 {
		list, text, err := f[0].List(ctx)
		if err != nil {
			return nil, "", err
		}
		return map[string][]admin.Plugin{"plugins": list}, text, err
	}
	lists, outcomes := make([][]admin.Plugin, len(f)), make([]Outcome, len(f))
	f.each(ctx, func(ctx context.Context, i int) (err error) {
		lists[i], _, err = f[i].List(ctx)
		outcomes[i] = Outcome{Result: map[string][]admin.Plugin{"plugins": lists[i]}}
		return err
	}, func(i int, err error) { outcomes[i] = Outcome{Error: err.Error()} })
	var b strings.Builder
	told := 0
	for i := range outcomes {
		o := &outcomes[i]
		if o.of(f[i]); o.Error == "" {
			told++
		}
	}
	text, err = f.table(lists, told)
	b.WriteString(text)
	for _, o := range outcomes {
		if o.Error != "" {
			fmt.Fprintf(&b, "%s failed: %s\n", terminal.Line(o.URL), terminal.Line(o.Error))
		}
	}
	return map[string][]Outcome{"servers": outcomes}, b.String(), cmp.Or(err, f.failed(outcomes, ""))
}

// same is what two plugins have in common that are the same at two servers, with what is tried beside them.
type same struct{ name, sha256, version, kinds, state, apply, onError, trial string }

// table are the plugins of all servers.
func (f Fleet) table(lists [][]admin.Plugin, told int) (string, error) {
	type use struct {
		calls uint64
		on    []string
	}
	uses, order, trials := map[same]*use{}, []same{}, []string{}
	for i, list := range lists {
		for _, p := range list {
			s := same{p.Name, p.SHA256, p.Version, strings.Join(p.Kinds, ", "), p.State, applyOf(p.Plugin), p.OnError,
				""}
			if p.Canary != nil {
				s.trial = trialOf(p.Canary) + ", " + p.Canary.State
				trials = append(trials, fmt.Sprintf("plugin %s at %s: %s", p.Name, f[i].url, shortly(p.Canary)))
			}
			if uses[s] == nil {
				uses[s], order = &use{}, append(order, s)
			}
			uses[s].calls += p.Calls
			uses[s].on = append(uses[s].on, f[i].url)
		}
	}
	differs := map[string]bool{} // true alone
	for s, u := range uses {
		if len(u.on) < told {
			differs[s.name] = true
		}
	}
	slices.SortStableFunc(order, func(a, b same) int {
		if differs[a.name] != differs[b.name] {
			if differs[a.name] {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.name, b.name)
	})
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVERSION\tSHA256\tKINDS\tSTATE\tAPPLY\tON_ERROR\tCALLS\tAT")
	for _, s := range order {
		at := "all"
		switch {
		case told < len(f) && !differs[s.name]:
			at = "all that answer"
		case differs[s.name]:
			at = strings.Join(uses[s].on, " ")
		}
		row := []string{s.name, cmp.Or(s.version, "-"), fmt.Sprintf("%.12s", s.sha256), cmp.Or(s.kinds, "none"),
			s.state, s.apply, s.onError, fmt.Sprint(uses[s].calls), at}
		for i := range row {
			row[i] = terminal.Line(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	err := t.Flush()
	for _, line := range trials {
		fmt.Fprintln(&b, terminal.Line(line))
	}
	if len(differs) > 0 {
		fmt.Fprintf(&b, "%s not the same at all servers\n", terminal.Count(len(differs), "plugin"))
	}
	return b.String(), err
}
