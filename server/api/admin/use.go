package admin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Use is how an uploaded plugin is used. All but Config have the values of config.Plugin.
type Use struct {
	OnError, Apply, OnFull, OnExhausted string
	// Keys are those to whose requests Apply = always applies; without any, to all.
	Keys []string
	// Limits of the guest; zero is the default.
	Limits config.PluginLimits
	// Config is a JSON object; nil is {}.
	Config []byte
}

// DefaultUse is how a plugin is used of which nothing is said.
func DefaultUse() Use {
	return Use{OnError: config.OnErrorFail, Apply: config.ApplyRequest, OnFull: config.GuardStop,
		OnExhausted: config.GuardStop}
}

// maxKeys bounds the keys of an upload.
const maxKeys = 256

// readers read the settings of a query into u, by key.
func (u *Use) readers() map[string]func(string) error {
	fuel := func(dst *int64) func(string) error {
		return func(text string) (err error) {
			if *dst, err = strconv.ParseInt(text, 10, 64); errors.Is(err, strconv.ErrRange) {
				return fmt.Errorf("%.*q is not from 0 to %d", maxValue, text, int64(config.MaxFuel))
			} else if err != nil {
				return fmt.Errorf("%.*q is no whole number", maxValue, text)
			}
			return nil
		}
	}
	span := func(dst *config.Duration) func(string) error {
		return func(text string) error { return dst.UnmarshalText([]byte(text)) }
	}
	word := func(dst *string) func(string) error {
		return func(text string) error { *dst = text; return nil }
	}
	return map[string]func(string) error{
		"on_error":                word(&u.OnError),
		"apply":                   word(&u.Apply),
		"on_full":                 word(&u.OnFull),
		"on_exhausted":            word(&u.OnExhausted),
		"keys":                    u.readKeys,
		"limits.memory":           func(text string) error { return u.Limits.Memory.UnmarshalText([]byte(text)) },
		"limits.fuel_per_step":    fuel(&u.Limits.FuelPerStep),
		"limits.fuel_per_request": fuel(&u.Limits.FuelPerRequest),
		"limits.fuel_load":        fuel(&u.Limits.FuelLoad),
		"limits.time_per_step":    span(&u.Limits.TimePerStep),
		"limits.time_per_request": span(&u.Limits.TimePerRequest),
		"limits.time_load":        span(&u.Limits.TimeLoad),
		"limits.share": func(text string) (err error) {
			if u.Limits.Share, err = strconv.ParseFloat(text, 64); err != nil {
				return fmt.Errorf("%.*q is no number", maxValue, text)
			}
			return nil
		},
		"config": func(text string) error {
			u.Config = []byte(text)
			if given := wire.Kind(u.Config); given != "an object" && json.Valid(u.Config) {
				return fmt.Errorf("want a JSON object, given %s", given)
			}
			return wire.Decode(u.Config, func(r *wire.Reader) error { _, err := r.RawObject(); return err })
		},
	}
}

// readKeys reads names with commas between them; "" is none.
func (u *Use) readKeys(text string) error {
	if u.Keys = nil; text == "" {
		return nil
	}
	list := strings.Split(text, ",")
	if len(list) > maxKeys {
		return fmt.Errorf("at most %d names are taken, given %d", maxKeys, len(list))
	}
	for i, name := range list {
		if name == "" || slices.Contains(list[:i], name) {
			return fmt.Errorf("want names of keys with commas between them, each once, given %.*q", maxValue, text)
		}
	}
	u.Keys = list
	return nil
}

// read takes over what a query says.
func (u *Use) read(given url.Values) error {
	readers := u.readers()
	for _, key := range sortedKeys(given) {
		if err := readers[key](given.Get(key)); err != nil {
			return &generate.Invalid{Msg: key + ": " + err.Error()}
		}
	}
	return nil
}

// check returns what is out of bounds.
func (u *Use) check(name string) error {
	p := config.Plugin{Name: name, OnError: u.OnError, Apply: u.Apply, OnFull: u.OnFull, OnExhausted: u.OnExhausted,
		Limits: u.Limits}
	if errs := p.Check(""); len(errs) > 0 {
		return &generate.Invalid{Msg: errors.Join(errs...).Error()}
	}
	return nil
}

// Over returns how an upload is used that takes the place of one that is used as before: what the query leaves out
// stays. keys are the names of keys that there are. Its error is a *generate.Invalid.
func (s Settings) Over(before Use, keys []string) (Use, error) {
	u := before
	if err := u.read(s.Given); err != nil {
		return u, err
	}
	if u.Apply != config.ApplyAlways && !s.Given.Has("keys") {
		u.Keys = nil // they say of whom always is
	}
	if len(u.Keys) > 0 && u.Apply != config.ApplyAlways {
		return u, &generate.Invalid{Msg: fmt.Sprintf("keys goes with apply = %q, given %.*q", config.ApplyAlways,
			maxValue, u.Apply)}
	}
	for _, name := range u.Keys {
		if s.Given.Has("keys") && !slices.Contains(keys, name) {
			return u, &generate.Invalid{Msg: fmt.Sprintf("keys: %.*q is not the name of a key", maxValue, name)}
		}
	}
	return u, nil
}

// UseSetting is one setting of an upload, as a query has it.
type UseSetting struct {
	// Name is the key of the query.
	Name string `json:"name"`
	// Before is what it is now; nil where nothing is replaced.
	Before *string `json:"before,omitempty"`
	// After is what it would be; "" is the default.
	After string `json:"after"`
}

// Compare lists apply, on_error, and the other settings that are no default in one of both. before may be nil.
func Compare(before *Use, after Use) (list []UseSetting) {
	var old [][2]string
	if before != nil {
		old = before.texts()
	}
	for i, now := range after.texts() {
		s := UseSetting{Name: now[0], After: now[1]}
		if before != nil {
			s.Before = &old[i][1]
		}
		if i < 2 || s.After != "" || s.Before != nil && *s.Before != "" {
			list = append(list, s)
		}
	}
	return list
}

// texts are the settings as a query has them; "" is a default, but of the first two.
func (u Use) texts() [][2]string {
	d, l := DefaultUse(), u.Limits
	unless := func(standard, text string) string {
		if text == standard {
			return ""
		}
		return text
	}
	var plain bytes.Buffer
	if json.Compact(&plain, u.Config) != nil { // there is none
		plain.Reset()
	}
	share := strconv.FormatFloat(l.Share, 'g', -1, 64)
	return [][2]string{
		{"apply", cmp.Or(u.Apply, d.Apply)}, {"on_error", cmp.Or(u.OnError, d.OnError)},
		{"keys", strings.Join(u.Keys, ",")},
		{"on_full", unless(d.OnFull, u.OnFull)}, {"on_exhausted", unless(d.OnExhausted, u.OnExhausted)},
		{"config", unless("{}", plain.String())},
		{"limits.memory", unless(config.Size(0).String(), l.Memory.String())},
		{"limits.fuel_per_step", unless("0", strconv.FormatInt(l.FuelPerStep, 10))},
		{"limits.fuel_per_request", unless("0", strconv.FormatInt(l.FuelPerRequest, 10))},
		{"limits.fuel_load", unless("0", strconv.FormatInt(l.FuelLoad, 10))},
		{"limits.time_per_step", unless("0s", l.TimePerStep.String())},
		{"limits.time_per_request", unless("0s", l.TimePerRequest.String())},
		{"limits.time_load", unless("0s", l.TimeLoad.String())},
		{"limits.share", unless("0", share)},
	}
}

// Set returns apply, on_error, and the other settings that are no default, by the key of a query.
func (u Use) Set() map[string]string {
	set := map[string]string{}
	for i, s := range u.texts() {
		if i < 2 || s[1] != "" {
			set[s[0]] = s[1]
		}
	}
	return set
}

// LimitsSet returns the limits that are no default, by their names in the settings; nil for none.
func (u Use) LimitsSet() map[string]string {
	var set map[string]string
	for key, text := range u.Set() {
		if name, ok := strings.CutPrefix(key, "limits."); ok {
			if set == nil {
				set = map[string]string{}
			}
			set[name] = text
		}
	}
	return set
}

// settingsDigits are those of an ID.
const settingsDigits = 16

// ID is the same, in hexadecimal digits, for what is used alike, at each server.
func (u Use) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", u.texts()))
	return hex.EncodeToString(sum[:])[:settingsDigits]
}

// Kept names the settings that an upload takes from what it replaces, and that are no default.
func (s Settings) Kept(before Use) (names []string) {
	d := DefaultUse()
	for _, c := range Compare(&d, before) {
		if !s.Given.Has(c.Name) && *c.Before != c.After {
			names = append(names, c.Name)
		}
	}
	return names
}
