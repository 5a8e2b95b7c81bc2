package check

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteTables writes the report for people.
func (r *BenchReport) WriteTables(w io.Writer) error {
	fmt.Fprintf(w, "%s, a vocabulary of %d tokens; fuel 1 is about 0.2 ns\n\n", r.Name, r.Vocabulary)
	if err := writeSeries(w, append(r.Load, r.Baseline...)); err != nil {
		return err
	}
	for _, run := range r.Runs {
		fmt.Fprintf(w, "\nparameters %s\n", run.Params)
		if len(run.Calls) > 0 {
			if err := writeSeries(w, run.Calls); err != nil {
				return err
			}
		}
		for _, m := range run.Masks {
			fmt.Fprintf(w, "%s: %.4g steps a second, a mask and an accepted token each\n", m.Language, m.PerSecond)
		}
		if p := run.Program; p != nil {
			fmt.Fprintf(w, "a text behind %d tokens of prompt: %d tokens generated, %d computed, %d emitted\n"+
				"no model ran: words were made up, so times are those of the program and the host alone\n", p.Prompt,
				p.Generated, p.Computed, p.Emitted)
		}
		if run.Forced > 0 {
			fmt.Fprintf(w, "%d steps took a forced token without a call\n", run.Forced)
		}
		switch {
		case run.Grown > 0:
			fmt.Fprintf(w, "memory %s, and %s more at the end of a sequence: such an instance is not used again\n",
				sizeText(run.Memory), sizeText(run.Grown))
		case run.Memory > 0:
			fmt.Fprintf(w, "memory %s, does not grow\n", sizeText(run.Memory))
		}
		if run.Fault != "" {
			fmt.Fprintf(w, "stopped: %s\n", run.Fault)
		}
	}
	return nil
}

// writeSeries writes a table of calls.
func writeSeries(w io.Writer, list []Series) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "call\tcount\tp50\tp99\tin the guest p50\tp99\tfuel p50\tp99\tof limit\t")
	for _, s := range list {
		share := ""
		if s.Budget > 0 {
			share = fmt.Sprintf("%.2g%%", 100*float64(s.FuelP50)/float64(s.Budget))
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.Name, s.Count,
			durationText(s.P50), durationText(s.P99), durationText(s.GuestP50), durationText(s.GuestP99),
			fuelText(s, s.FuelP50), fuelText(s, s.FuelP99), share)
	}
	return tw.Flush()
}

// fuelText returns "" if the fuel was not measured.
func fuelText(s Series, n int64) string {
	if s.Budget == 0 && n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// durationText returns three digits: 181ns, 12.3us, 1.05ms; nothing for 0.
func durationText(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Microsecond:
		return fmt.Sprintf("%dns", d)
	case d < time.Millisecond:
		return fmt.Sprintf("%.3gus", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3gms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3gs", d.Seconds())
}

// sizeText returns a size in the largest unit that divides it.
func sizeText(n int) string {
	for _, u := range []struct {
		suffix string
		shift  int
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n&(1<<u.shift-1) == 0 {
			return fmt.Sprint(n>>u.shift, u.suffix)
		}
	}
	return fmt.Sprint(n, "B")
}
