package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tgi/models/library"
	"tgi/models/library/lifecycle"
	"tgi/server/config"
	"tgi/server/host"
)

// listedModel is one model as `tgi model list` knows it.
type listedModel struct {
	ID library.ID `json:"id"`
	// State is one of lifecycle's that need no server: not_downloaded, downloaded, error.
	State lifecycle.State `json:"state"`
	// Error says why it cannot be served.
	Error string `json:"error,omitempty"`
	// Declared says that the settings name it, Default that requests without a
	// model mean it.
	Declared bool `json:"declared"`
	Default  bool `json:"default"`
	// Bytes is the size of its files, Partial what is here of one that is not
	// fetched to its end.
	Bytes   int64 `json:"bytes"`
	Partial int64 `json:"partial_bytes,omitempty"`
	Files   int   `json:"files"`
	// Parameters is 0 where that is not known.
	Parameters   int64          `json:"parameters"`
	Context      int            `json:"context"`
	Architecture string         `json:"architecture,omitempty"`
	Format       library.Format `json:"format,omitempty"`
	DTypes       []string       `json:"dtypes,omitempty"`
	// Dir is its folder; none for one that is embedded or not here.
	Dir string `json:"dir,omitempty"`
	// Source is where it was fetched from, or would be.
	Source   string `json:"source,omitempty"`
	Revision string `json:"revision,omitempty"`
}

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
	lib, err := host.OpenLibrary(cfg)
	if err != nil {
		return err
	}
	list, err := listModels(cfg, lib)
	if err != nil {
		return err
	}
	if !out.json {
		return writeModels(stdout, lib.Dir(), list)
	}
	return printIndented(stdout, struct {
		Folder string        `json:"folder"`
		Models []listedModel `json:"models"`
	}{lib.Dir(), list})
}

// listModels returns what lies in the folder and what cfg declares, by id.
func listModels(cfg config.Config, lib *library.Library) ([]listedModel, error) {
	there, err := lib.List()
	if err != nil {
		return nil, err
	}
	var list []listedModel
	for _, m := range there {
		list = append(list, listed(lib, m))
	}
	for _, m := range cfg.All() {
		id := library.ID(m.Name)
		at := slices.IndexFunc(list, func(l listedModel) bool { return l.ID == id })
		if at < 0 {
			at = len(list)
			list = append(list, listedModel{ID: id, State: lifecycle.NotDownloaded, Partial: lib.Partial(id), Source: m.ShownSource()})
		}
		list[at].Declared = true
	}
	slices.SortFunc(list, func(a, b listedModel) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for i := range list {
		list[i].Default = string(list[i].ID) == cfg.DefaultModel()
	}
	return list, nil
}

// listed describes a model that is there.
func listed(lib *library.Library, m library.Model) listedModel {
	l := listedModel{ID: m.ID, State: lifecycle.Downloaded, Dir: m.Dir}
	info, err := lib.Describe(m.ID)
	if err != nil {
		l.State, l.Error = lifecycle.Error, err.Error()
		return l
	}
	l.Bytes, l.Files, l.Parameters, l.Context = info.Bytes, info.Files, info.Parameters, info.Context
	l.Architecture, l.Format, l.DTypes = info.Architecture, info.Format, info.DTypes
	if o := info.Origin; o != nil {
		l.Source, l.Revision = o.Source, o.Revision
	}
	return l
}

// writeModels writes the table. What is wrong with a model stands below it.
func writeModels(w io.Writer, folder string, list []listedModel) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSIZE\tPARAMETERS\tCONTEXT\tWEIGHTS\tSTATE\tFROM")
	for _, l := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, sizeCell(l), countText(l.Parameters), contextCell(l), weightsCell(l), stateCell(l), fromCell(l))
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

func sizeCell(l listedModel) string {
	if l.Files == 0 {
		return "-"
	}
	return bytesText(l.Bytes)
}

func contextCell(l listedModel) string {
	if l.Context == 0 {
		return "-"
	}
	return fmt.Sprint(l.Context)
}

func weightsCell(l listedModel) string {
	if l.Format == "" {
		return "-"
	}
	return strings.Join(append([]string{string(l.Format)}, l.DTypes...), " ")
}

func stateCell(l listedModel) string {
	state := string(l.State)
	if l.Partial > 0 {
		state += fmt.Sprintf(", %s are here", bytesText(l.Partial))
	}
	if l.Default {
		state += ", default"
	}
	return state
}

// shownRevision is how much of a commit is shown, as git does.
const shownRevision = 12

func fromCell(l listedModel) string {
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
