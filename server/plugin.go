package server

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"tgi/server/config"
)

// States of a Plugin.
const (
	// PluginReady serves requests. Its Error, if any, says why a newer version
	// could not take its place.
	PluginReady = "ready"
	// PluginFailed could not be loaded; Error says why.
	PluginFailed = "failed"
	// PluginLoading is still being loaded, for the first time.
	PluginLoading = "loading"
)

// Plugin is a plugin as /info, the admin routes and the metrics show it: a
// value, made for each caller.
type Plugin struct {
	// Name is what requests call it; no two have the same.
	Name string `json:"name"`
	// Version and Doc are the module's own words.
	Version string `json:"version"`
	Doc     string `json:"doc"`
	// SHA256 of the module, in hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Source is where it came from.
	Source string `json:"source"`
	// Kinds are those that are used of it.
	Kinds []string `json:"kinds"`
	// Languages are those that it reads grammars in; empty for other kinds.
	Languages []string `json:"languages,omitempty"`
	// State is PluginReady, PluginFailed or PluginLoading.
	State string `json:"state"`
	// OffClients is the number of clients for which it is switched off for a while, each because its own requests kept
	// failing with it. A client counts in each model.
	OffClients int `json:"off_clients,omitempty"`
	// Error is what went wrong last; empty for nothing.
	Error string `json:"error,omitempty"`
	// Apply and OnError are as in the settings.
	Apply   string `json:"apply"`
	OnError string `json:"on_error"`
	// OnFull and OnExhausted are a guard's, as in the settings; empty for all others.
	OnFull      string `json:"on_full,omitempty"`
	OnExhausted string `json:"on_exhausted,omitempty"`
	// Keys are the names of those to whose requests it applies always; empty for all.
	Keys []string `json:"keys,omitempty"`
	// Limits are those that are no default, as in the settings, by their names there.
	Limits map[string]string `json:"limits,omitempty"`
	// Reserved says that the key for which PluginsFor lists it may not name it.
	Reserved bool `json:"-"`
	// Params is the JSON Schema of its parameters; nil when it gives none. It
	// must be valid JSON.
	Params json.RawMessage `json:"params,omitempty"`
	// Loaded is when the version that serves was loaded; zero for never.
	Loaded time.Time `json:"loaded,omitzero"`

	// What happened under this name since the server started. Calls are those
	// of the guest's functions; Seconds and Fuel are what they took. Paused is
	// the seconds that they were held up because others waited for tokens,
	// Slices the pieces of fuel between which they can be.
	Calls   uint64  `json:"calls"`
	Seconds float64 `json:"seconds"`
	Fuel    uint64  `json:"fuel"`
	Paused  float64 `json:"paused"`
	Slices  uint64  `json:"slices"`
	// Faults counts calls that failed, by kind of failure.
	Faults map[string]uint64 `json:"faults"`
	// Skips counts sequences that went on without it, Resets instances that
	// were made fresh for another sequence, Loads versions that were loaded.
	Skips  uint64 `json:"skips"`
	Resets uint64 `json:"resets"`
	Loads  uint64 `json:"loads"`
	// InstancesOut are in use by sequences now, InstancesWaiting are ready.
	InstancesOut     int `json:"instances_out"`
	InstancesWaiting int `json:"instances_waiting"`
	// InstanceBytes is what these take.
	InstanceBytes int64 `json:"instance_bytes"`
	// Guard is what it did as a guard; nil where it is none.
	Guard *Guard `json:"guard,omitempty"`
}

// PluginsFor returns those of list that concern the requests of ctx: those that its key may name, and those that apply
// to each of its requests. Apply is what holds for this key.
func PluginsFor(ctx context.Context, list []Plugin) []Plugin {
	var out []Plugin
	for _, p := range list {
		if p.Apply == config.ApplyAlways && len(p.Keys) > 0 && !slices.Contains(p.Keys, KeyName(ctx)) {
			p.Apply = config.ApplyRequest
		}
		p.Reserved = MayNamePlugin(ctx, p.Name) != nil
		if !p.Reserved || p.Apply == config.ApplyAlways {
			out = append(out, p)
		}
	}
	return out
}

// Guard counts what a plugin of kind guard did.
type Guard struct {
	// Verdicts counts those that were applied, by name.
	Verdicts map[string]uint64 `json:"verdicts"`
	// Held counts tokens that it was shown, each as often as it was shown, Rewound those that it took back.
	Held    uint64 `json:"held"`
	Rewound uint64 `json:"rewound"`
}
