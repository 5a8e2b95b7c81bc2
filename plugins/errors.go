package plugins

import (
	"errors"
	"fmt"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/runtime/llm"
)

// Why a request can't be bound, begun or served. Every error of [Set.Bind], [Set.BindChat], [Bound.Begin], [BoundChat]
// and [Parser] is a [*BindError] that matches one of these, a [*RenderRefusal], matches [ErrClosed] or [ErrNoTemplate],
// or is the context's.
var (
	// ErrUnknown: there is no plugin of that name.
	ErrUnknown = errors.New("no such plugin")
	// ErrParams: the plugin refuses the request, or the request's list of plugins breaks a rule; the text is for the
	// client.
	ErrParams = errors.New("parameters refused")
	// ErrOff: the plugin is switched off because it kept failing, or could not be loaded.
	ErrOff = errors.New("plugin is off")
	// ErrBusy: all instances of the plugin, or the memory for plugins, are in use; the same request may succeed later.
	ErrBusy = errors.New("plugin is busy")
	// ErrFault: the plugin failed during a call.
	ErrFault = errors.New("plugin failed")
	// ErrRefused: the template can't render the conversation; the text is for the client.
	ErrRefused = errors.New("the template refuses the conversation")
	// ErrNoTemplate: there is no plugin that could render a conversation.
	ErrNoTemplate = errors.New("no template")
)

// Why the set can't be changed.
var (
	// ErrSpec: a name or setting is out of bounds.
	ErrSpec = errors.New("plugin settings")
	// ErrLoad: a module can't be read or is refused; the text says why.
	ErrLoad = errors.New("plugin refused")
	// ErrNoPlace: no folder takes what was compiled of the module, which may be sound. Such an error matches ErrLoad,
	// too.
	ErrNoPlace = sandbox.ErrNoPlace
	// ErrConfigured: the plugin comes from the settings or the folder and is changed there.
	ErrConfigured = errors.New("plugin is configured elsewhere")
	// ErrClosed: the set was closed.
	ErrClosed = errors.New("plugins are closed")
)

// RenderRefusal says why a template can't render a conversation.
type RenderRefusal struct {
	Plugin string
	Text   string // the template's own words, for the client
}

// Error names the plugin and gives the text.
func (e *RenderRefusal) Error() string { return "plugin " + e.Plugin + ": " + e.Text }

// Unwrap returns ErrRefused.
func (e *RenderRefusal) Unwrap() error { return ErrRefused }

// Misnamed is an unknown name with the known ones, so that an error can suggest the nearest.
type Misnamed struct {
	Name  string // of a plugin, a built-in plugin, a language or a parameter of a plugin
	Known []string
	Err   error
}

// Error returns the text of Err.
func (e *Misnamed) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Misnamed) Unwrap() error { return e.Err }

// BindError says why a request can't have its plugins, or why one of them ended it.
type BindError struct {
	Plugin string // as the request has it, "" where no single one is at fault
	Text   string // for the client; if the plugin refused, the plugin's own text
	Err    error  // one of the sentinels above, or a *Misnamed that matches one
}

// Error names the plugin and gives the text.
func (e *BindError) Error() string {
	if e.Plugin == "" {
		return "plugins: " + e.Text
	}
	return "plugin " + llm.Shorten(e.Plugin) + ": " + e.Text
}

// Unwrap returns the sentinel.
func (e *BindError) Unwrap() error { return e.Err }

// Outline is the text without what a guest can have put into it: the server's own words.
func (e *BindError) Outline() string {
	text := e.Text
	if w := (*worded)(nil); errors.As(e.Err, &w) {
		text = w.outline + inLog
	}
	if e.Plugin == "" {
		return text
	}
	return "plugin " + llm.Shorten(e.Plugin) + ": " + text
}

// inLog says where what an outline lacks is.
const inLog = "; more is in its log"

// worded is an error whose text, or that of the error around it, may have words of a guest. What a guest says it may
// have from a text that guards took back, so clients of requests with guards are told the outline.
type worded struct {
	error
	outline string
}

// Unwrap returns the error.
func (w *worded) Unwrap() error { return w.error }

// failure is the error of a step.
type failure struct {
	worded
	plugin string
}

// Outline is that of [BindError].
func (f *failure) Outline() string { return "plugin " + f.plugin + ": " + f.outline + inLog }

// bindError is the request's error for one of a guest's call, of which text tells, as one of the sentinels.
func (p *part) bindError(text string, err, kind error) *BindError {
	return &BindError{p.name, text, &worded{kind, p.outline(err)}}
}

// outline is what can be said of the error of a call without a word of the guest's: how it failed, and where.
func (p *part) outline(err error) string {
	var fault *sandbox.Fault
	var no *guest.Refusal
	switch {
	case errors.As(err, &fault):
		text := fmt.Sprintf("%s: %v", fault.Func, fault.Kind)
		if limit := settingOfFault(fault); limit != settingSource {
			text += " (" + limit + ")"
		}
		return text
	case errors.As(err, &no):
		return "it gives up with an error"
	case errors.Is(err, sandbox.ErrBusy), errors.Is(err, sandbox.ErrMemory), errors.Is(err, sandbox.ErrClosed):
		return p.errorText(err)
	}
	return "it failed"
}
