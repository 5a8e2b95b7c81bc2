package plugins

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// OnError says what becomes of a request whose plugin fails.
type OnError string

// Values of OnError; "" means OnErrorFail.
const (
	OnErrorFail OnError = "fail" // the sequence fails
	OnErrorSkip OnError = "skip" // it goes on without the plugin
	OnErrorStop OnError = "stop" // a guard's: it ends with what went out
)

// Apply says which requests a plugin takes part in.
type Apply string

// Values of Apply; "" means ApplyRequest.
const (
	ApplyRequest Apply = "request" // those that name it
	ApplyAlways  Apply = "always"  // all
)

// Builtin is what a Spec's Source begins with where the module is one of Options.Builtin.
const Builtin = "builtin:"

// Spec is one plugin as the server's settings want it.
type Spec struct {
	// what requests call it: 1 to 64 lower-case letters, digits and hyphens, a letter first, none doubled
	Name   string
	Kind   string // the one kind that is used of the module; "" means all that it serves
	Source string // a file, or Builtin and a name
	SHA256 string // 64 hexadecimal digits that the module must have; "" means any
	// Verify, if any, returns why a module that has SHA256 may not be loaded.
	Verify  func(module []byte) error
	OnError OnError
	Apply   Apply
	Limits  Limits
	Config  []byte // JSON object for the guest's init; nil means {}
	// OnFull and OnExhausted are a guard's.
	OnFull, OnExhausted GuardEnd
	// Clients, if any, are those to whose requests ApplyAlways applies, as Options.Client names them.
	Clients []string
}

// LimitsOf gives l with the defaults that hold for the module of a Spec's Source: they depend on the kinds that it
// serves, and on whether it is built in. The error names a field that is out of bounds.
func LimitsOf(source string, module []byte, l Limits) (Limits, error) {
	return guest.LimitsOf(module, strings.HasPrefix(source, Builtin), l)
}

// Upload is how a plugin that is put at run time is used; fields as in Spec.
type Upload struct {
	OnError OnError
	Apply   Apply
	Limits  Limits
	Config  []byte

	OnFull, OnExhausted GuardEnd
	Clients             []string

	// Canary says that it is prepared for a Canary, and for nothing else: what serves may be no upload. Shadow says so
	// of one that is a shadow.
	Canary, Shadow bool

	kind string // that is used of a canary's module, as of what serves
}

// settings are those of the upload.
func (u Upload) settings() settings {
	set := settings{kind: u.kind, onError: u.OnError, apply: u.Apply, limits: u.Limits, config: string(u.Config),
		onFull: u.OnFull, onExhausted: u.OnExhausted, clients: joinClients(u.Clients)}
	return set.withDefaults()
}

// joinClients is how settings hold clients.
func joinClients(list []string) (text string) {
	for _, c := range list {
		text += c + "\n"
	}
	return text
}

// Breaker says when a plugin that keeps failing is switched off: for a client after Faults faulty requests in a row of
// that client, and never for others.
type Breaker struct {
	Faults int           // 0: never
	Pause  time.Duration // how long it stays off before one request tries it again
}

// maxName is the greatest length of a name, in bytes.
const maxName = 64

// settings are the parts of a Spec that determine a version's behaviour: two versions with the same module and settings
// behave alike.
type settings struct {
	kind    string
	onError OnError
	apply   Apply
	limits  Limits
	config  string

	onFull, onExhausted GuardEnd
	clients             string // each followed by a line feed
}

// applies reports whether the plugin takes part in all requests of a client.
func (s settings) applies(client string) bool {
	return s.apply == ApplyAlways && (s.clients == "" || strings.Contains("\n"+s.clients, "\n"+client+"\n"))
}

// clientList returns the clients to whose requests alone it applies always; nil is all.
func (s settings) clientList() []string {
	if s.clients == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s.clients, "\n"), "\n")
}

// origin is where a plugin is configured.
type origin int

const (
	fromSpec origin = iota
	fromFolder
	fromUpload
)

// desired is a plugin that should be installed.
type desired struct {
	name     string
	origin   origin
	source   string
	sha256   string
	verify   func(module []byte) error // nil accepts every module
	settings settings
	trial    string // what it is tried as, "" if it is to serve
}

// location says where the plugin is configured.
func (w desired) location() string {
	switch w.origin {
	case fromSpec:
		return fmt.Sprintf("in the server's settings, with source %q", w.source)
	case fromFolder:
		return fmt.Sprintf("as file %q", w.source)
	}
	return "by upload"
}

func (s Spec) desired() desired {
	set := settings{kind: s.Kind, onError: s.OnError, apply: s.Apply, limits: s.Limits, config: string(s.Config),
		onFull: s.OnFull, onExhausted: s.OnExhausted, clients: joinClients(s.Clients)}
	return desired{name: s.Name, origin: fromSpec, source: s.Source, sha256: strings.ToLower(s.SHA256),
		verify: s.Verify, settings: set.withDefaults()}
}

func (s settings) withDefaults() settings {
	if s.onError == "" {
		s.onError = OnErrorFail
	}
	if s.apply == "" {
		s.apply = ApplyRequest
	}
	if s.config == "" {
		s.config = "{}"
	}
	if s.onFull == "" {
		s.onFull = GuardStop
	}
	if s.onExhausted == "" {
		s.onExhausted = GuardStop
	}
	return s
}

// checkSpecs reports all errors of the specs themselves, before any file is read.
func (s *Set) checkSpecs(specs []Spec) error {
	var errs []error
	seen := map[string]int{}
	for i, spec := range specs {
		if first, twice := seen[spec.Name]; twice {
			errs = append(errs, fmt.Errorf("%w: plugin %d has the name of plugin %d: %q", ErrSpec, i, first, spec.Name))
		}
		seen[spec.Name] = i
		for _, err := range s.checkSpec(spec.desired()) {
			errs = append(errs, spec.desired().ofSpec(fmt.Errorf("%w: plugin %d (%q): %w", ErrSpec, i, spec.Name, err)))
		}
	}
	return errors.Join(errs...)
}

func (s *Set) checkSpec(w desired) (errs []error) {
	if err := checkName(w.name); err != nil {
		errs = append(errs, err)
	}
	if w.source == "" {
		errs = append(errs, errors.New("source is missing"))
	} else if strings.HasPrefix(w.source, Builtin) && s.o.Builtin == nil {
		errs = append(errs, fmt.Errorf("source %q: nothing is built in", w.source))
	}
	if b, err := hex.DecodeString(w.sha256); w.sha256 != "" && (err != nil || len(b) != 32) {
		errs = append(errs, fmt.Errorf("sha256 %q is not 64 hexadecimal digits", w.sha256))
	}
	return append(errs, w.settings.check()...)
}

// check validates the settings that uploads have too.
func (s settings) check() (errs []error) {
	if s.kind != "" && abi.Exports(s.kind) == nil {
		errs = append(errs, fmt.Errorf("kind %q is none of %q", s.kind, []string{abi.KindLogits, abi.KindSampler,
			abi.KindTemplate, abi.KindTools, abi.KindGrammar, abi.KindGuard, abi.KindProgram, abi.KindDraft}))
	} else if s.kind != "" {
		if err := s.checkKinds([]string{s.kind}); err != nil {
			errs = append(errs, err)
		}
	}
	if s.onError != OnErrorFail && s.onError != OnErrorSkip && s.onError != OnErrorStop {
		errs = append(errs, fmt.Errorf("on_error %q is none of %q, %q, %q", s.onError, OnErrorFail, OnErrorSkip,
			OnErrorStop))
	}
	for key, end := range map[string]GuardEnd{"on_full": s.onFull, "on_exhausted": s.onExhausted} {
		if end != GuardStop && end != GuardRelease {
			errs = append(errs, fmt.Errorf("%s %q is neither %q nor %q", key, end, GuardStop, GuardRelease))
		}
	}
	if s.clients != "" && s.apply != ApplyAlways {
		errs = append(errs, fmt.Errorf("it applies to all requests of some keys: apply has to be %q", ApplyAlways))
	}
	if s.apply != ApplyRequest && s.apply != ApplyAlways {
		errs = append(errs, fmt.Errorf("apply %q is neither %q nor %q", s.apply, ApplyRequest, ApplyAlways))
	}
	if !isObject([]byte(s.config)) {
		errs = append(errs, errors.New("config is not a JSON object"))
	}
	return errs
}

// checkKinds rejects settings that do not suit a plugin that does not run in the token loop.
func (s settings) checkKinds(kinds []string) error {
	guards := slices.Contains(kinds, abi.KindGuard)
	switch {
	case !guards && s.onError == OnErrorStop:
		return wrongSetting("on_error", "on_error is %q, which is for plugins of kind %q", OnErrorStop, abi.KindGuard)
	case !guards && (s.onFull != GuardStop || s.onExhausted != GuardStop):
		setting, end := "on_full", s.onFull
		if end == GuardStop {
			setting, end = "on_exhausted", s.onExhausted
		}
		return wrongSetting(setting, "%s is %q, which is for plugins of kind %q", setting, end, abi.KindGuard)
	case slices.ContainsFunc(kinds, guest.Steps):
		return nil
	case slices.Contains(kinds, abi.KindProgram) && s.onError == OnErrorSkip:
		return wrongSetting("on_error", "on_error is %q, but no request can go on without its program", OnErrorSkip)
	case slices.Contains(kinds, abi.KindProgram) && s.apply == ApplyAlways:
		return wrongSetting("apply", "apply is %q, but a plugin of kind %q is named by a request", ApplyAlways, kinds)
	case !slices.ContainsFunc(kinds, guest.Converses) && s.onError == OnErrorSkip:
		return wrongSetting("on_error", "on_error is %q, but no request can go on without its grammar", OnErrorSkip)
	case !slices.ContainsFunc(kinds, guest.Converses) && s.apply == ApplyAlways:
		return wrongSetting("apply", "apply is %q, but a plugin of kind %q serves requests that bring a grammar", ApplyAlways,
			kinds)
	case s.onError == OnErrorSkip:
		return wrongSetting("on_error", "on_error is %q, but no chat request can go on without what a plugin of kind %q does",
			OnErrorSkip, kinds)
	case s.apply == ApplyAlways:
		return wrongSetting("apply", "apply is %q, but a plugin of kind %q is chosen for a model or named by a chat request",
			ApplyAlways, kinds)
	}
	return nil
}

func isObject(text []byte) bool {
	return json.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}

// reservedNames have a meaning of their own where settings name a plugin.
var reservedNames = []string{"auto", "none"}

// checkName accepts names that are valid in URL paths, file names and metric labels, and not reserved.
func checkName(name string) error {
	if slices.Contains(reservedNames, name) {
		return fmt.Errorf("name %q is reserved: template = %q and tools = %q of a model mean something else", name, name,
			name)
	}
	ok := name != "" && len(name) <= maxName && 'a' <= name[0] && name[0] <= 'z' && !strings.HasSuffix(name, "-") &&
		!strings.Contains(name, "--")
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-'
	}
	if !ok {
		return fmt.Errorf("name %q is not 1 to %d lower-case letters, digits and single hyphens between them, a letter first", name[:min(len(name), 2*maxName)], maxName)
	}
	return nil
}

// kinds returns which of the kinds that a module serves are used.
func (s settings) kinds(served []string) ([]string, error) {
	if s.kind == "" {
		return served, nil
	}
	if !slices.Contains(served, s.kind) {
		return nil, wrongSetting("kind", "kind %q is wanted, the module serves %q", s.kind, served)
	}
	return []string{s.kind}, nil
}
