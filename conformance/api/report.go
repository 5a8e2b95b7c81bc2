package api

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// ListedCase is a case as a list of the table shows it.
type ListedCase struct {
	ID       string   `json:"id"`
	Rule     string   `json:"rule"`
	Source   string   `json:"source"`
	NotOfTGI bool     `json:"not_kept_by_tgi,omitempty"`
	Dialects []string `json:"dialects,omitempty"` // all without any
}

// Matching returns which cases the patterns accept, as path.Match reads them; none accept all. unused is a pattern that
// fits no case, if there is one.
func Matching(patterns []string) (accept func(id string) bool, unused string) {
	fits := func(pattern, id string) bool {
		ok, _ := path.Match(pattern, id)
		return ok
	}
	for _, pattern := range patterns {
		if !slices.ContainsFunc(Cases(), func(one Case) bool { return fits(pattern, one.ID) }) {
			return nil, pattern
		}
	}
	return func(id string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return fits(p, id) })
	}, ""
}

// List returns the cases whose id only accepts, in the order of the table.
func List(only func(id string) bool) []ListedCase {
	cases := []ListedCase{}
	for _, one := range Cases() {
		if only(one.ID) {
			cases = append(cases, ListedCase{one.ID, one.Rule, one.Source, one.This, one.Dialects})
		}
	}
	return cases
}

// WriteList writes a line for each case.
func WriteList(w io.Writer, cases []ListedCase) error {
	for _, one := range cases {
		about := one.Source
		if one.NotOfTGI {
			about += "; not kept by TGI itself"
		}
		if one.Dialects != nil {
			about += "; in " + strings.Join(one.Dialects, " and ")
		}
		if _, err := fmt.Fprintf(w, "%-26s %s (%s)\n", one.ID, one.Rule, about); err != nil {
			return err
		}
	}
	return nil
}

// WriteText writes the violations of the server at url, what was skipped, and a line that sums up.
func (r Report) WriteText(w io.Writer, url string) error {
	kind := "TGI itself"
	if r.This {
		kind = "this server"
	}
	skipped := 0
	for _, one := range r.Results {
		for _, v := range one.Violations {
			fmt.Fprintf(w, "%s: %s\n  rule    %s\n  source  %s\n", v.ID, v.Detail, v.Rule, v.Source)
			if v.Transcript != "" {
				fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(strings.TrimRight(v.Transcript, "\n"), "\n", "\n  "))
			}
			fmt.Fprintln(w)
		}
		if one.Skipped != "" {
			skipped++
			fmt.Fprintf(w, "left out %s: %s\n", one.Case.ID, one.Skipped)
		}
	}
	_, err := fmt.Fprintf(w, "%s, %s in the dialect %s: %s, %d left out, %s\n", url, kind, r.Dialect,
		counted(len(r.Results)-skipped, "case"), skipped, counted(len(r.Violations()), "violation"))
	return err
}

// counted writes a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// jsonCase is a case in the JSON report.
type jsonCase struct {
	ID         string          `json:"id"`
	Rule       string          `json:"rule"`
	Source     string          `json:"source"`
	LeftOut    string          `json:"left_out,omitempty"`
	Violations []jsonViolation `json:"violations,omitempty"`
}

type jsonViolation struct {
	Detail     string `json:"detail"`
	Transcript string `json:"transcript,omitempty"`
}

// JSON returns what the report on the server at url is as JSON.
func (r Report) JSON(url string) any {
	out := struct {
		URL        string     `json:"url"`
		TGI        bool       `json:"tgi_itself"`
		Dialect    string     `json:"dialect"`
		Violations int        `json:"violations"`
		Cases      []jsonCase `json:"cases"`
	}{URL: url, TGI: !r.This, Dialect: r.Dialect, Violations: len(r.Violations())}
	for _, one := range r.Results {
		c := jsonCase{ID: one.Case.ID, Rule: one.Case.Rule, Source: one.Case.Source, LeftOut: one.Skipped}
		for _, v := range one.Violations {
			c.Violations = append(c.Violations, jsonViolation{v.Detail, v.Transcript})
		}
		out.Cases = append(out.Cases, c)
	}
	return out
}
