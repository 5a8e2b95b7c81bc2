package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"tgi/models/library"
	"tgi/models/library/progress"
	"tgi/server/config"
	"tgi/server/host"
)

// newModelRemove deletes a model of the folder, and what is left of a pull of it.
func newModelRemove() *cobra.Command {
	var flags *config.Flags
	cmd := &cobra.Command{
		Use: "rm ID", Short: "Delete a model, or what is left of a pull that was broken off",
		Args: takesOne("model rm takes one id, got %d"),
		RunE: func(cmd *cobra.Command, words []string) error {
			cfg, err := readSettings(flags)
			if err != nil {
				return err
			}
			id, err := library.ParseID(words[0])
			if err != nil {
				return usageError(err.Error())
			}
			return modelRemove(cfg, id, cmd.OutOrStdout())
		},
	}
	flags = withSettings(cmd)
	cmd.ValidArgsFunction = installedModels(flags)
	return cmd
}

func modelRemove(cfg config.Config, id library.ID, stdout io.Writer) error {
	if err := undeclared(cfg, id); err != nil {
		return err
	}
	lib, err := host.OpenLibrary(cfg)
	if err != nil {
		return err
	}
	what, freed := "what was fetched of "+string(id), lib.Partial(id)
	if m, err := lib.Find(id); err == nil {
		what = string(id)
		freed += folderSize(m.Dir)
	}
	if err := lib.Delete(id); err != nil {
		if errors.Is(err, library.ErrInUse) {
			return fmt.Errorf("%w: stop it there first", err)
		}
		return err
	}
	_, err = fmt.Fprintf(stdout, "removed %s, %s freed\n", what, progress.Bytes(freed))
	return err
}

// undeclared refuses a model that the settings name: the next start of the server
// would miss it, or fetch it again.
func undeclared(cfg config.Config, id library.ID) error {
	for _, m := range cfg.All() {
		switch {
		case m.Name != string(id):
		case m.Demo():
			return fmt.Errorf("model %s: it is part of the program", id)
		default:
			return fmt.Errorf("model %s: %w %s: take it out there first", id, library.ErrDeclared, cfg.File)
		}
	}
	return nil
}

// folderSize adds up the files below dir. Links count nothing: what they point to
// stays.
func folderSize(dir string) (sum int64) {
	// What cannot be read is not counted; deleting it says why.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				sum += st.Size()
			}
		}
		return nil
	})
	return sum
}
