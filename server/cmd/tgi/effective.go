package main

import (
	"fmt"
	"io"

	"tgi/server/config"
)

// printSettings writes the settings that are in effect as a file of settings:
// each with the place it comes from, keys masked, and below them what was asked
// for and has no effect.
func printSettings(w io.Writer, l config.Loaded) error {
	if err := l.WriteEffective(w); err != nil {
		return fmt.Errorf("print settings: %w", err)
	}
	if len(l.Notices) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range l.Notices {
		fmt.Fprintf(w, "# %s\n", n)
	}
	_, err := fmt.Fprintln(w)
	return err
}
