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
	"tgi/server/config"
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
	accept, pattern := api.Matching(c.only)
	switch {
	case pattern != "":
		return misused("--only %s fits no case; --list shows them", pattern)
	case c.list:
		return c.printCases(stdout, accept)
	case !strings.HasPrefix(c.target.URL, "http://") && !strings.HasPrefix(c.target.URL, "https://"):
		return misused("conformance needs --url, such as http://127.0.0.1:3000, given %q",
			config.Shown(c.target.URL))
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
		err = printJSON(stdout, report.JSON(config.Shown(c.target.URL)))
	} else {
		err = report.WriteText(stdout, config.Shown(c.target.URL))
	}
	if err == nil && len(report.Violations()) > 0 {
		return errReported
	}
	return err
}

func (c *conforming) printCases(stdout io.Writer, accept func(string) bool) error {
	cases := api.List(accept)
	if c.output.json {
		return printIndented(stdout, cases)
	}
	return api.WriteList(stdout, cases)
}
