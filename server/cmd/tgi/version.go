package main

import (
	"debug/elf"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// buildID is what the linker called this program, by all that is in it; "" where the file does not tell.
func buildID() string {
	path, err := os.Executable()
	if runtime.GOOS == "linux" { // also where the file was replaced meanwhile
		path, err = "/proc/self/exe", nil
	}
	if err != nil {
		return ""
	}
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const head = 16 // lengths, type and owner of the note
	if s := f.Section(".note.go.buildid"); s != nil {
		if note, err := s.Data(); err == nil && len(note) > head {
			return string(note[head:])
		}
	}
	return ""
}

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
