package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tgi/models/library/lifecycle"
	"tgi/models/library/progress"
	"tgi/server/config"
	"tgi/server/host/catalog"
)

// newModelList shows the models folder and what the settings declare.
func newModelList() *cobra.Command {
	var out output
	var flags *config.Flags
	cmd := &cobra.Command{
		Use: "list [flags]", Aliases: []string{"ls"}, Short: "List the models of the folder and of the settings",
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) > 0 {
				return misused("model list takes no %q; `tgi model info %s` describes one model", words[0], words[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := readSettings(flags)
			if err != nil {
				return err
			}
			return modelList(cfg, cmd.OutOrStdout(), out)
		},
	}
	out.flag(cmd)
	flags = withSettings(cmd)
	return cmd
}

func modelList(cfg config.Config, stdout io.Writer, out output) error {
	folder, list, err := catalog.Models(cfg)
	if err != nil {
		return err
	}
	if !out.json {
		return writeModels(stdout, folder, list)
	}
	return printIndented(stdout, struct {
		Folder string          `json:"folder"`
		Models []catalog.Model `json:"models"`
	}{folder, list})
}

// writeModels writes the table. What is wrong with a model stands below it.
func writeModels(w io.Writer, folder string, list []catalog.Model) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSIZE\tPARAMETERS\tCONTEXT\tWEIGHTS\tSTATE\tFROM")
	for _, l := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, sizeCell(l), countText(l.Parameters), contextCell(l),
			weightsCell(l), stateCell(l), fromCell(l))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range list {
		if l.Error != "" {
			fmt.Fprintf(w, "%s\n", l.Error)
		}
	}
	_, err := fmt.Fprintf(w, "models folder: %s\n", folder)
	return err
}

func sizeCell(l catalog.Model) string {
	if l.Files == 0 {
		return "-"
	}
	return progress.Bytes(l.Bytes)
}

func contextCell(l catalog.Model) string {
	if l.Context == 0 {
		return "-"
	}
	return fmt.Sprint(l.Context)
}

func weightsCell(l catalog.Model) string {
	if l.Format == "" {
		return "-"
	}
	return strings.Join(append([]string{string(l.Format)}, l.DTypes...), " ")
}

func stateCell(l catalog.Model) string {
	state := string(l.State)
	if l.Partial > 0 {
		state += fmt.Sprintf(", %s are here", progress.Bytes(l.Partial))
	}
	if l.Default {
		state += ", default"
	}
	return state
}

// shownRevision is how much of a commit is shown, as git does.
const shownRevision = 12

func fromCell(l catalog.Model) string {
	switch {
	case l.Revision != "":
		return l.Source + "@" + l.Revision[:min(len(l.Revision), shownRevision)]
	case l.Source != "":
		return l.Source
	case l.Dir != "":
		return l.Dir
	case l.State == lifecycle.Downloaded:
		return "embedded"
	}
	return "-"
}
