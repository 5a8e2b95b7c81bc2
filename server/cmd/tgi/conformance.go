package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tgi/conformance/api"
)

// conforming is what the flags of conformance say.
type conforming struct {
	target api.Target
	only   []string
	files  []string // OpenAPI documents
	list   bool
	output output
}

// newConformance holds a server to the rules of its API.
func newConformance() *cobra.Command {
	c := &conforming{}
	cmd := &cobra.Command{
		Use: "conformance --url URL", Short: "Check a server against the API of TGI and of OpenAI", Args: takesNothing,
		Long: `Check that a server behaves as text-generation-inference and OpenAI's API do. It sends some hundred requests,
a few long ones among them. It works on TGI itself too.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return c.run(ctx, cmd.OutOrStdout())
		},
	}
	dialects := []string{api.TGI06, api.TGI22, api.TGI3}
	set := cmd.Flags()
	set.StringVar(&c.target.URL, "url", "", "the server's `address`, such as http://127.0.0.1:3000")
	set.StringVar(&c.target.Dialect, "dialect", api.TGI3, "`dialect` that it must speak: "+strings.Join(dialects, ", "))
	set.StringVar(&c.target.Key, "key", "", "its bearer `key`; without one the cases about keys are left out")
	set.StringVar(&c.target.AdminKey, "admin-key", "",
		"its administrators' bearer `key`; with one, a model that is not the default is stopped and started")
	set.DurationVar(&c.target.Timeout, "timeout", time.Minute, "how long one case may take")
	set.Func("only", "cases to check, as `patterns` with * and commas between them, such as 'chat-*,info'",
		func(s string) error {
			for one := range strings.SplitSeq(s, ",") {
				if _, err := path.Match(one, ""); err != nil {
					return fmt.Errorf("%q: %w", one, err)
				}
				c.only = append(c.only, one)
			}
			return nil
		})
	set.StringArrayVar(&c.files, "openapi", nil,
		"an OpenAPI `file` that replies must fit as well; may be given several times")
	set.BoolVar(&c.list, "list", false, "print the cases and check nothing")
	c.output.flag(cmd)
	complete(cmd, "dialect", dialects...)
	return cmd
}

// run checks the server and prints the report; errReported says that it has violations.
func (c *conforming) run(ctx context.Context, stdout io.Writer) error {
	accept, err := c.accept()
	switch {
	case err != nil:
		return err
	case c.list:
		return c.printCases(stdout, accept)
	case c.target.URL == "":
		return misused("conformance needs --url")
	}
	for _, file := range c.files {
		d, err := api.ReadDocument(file)
		if err != nil {
			return err
		}
		c.target.Documents = append(c.target.Documents, d)
	}
	report, err := api.Run(ctx, c.target, accept)
	if err != nil {
		return err
	}
	if c.output.json {
		err = printJSON(stdout, jsonReport(c.target.URL, report))
	} else {
		printReport(stdout, c.target.URL, report)
	}
	if err == nil && len(report.Violations()) > 0 {
		return errReported
	}
	return err
}

// accept returns which cases are wanted. Patterns that fit none are mistakes.
func (c *conforming) accept() (func(id string) bool, error) {
	for _, pattern := range c.only {
		found := false
		for _, one := range api.Cases() {
			ok, _ := path.Match(pattern, one.ID) // the flag checked it
			found = found || ok
		}
		if !found {
			return nil, misused("--only %s fits no case; --list shows them", pattern)
		}
	}
	return func(id string) bool {
		for _, pattern := range c.only {
			if ok, _ := path.Match(pattern, id); ok {
				return true
			}
		}
		return len(c.only) == 0
	}, nil
}

// listedCase is a case as --list prints it.
type listedCase struct {
	ID       string   `json:"id"`
	Rule     string   `json:"rule"`
	Source   string   `json:"source"`
	NotOfTGI bool     `json:"not_kept_by_tgi,omitempty"`
	Dialects []string `json:"dialects,omitempty"` // all without any
}

func (c *conforming) printCases(w io.Writer, accept func(string) bool) error {
	cases := []listedCase{}
	for _, one := range api.Cases() {
		if accept(one.ID) {
			cases = append(cases, listedCase{one.ID, one.Rule, one.Source, one.This, one.Dialects})
		}
	}
	if c.output.json {
		return printIndented(w, cases)
	}
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

func printReport(w io.Writer, url string, r api.Report) {
	kind := "TGI itself"
	if r.This {
		kind = "this server"
	}
	left := 0
	for _, one := range r.Results {
		for _, v := range one.Violations {
			fmt.Fprintf(w, "%s: %s\n  rule    %s\n  source  %s\n", v.ID, v.Detail, v.Rule, v.Source)
			if v.Transcript != "" {
				fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(strings.TrimRight(v.Transcript, "\n"), "\n", "\n  "))
			}
			fmt.Fprintln(w)
		}
		if one.Skipped != "" {
			left++
			fmt.Fprintf(w, "left out %s: %s\n", one.Case.ID, one.Skipped)
		}
	}
	fmt.Fprintf(w, "%s, %s in the dialect %s: %s, %d left out, %s\n", url, kind, r.Dialect, count(len(r.Results)-left,
		"case", "cases"), left, count(len(r.Violations()), "violation", "violations"))
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

func jsonReport(url string, r api.Report) any {
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
