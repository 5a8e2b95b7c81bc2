package catalog

import (
	"slices"
	"strings"

	"tgi/models/library"
	"tgi/models/library/lifecycle"
	"tgi/server/config"
	"tgi/server/host"
)

// Model is one model that could be served.
type Model struct {
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

// Models returns the models folder, and by id what lies in it and what cfg declares.
func Models(cfg config.Config) (folder string, list []Model, err error) {
	lib, err := host.OpenLibrary(cfg)
	if err != nil {
		return "", nil, err
	}
	there, err := lib.List()
	if err != nil {
		return "", nil, err
	}
	for _, m := range there {
		list = append(list, listed(lib, m))
	}
	for _, m := range cfg.All() {
		id := library.ID(m.Name)
		at := slices.IndexFunc(list, func(l Model) bool { return l.ID == id })
		if at < 0 {
			at = len(list)
			list = append(list, Model{ID: id, State: lifecycle.NotDownloaded, Partial: lib.Partial(id),
				Source: m.ShownSource()})
		}
		list[at].Declared = true
	}
	slices.SortFunc(list, func(a, b Model) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for i := range list {
		list[i].Default = string(list[i].ID) == cfg.DefaultModel()
	}
	return lib.Dir(), list, nil
}

// listed describes a model that is there.
func listed(lib *library.Library, m library.Model) Model {
	l := Model{ID: m.ID, State: lifecycle.Downloaded, Dir: m.Dir}
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
