package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgi/conformance/long"
	"tgi/server/config"
)

// TestNoArgumentIsTold: whichever command gets a text with a password for an argument or a flag, nothing that it prints
// has it. Flags of settings have a test in server/config.
func TestNoArgumentIsTold(t *testing.T) {
	root := newRoot(console{})
	try := func(words ...string) (text string) {
		t.Chdir(t.TempDir()) // some make files of that name
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var said strings.Builder
		c := console{in: strings.NewReader(""), out: &said, errors: &said}
		code := c.execute(ctx, words)
		if strings.Contains(said.String(), "PASSWORD") {
			t.Errorf("%q: %d %s", words, code, &said)
		}
		return said.String()
	}
	values := []string{"u:1/PASSWORD@127.0.0.1", "http://u:PASSWORD@127.0.0.1:1/x?key=PASSWORD",
		"u:PASSWORD@127.0.0.1", "redis://127.0.0.1:1/PASSWORD"}
	if !long.Enabled() {
		values = values[:1]
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		for _, value := range values {
			if cmd.HasSubCommands() || cmd.Name() == "serve" { // all of whose flags are settings
				try(append(path, value)...)
				continue
			}
			try(append(path, value)...)
			try(append(path, value, value, value)...)
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				setting := f.Annotations[config.FlagVariables] != nil || f.Annotations[config.FlagNoEffect] != nil
				if !setting && f.Name != "generate" { // which makes files of that name, and says so
					words := append(path, "--"+f.Name+"="+value)
					if strings.Contains(try(words...), " takes ") {
						try(append(words, "x")...)
					}
				}
			})
		}
	}
	walk(root)
}
