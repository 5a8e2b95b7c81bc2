package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"tgi/server/client/terminal"

	"github.com/spf13/cobra"
)

// output is the form of what a command prints. It implements pflag.Value.
type output struct{ json bool }

// flag adds --output, and --json for short.
func (o *output) flag(cmd *cobra.Command) {
	set := cmd.Flags()
	set.Var(o, "output", "`format`: text or json")
	set.BoolVar(&o.json, "json", false, "short for --output json")
	complete(cmd, "output", "text", "json")
}

// String implements pflag.Value.
func (o *output) String() string {
	if o.json {
		return "json"
	}
	return "text"
}

// Set implements pflag.Value.
func (o *output) Set(text string) error {
	if text != "text" && text != "json" {
		return fmt.Errorf("want text or json")
	}
	o.json = text == "json"
	return nil
}

// Type implements pflag.Value.
func (o *output) Type() string { return "string" }

// printJSON writes one line, with < and > as they are.
func printJSON(w io.Writer, v any) error {
	return encode(w, v, "")
}

// printIndented writes JSON that is also read by people.
func printIndented(w io.Writer, v any) error {
	return encode(w, v, "  ")
}

// encode writes JSON that a terminal obeys nothing of.
func encode(w io.Writer, v any, indent string) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, terminal.JSON(b.String()))
	return err
}
