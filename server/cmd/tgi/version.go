package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// newVersion prints the version.
func newVersion() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: takesNothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !out.json {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "tgi", versionText())
				return err
			}
			return printJSON(cmd.OutOrStdout(), struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{version, runtime.Version(), runtime.GOOS, runtime.GOARCH})
		},
	}
	out.flag(cmd)
	return cmd
}
