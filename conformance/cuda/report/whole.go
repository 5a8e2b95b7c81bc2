package report

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Runner runs one part, whose text goes to w. Its time is over when ctx's is.
type Runner func(ctx context.Context, w io.Writer, part string) Result

// Whole writes a report of the named parts to w, within a time. Each part has its share of what the parts before it
// have left. A part that fails does not end the report, but the first, without which there is no device to ask.
func Whole(ctx context.Context, w io.Writer, names []string, budget time.Duration, run Runner) (Result, error) {
	var all Result
	began := time.Now()
	out := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	out("# CUDA, %s", began.UTC().Format(time.DateOnly))
	left := totalShare(names)
	for _, p := range parts {
		if !slices.Contains(names, p.name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return all, err
		}
		out("\n## %s\n", strings.ToUpper(p.name[:1])+p.name[1:])
		from, most := time.Now(), time.Duration(float64(budget-time.Since(began))*p.share/left)
		left -= p.share
		if most < time.Second {
			out("**Out of time, left out**")
			all.Cut = append(all.Cut, p.name)
			continue
		}
		within, stop := context.WithTimeout(ctx, most)
		result := run(within, w, p.name)
		stop()
		all.add(result)
		out("\n_%.1f s of at most %.1f_", time.Since(from).Seconds(), most.Seconds())
		if p.name == deviceName && len(result.Failed) > 0 {
			break
		}
	}
	all.summary(out, time.Since(began), budget)
	return all, ctx.Err()
}

// totalShare adds up the shares of parts.
func totalShare(names []string) (sum float64) {
	for _, p := range parts {
		if slices.Contains(names, p.name) {
			sum += p.share
		}
	}
	return sum
}

// summary ends the report.
func (r *Result) summary(out func(string, ...any), took, budget time.Duration) {
	out("\n## Summary\n\n%d checks, %d failed, %d cut, in %.0f of %.0f s", r.Checks, len(r.Failed), len(r.Cut),
		took.Seconds(), budget.Seconds())
	for _, f := range r.Failed {
		out("- FAILED %s", f)
	}
	for _, c := range r.Cut {
		out("- cut %s", c)
	}
}
