package plugins

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tgi/plugins/internal/sandbox"
)

// TooCostly is the error of a client's input that costs a plugin more than its settings allow. It matches ErrParams.
type TooCostly struct {
	Plugin  string
	Setting string // of the plugin, which raises the bound
	Bound   string
	Work    string // what the plugin did, such as "render"
	Bytes   int    // the length of the input
}

// Error says what the client's text takes; the plugin's name is not in it.
func (e *TooCostly) Error() string {
	return fmt.Sprintf("takes more than %s = %s allows to %s. Given: %d bytes", e.Setting, e.Bound, e.Work, e.Bytes)
}

// Unwrap returns ErrParams.
func (e *TooCostly) Unwrap() error { return ErrParams }

// smallText is a length that every plugin must be able to process: a plugin that exceeds its limits with no more text,
// and without parameters of the client, is at fault itself.
const smallText = 4 << 10

// tooCostly returns the error of a call that exceeded its limits because of a client's input, nil for any other error.
// It does not count as a fault of the plugin: otherwise a client's large requests would switch the plugin off. bytes is
// the length of the input without the parameters.
func (p *part) tooCostly(err error, work string, bytes int) error {
	setting, bound := p.exhausted(err)
	if setting == "" {
		return nil
	}
	costly := &TooCostly{Plugin: p.name, Setting: setting, Bound: bound, Work: work, Bytes: bytes + len(p.params)}
	return &BindError{p.name, costly.Error(), costly}
}

// tooCostlyRequest is tooCostly for a request of a conversation. It returns nil as well where the plugin is at fault.
func (p *part) tooCostlyRequest(err error, work string, request []byte) error {
	if err == nil || len(request) <= smallText && !p.hasParams() && !hasVariables(request) {
		return nil
	}
	return p.tooCostly(err, work, len(request))
}

// exhausted returns the limit that a call at a request's begin ran out of, "" if it failed otherwise.
func (p *part) exhausted(err error) (setting, bound string) {
	var fault *sandbox.Fault
	limits := p.version.guest.Limits()
	switch {
	case !errors.As(err, &fault):
	case fault.OutOfMemory:
		return "memory", fmt.Sprint(limits.Memory)
	case fault.Kind == sandbox.ErrFuel:
		return "fuel_per_request", fmt.Sprint(limits.FuelPerRequest)
	case fault.Kind == sandbox.ErrTime:
		return "time_per_request", limits.TimePerRequest.Round(time.Millisecond).String()
	}
	return "", ""
}

// hasParams reports whether the client gave the plugin parameters.
func (p *part) hasParams() bool { return len(p.params) > 0 && string(p.params) != "{}" }

// hasVariables reports whether the request of a template has variables of the client's.
func hasVariables(request []byte) bool {
	var r struct{ Kwargs map[string]json.RawMessage }
	return json.Unmarshal(request, &r) == nil && len(r.Kwargs) > 0
}
