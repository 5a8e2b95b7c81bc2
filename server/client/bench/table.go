package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, prompts of %d tokens", r.URL, r.PromptTokens)
	if r.SharedPrefix > 0 {
		fmt.Fprintf(&b, " (%d shared)", r.SharedPrefix)
	}
	fmt.Fprintf(&b, ", up to %d new, seed %d\n\n", r.OutputTokens, r.Seed)
	if len(r.Runs) > 0 {
		writeRuns(&b, r.Runs)
	}
	if r.Repeat != nil {
		writeRepeat(&b, r.Repeat)
	}
	if len(r.Beside) > 0 {
		writeBeside(&b, r.Beside)
	}
	if _, err := io.WriteString(w, b.String()); err != nil || r.Plan == nil {
		return err
	}
	return r.Plan.WriteText(w)
}

func writeRuns(b *strings.Builder, runs []Measured) {
	rows := [][]string{
		{"", "", "", "", "", "tokens/s", "", "first token ms", "", "", "inter-token ms", "", "", "end to end ms", "",
			""},
		{"load", "done", "429", "failed", "seconds", "output", "total", "p50", "p90", "p99", "p50", "p90", "p99", "p50",
			"p90", "p99"},
	}
	for _, m := range runs {
		load := strconv.Itoa(m.Concurrency) + " streams"
		if m.Rate > 0 {
			load = strconv.FormatFloat(m.Rate, 'g', 4, 64) + "/s"
		}
		row := []string{
			load,
			strconv.Itoa(m.Completed), strconv.Itoa(m.Rejected), strconv.Itoa(m.Requests - m.Completed - m.Rejected),
			number(m.Seconds), number(m.OutputPerSecond), number(m.TotalPerSecond),
		}
		for _, s := range []Summary{m.FirstToken, m.InterToken, m.EndToEnd} {
			row = append(row, quantiles(s)...)
		}
		rows = append(rows, row)
	}
	writeColumns(b, rows)
	for _, m := range runs {
		for _, kind := range slices.Sorted(maps.Keys(m.Errors)) {
			fmt.Fprintf(b, "%d of %d requests failed: %s\n", m.Errors[kind], m.Requests,
				withReason(kind, m.Reasons[kind]))
		}
	}
}

func writeRepeat(b *strings.Builder, r *Repeated) {
	writeColumns(b, [][]string{
		append([]string{"first token ms"}, "p50", "p90", "p99"),
		append([]string{"first time"}, quantiles(r.Cold)...),
		append([]string{"repeated"}, quantiles(r.Cached)...),
	})
	if r.Failed > 0 {
		fmt.Fprintf(b, "%d of %d requests failed\n", r.Failed, 2*r.Prompts)
	}
}

func quantiles(s Summary) []string {
	if s.Count == 0 {
		return []string{"-", "-", "-"}
	}
	return []string{number(s.P50), number(s.P90), number(s.P99)}
}

// number shows three digits or all before the point.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// writeColumns aligns the first column left and the others right. A heading
// over several columns, which is one followed by empty cells, starts at its
// first column and takes no part in the widths.
func writeColumns(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			if !spans(row, i) {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, row := range rows {
		var line strings.Builder
		start := 0 // of the column
		for i, cell := range row {
			switch {
			case i == 0:
				line.WriteString(cell)
			case spans(row, i):
				pad(&line, start)
				line.WriteString(cell)
			case cell != "":
				pad(&line, start+widths[i]-utf8.RuneCountInString(cell))
				line.WriteString(cell)
			}
			start += widths[i] + 2
		}
		b.WriteString(line.String())
		b.WriteByte('\n')
	}
}

func spans(row []string, i int) bool {
	return i > 0 && row[i] != "" && i+1 < len(row) && row[i+1] == ""
}

// pad fills the line with spaces up to a column.
func pad(line *strings.Builder, column int) {
	for n := utf8.RuneCountInString(line.String()); n < column; n++ {
		line.WriteByte(' ')
	}
}
