package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tgi/server/api/admin"
	"tgi/server/client/terminal"
)

// Lines returns a reading as at most rows lines of at most columns characters.
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
	out = append(out, "", fmt.Sprintf("%-28s %-8s %7s %7s %6s  %-16s %9s %9s %8s %6s", "MODEL", "STATE", "WAITING",
		"RUNNING", "PARKED", "CACHE", "PROMPT/S", "TOKENS/S", "STEP", "HITS"))
	for _, m := range l.Models {
		out = append(out, model(m))
	}
	out = omitted(out, l.OmittedModels)
	if len(l.Plugins) > 0 {
		out = append(out, "", fmt.Sprintf("%-28s %-12s %-8s %10s %10s %8s %8s %9s", "PLUGIN", "VERSION", "STATE",
			"CALLS", "µS/CALL", "FAULTS", "SKIPS", "INSTANCES"))
		busiest := slices.Clone(l.Plugins)
		slices.SortStableFunc(busiest, func(a, b admin.LivePlugin) int { return cmp.Compare(b.Seconds, a.Seconds) })
		for _, p := range busiest {
			perCall := 1e6 * p.Seconds / max(float64(p.Calls), 1)
			out = append(out, fmt.Sprintf("%-28s %-12s %-8s %10d %10.1f %8d %8d %9d", word(p.Name, 28),
				word(p.Version, 12), word(p.State, 8), p.Calls, perCall, p.Faults, p.Skips, p.Instances))
		}
		out = omitted(out, l.OmittedPlugins)
	}
	if len(r.Keys) > 0 {
		out = append(out, "", fmt.Sprintf("%-28s %8s %8s %14s %14s", "KEY", "REQUESTS", "RUNNING", "PROMPT TOKENS",
			"TOKENS"))
		busiest := slices.Clone(r.Keys)
		slices.SortStableFunc(busiest, func(a, b Key) int {
			return cmp.Or(cmp.Compare(b.Running, a.Running), cmp.Compare(b.Generated, a.Generated))
		})
		for _, k := range busiest {
			name := "(none)"
			if k.Name != nil {
				name = *k.Name
			}
			out = append(out, fmt.Sprintf("%-28s %8d %8d %14d %14d", word(name, 28), k.Requests, k.Running, k.Prompt,
				k.Generated))
		}
	}
	if len(out) > rows {
		out = append(out[:max(rows-1, 0)], fmt.Sprintf("… %d more lines; --once shows all", len(out)-rows+1))
	}
	for i := range out {
		out[i] = fit(out[i], columns)
	}
	return out
}

// model is a model's line.
func model(m admin.LiveModel) string {
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
	return fmt.Sprintf("%-28s %-8s %7d %7d %6d  %-16s %s", word(m.ID, 28), word(m.State, 8), m.Waiting, m.Running,
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

// word is a text of the server in at most n characters that no terminal obeys.
func word(text string, n int) string { return fit(terminal.Line(text[:min(len(text), 8*n)]), n) }

// fit cuts a line after so many characters.
func fit(line string, columns int) string {
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	runes := []rune(line)
	return string(runes[:max(columns-1, 0)]) + "…"
}
