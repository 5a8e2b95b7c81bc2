package plugins

import (
	"errors"
	"fmt"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/internal/sandbox/rewrite"
)

// SpecError is why the plugin of a Spec can't be loaded. Its text is that of Err.
type SpecError struct {
	// Plugin is the name of the Spec. Setting is what of it is most likely at fault, as [[plugin]] calls it: source,
	// sha256, kind, apply, on_error, on_full, config, or a limit such as limits.memory.
	Plugin, Setting string
	Err             error
}

// Error returns the text of Err.
func (e *SpecError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *SpecError) Unwrap() error { return e.Err }

// ofSpec is an error of loading a plugin, as one of its Spec where it has one.
func (w desired) ofSpec(err error) error {
	if err == nil || w.origin != fromSpec {
		return err
	}
	return &SpecError{w.name, settingOf(err), err}
}

// settingError is an error of one setting.
type settingError struct {
	setting string
	error
}

// Unwrap returns the error.
func (e settingError) Unwrap() error { return e.error }

// wrongSetting makes one.
func wrongSetting(setting, format string, args ...any) error {
	return settingError{setting, fmt.Errorf(format, args...)}
}

// settingOf says which setting of a plugin an error of loading it is about.
func settingOf(err error) string {
	var wrong settingError
	var refused *guest.Refusal
	var size *rewrite.LimitError
	var fault *sandbox.Fault
	switch {
	case errors.As(err, &wrong):
		return wrong.setting
	case errors.As(err, &refused):
		return "config"
	case errors.As(err, &size) && size.What == rewrite.PagesOfMemory:
		return limitKey + "memory"
	case errors.As(err, &fault):
		return settingOfFault(fault)
	}
	return settingSource
}

// whereIs are attributes of the log about where the setting stands that an error is about, none where it is unknown.
func (s *Set) whereIs(err error) []any {
	var of *SpecError
	if s.o.Where == nil || !errors.As(err, &of) {
		return nil
	}
	if at := s.o.Where(of); at != "" {
		return []any{"at", at}
	}
	return nil
}

// limitKey begins the names of limits, settingSource is the setting that no other one is to blame beside.
const (
	limitKey      = "limits."
	settingSource = "source"
)

// settingOfFault says which limit ended a call of a module, and is else its source.
func settingOfFault(f *sandbox.Fault) string {
	when := "_per_request"
	switch {
	case guest.AtLoad(f.Func):
		when = "_load"
	case guest.EachStep(f.Func):
		when = "_per_step"
	}
	switch {
	case f.OutOfMemory:
		return limitKey + "memory"
	case f.Kind == sandbox.ErrFuel:
		return limitKey + "fuel" + when
	case f.Kind == sandbox.ErrTime:
		return limitKey + "time" + when
	}
	return settingSource
}
