package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tgi/server"
	"tgi/server/generate"
)

// Version is a version of a plugin that is kept.
type Version struct {
	// SHA256 of the module, Version its own word, Bytes its size.
	SHA256  string `json:"sha256"`
	Version string `json:"version"`
	Bytes   int64  `json:"bytes,omitempty"`
	// Uploaded is when it came.
	Uploaded time.Time `json:"uploaded,omitzero"`
	// Serving is true for the one that requests get. Where that is none, Error says of the latest why.
	Serving bool   `json:"serving"`
	Error   string `json:"error,omitempty"`
	// Apply and OnError are as they were uploaded.
	Apply   string `json:"apply"`
	OnError string `json:"on_error"`
	// Settings are these, and those that are no default, by the key of a query.
	Settings map[string]string `json:"settings,omitempty"`
	// SettingsID tells settings apart: versions of one module are SHA256.SettingsID in a rollback.
	SettingsID string `json:"settings_id,omitempty"`
}

// Trial is what an upload with dry_run comes to.
type Trial struct {
	// DryRun is true: nothing was changed.
	DryRun bool `json:"dry_run"`
	// Plugin is what would be listed.
	Plugin server.Plugin `json:"plugin"`
	// Models that would have it.
	Models []string `json:"models"`
	// Replaces is what has the name now, nil for nothing.
	Replaces *Version `json:"replaces,omitempty"`
	// Settings are how it would be used, beside how what it replaces is used.
	Settings []UseSetting `json:"settings"`
	// Refuses is why the plugin refuses a request without parameters, "" if it does not.
	Refuses string `json:"refuses,omitempty"`
}

// LogLine is one line of a plugin.
type LogLine struct {
	// Seq counts the lines of all plugins: it is what a query gives as after.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// Level is debug, info, warn or error.
	Level string `json:"level"`
	// Of is guest for what the module printed, host for what the server says of it.
	Of string `json:"of"`
	// Trial is canary or shadow for a line of such a version, which does not serve.
	Trial string `json:"trial,omitempty"`
	Text  string `json:"text"`
}

func (a *API) try(w http.ResponseWriter, r *http.Request, name string, s Settings) error {
	wasm, signed, err := a.readModule(r)
	if err != nil {
		return err
	}
	s.Signed = signed
	t, err := a.options.Plugins.Try(r.Context(), name, wasm, s)
	if err != nil {
		return err
	}
	t.Plugin = shown(t.Plugin)
	return server.WriteValue(w, http.StatusOK, t)
}

func (a *API) versions(w http.ResponseWriter, r *http.Request) error {
	list, err := a.options.Plugins.Versions(r.PathValue("name"))
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, map[string][]Version{"versions": list})
}

func (a *API) rollback(w http.ResponseWriter, r *http.Request) error {
	to, err := onlyQuery(r, "to")
	if err != nil {
		return err
	}
	if err := ParseVersionName(to).check(); err != nil {
		return err
	}
	p, err := a.options.Plugins.Rollback(r.Context(), r.PathValue("name"), to)
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, shown(p))
}

func (a *API) log(w http.ResponseWriter, r *http.Request) error {
	text, err := onlyQuery(r, "after")
	if err != nil {
		return err
	}
	after := uint64(0)
	if text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return &generate.Invalid{Msg: fmt.Sprintf("after: %.*q is no whole number", maxValue, text)}
		}
	}
	lines, err := a.options.Plugins.Log(r.PathValue("name"), after)
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, map[string][]LogLine{"lines": lines})
}

// onlyQuery returns the one value that a query may have, "" without it.
func onlyQuery(r *http.Request, key string) (string, error) {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", &generate.Invalid{Msg: "query: " + err.Error()}
	}
	for name, values := range given {
		switch {
		case name != key:
			return "", &generate.Invalid{Msg: fmt.Sprintf("unknown query member %.*q; the route takes %s", maxValue, name,
				key)}
		case len(values) > 1:
			return "", &generate.Invalid{Msg: fmt.Sprintf("%s is given %d times", key, len(values))}
		}
	}
	return given.Get(key), nil
}
