package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"

	"tgi/server/api/admin"
	"tgi/server/client/terminal"
)

// Names take between leastName and mostName columns: as many as leave rest for the figures up to a model's tokens per
// second, which 80 columns have room for.
const leastName, mostName, rest = 10, 28, 70

// Lines returns a reading as at most rows lines that take at most columns in a terminal.
func Lines(r Reading, columns, rows int) []string {
	l := r.Live
	state := "serving"
	if l.Draining {
		state = "draining"
	}
	out := []string{
		fmt.Sprintf("tgi %s  %s  up %s  in flight %d", word(l.Version, 20), state,
			(time.Duration(min(l.Uptime, math.MaxInt32)) * time.Second).String(), l.Requests),
		memory(l.Memory),
	}
	names := min(max(columns-rest, leastName), mostName)
	out = append(out, "", fmt.Sprintf("%s %-8s %7s %7s %6s %-15s %9s %9s %8s %6s", cell("MODEL", names), "STATE", "WAITING",
		"RUNNING", "PARKED", "CACHE", "PROMPT/S", "TOKENS/S", "STEP", "HITS"))
	for _, m := range l.Models {
		out = append(out, model(m, names))
	}
	out = omitted(out, l.OmittedModels)
	if len(l.Plugins) > 0 {
		out = append(out, "", fmt.Sprintf("%s %-12s %-8s %10s %10s %8s %8s %9s", cell("PLUGIN", names), "VERSION",
			"STATE", "CALLS", "µs/CALL", "FAULTS", "SKIPS", "INSTANCES"))
		busiest := slices.Clone(l.Plugins)
		slices.SortStableFunc(busiest, func(a, b admin.LivePlugin) int { return cmp.Compare(b.Seconds, a.Seconds) })
		for _, p := range busiest {
			perCall := 1e6 * p.Seconds / max(float64(p.Calls), 1)
			out = append(out, fmt.Sprintf("%s %s %s %10d %10.1f %8d %8d %9d", cell(p.Name, names),
				cell(p.Version, 12), cell(p.State, 8), p.Calls, perCall, p.Faults, p.Skips, p.Instances))
			out = append(out, canary(p.Canary, names)...)
		}
		out = omitted(out, l.OmittedPlugins)
	}
	out = append(out, keyLines(r.Keys, names)...)
	return within(out, columns, rows)
}

// canary are the lines of what is tried beside a plugin, none for nil.
func canary(c *admin.CanaryInShort, names int) []string {
	if c == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("%s %s %s %10d %10.1f %8d %8s %9d", cell(trial(c), names), cell(c.Version, 12),
		cell(c.State, 8), c.Calls, 1e6*c.Seconds/max(float64(c.Calls), 1), c.Faults, "-", c.Instances)}
	if c.Shadow {
		lines = append(lines, "    "+differing(c.DifferentAnswers, c.Answers))
	}
	return lines
}

// trial names what is tried beside the plugin of the line above.
func trial(c *admin.CanaryInShort) string {
	mode := "canary"
	if c.Shadow {
		mode = "shadow"
	}
	return fmt.Sprintf("  %s %d%%", mode, c.Percent)
}

// differing says what the answers of a shadow came to.
func differing(n, of uint64) string { return fmt.Sprintf("%d of %d answers differ", n, of) }

// keyLines are the lines of keys, those first that do most.
func keyLines(list []Key, names int) (out []string) {
	if len(list) == 0 {
		return nil
	}
	out = append(out, "", fmt.Sprintf("%s %8s %8s %14s %14s %14s", cell("KEY", names), "REQUESTS", "RUNNING",
		"PROMPT TOKENS", "TOKENS", "UNSEEN"))
	busiest := slices.Clone(list)
	slices.SortStableFunc(busiest, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Running, a.Running), cmp.Compare(b.Generated, a.Generated))
	})
	for _, k := range busiest {
		name := "(none)"
		if k.Name != nil {
			name = *k.Name
		}
		out = append(out, fmt.Sprintf("%s %8d %8d %14d %14d %14d", cell(name, names), k.Requests, k.Running, k.Prompt,
			k.Generated, k.Unseen))
	}
	return out
}

// within returns lines without what there is no room for.
func within(lines []string, columns, rows int) []string {
	if len(lines) > rows {
		lines = append(lines[:max(rows-1, 0)], fmt.Sprintf("… %d more lines; --once shows all", len(lines)-rows+1))
	}
	for i := range lines {
		lines[i] = fit(lines[i], columns)
	}
	return lines
}

// ascii takes the place of the characters that lines are drawn with, for terminals that show no others; names of models
// and keys stay.
var ascii = strings.NewReplacer("█", "#", "░", ".", "…", "~", "µ", "u")

// model is a model's line.
func model(m admin.LiveModel, names int) string {
	cache, rates := "-", fmt.Sprintf("%9s %9s %8s %6s", "-", "-", "-", "-")
	if c := m.Cache; c != nil && c.Total > 0 {
		used := share(c.Used, c.Total)
		cache = bar(used) + fmt.Sprintf(" %3.0f%%", 100*used)
	}
	if r := m.Rates; r != nil {
		hits := "-"
		if r.Hits != nil {
			hits = fmt.Sprintf("%.0f%%", 100**r.Hits)
		}
		rates = fmt.Sprintf("%9.1f %9.1f %6.1fms %6s", r.Prefill, r.Generated, 1e3*r.StepTime, hits)
	}
	return fmt.Sprintf("%s %s %7d %7d %6d %-15s %s", cell(m.ID, names), cell(m.State, 8), m.Waiting, m.Running,
		m.Parked, cache, rates)
}

// memory is the line of the server's memory.
func memory(m admin.LiveMemory) string {
	text := fmt.Sprintf("memory %s  free %s  models %s of %s  plugins %s of %s", size(m.Resident), size(m.Free),
		size(m.Models), size(m.ModelsLimit), size(m.Plugins), size(m.PluginsLimit))
	if m.Device != "" {
		text += fmt.Sprintf("  %s %s free of %s", word(m.Device, 12), size(m.DeviceFree), size(m.DeviceTotal))
	}
	return text
}

// omitted says how many lines the server left out.
func omitted(out []string, n int) []string {
	if n > 0 {
		return append(out, fmt.Sprintf("and %d more", n))
	}
	return out
}

// share is a part, between 0 and 1.
func share(part, whole int) float64 { return min(max(float64(part)/float64(whole), 0), 1) }

// bar draws a share in ten characters.
func bar(share float64) string {
	n := int(math.Round(10 * share))
	return strings.Repeat("█", n) + strings.Repeat("░", 10-n)
}

// size is a number of bytes for people.
func size(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if math.Abs(value) < 1000 {
			break
		}
		value, unit = value/1000, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// word is a text of the server that takes at most n columns and that no terminal obeys.
func word(text string, n int) string { return fit(terminal.Line(terminal.Cut(text, 8*n)), n) }

// cell is a word that takes exactly n columns.
func cell(text string, n int) string {
	w := word(text, n)
	return w + strings.Repeat(" ", n-columnsOf(w))
}

// fit cuts a line that takes more columns.
func fit(line string, columns int) string {
	if columnsOf(line) <= columns {
		return line
	}
	taken := 1 // for the ellipsis
	for i, r := range line {
		if taken += runeColumns(r); taken > columns {
			return line[:i] + "…"
		}
	}
	return line
}

// columnsOf is how many columns of a terminal a line takes.
func columnsOf(line string) (n int) {
	for _, r := range line {
		n += runeColumns(r)
	}
	return n
}

// runeColumns is how many columns a character takes: letters of Chinese, Japanese and Korean take two, marks above
// others none.
func runeColumns(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}
