package sandbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"tgi/plugins/internal/sandbox/rewrite"
)

// Why a call ended. Every error of [Instance.Run] is a [*Fault] that matches one of these by errors.Is (ErrResult comes
// from [Instance.Break] alone).
var (
	// ErrTrap: the guest trapped, exited, or a host function found its arguments wrong; the cause is in the fault.
	ErrTrap = errors.New("trap")
	// ErrFuel: the guest used up the call's budget.
	ErrFuel = errors.New("out of fuel")
	// ErrTime: the call ran longer than its budget allows.
	ErrTime = errors.New("out of time")
	// ErrCancelled: the lease's Cancel channel was closed while the guest ran.
	ErrCancelled = errors.New("cancelled")
	// ErrAccess: a pointer and length of the guest lie outside its memory.
	ErrAccess = errors.New("bad memory access")
	// ErrResult: the guest ended its call well, but what it answered can't be used; see [Instance.Break].
	ErrResult = errors.New("unusable result")
	// ErrBroken: an earlier call of this instance failed; its state is unknown and it takes no further calls.
	ErrBroken = errors.New("instance broken by an earlier fault")
)

// Why a module is refused or an operation can't be done.
var (
	// ErrImport: the module imports what is not offered, or with another signature.
	ErrImport = errors.New("import")
	// ErrExport: an export that is wanted is missing or has another signature.
	ErrExport = errors.New("export")
	// ErrModule: the bytes are not a module that can be loaded.
	ErrModule = errors.New("module")
	// ErrHiddenState: the guest keeps state where a snapshot can't reach, so it can't be snapshotted or cloned.
	ErrHiddenState = errors.New("state outside memory and numeric globals")
	// ErrClosed: the pool or module was closed.
	ErrClosed = errors.New("closed")
	// ErrBusy: the pool has as many instances out as it may.
	ErrBusy = errors.New("all instances are in use")
)

// Fault is how a guest's call failed.
type Fault struct {
	Kind   error  // ErrTrap, ErrFuel, ErrTime, ErrCancelled, ErrAccess, ErrResult or ErrBroken
	Module string // as named at Compile
	Func   string // the export that was called
	Cause  string // e.g. "unreachable", "stack overflow", "the guest called proc_exit(2)"
	Budget int64  // of the call, and of those before it that had the same fuel (Budget.Burnt)
	Used   int64  // by all of them
	Limit  string // what bounds the fuel: Budget.FuelLimit
	// OutOfMemory: the guest was refused memory within its own limit before it failed.
	OutOfMemory bool
	Trace       []string // the guest's call stack, innermost first, as far as known
	Log         []string // what the guest printed last, oldest first
}

// Error returns module, export, kind, cause, fuel and what the guest printed last.
func (f *Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %v", f.Module, f.Func, f.Kind)
	if f.Cause != "" {
		b.WriteString(": " + f.Cause)
	}
	if f.Kind == ErrFuel {
		fmt.Fprintf(&b, ": budget %d, used %d", f.Budget, f.Used)
		if f.Limit != "" {
			b.WriteString(" (" + f.Limit + ")")
		}
	} else if f.Budget > 0 {
		fmt.Fprintf(&b, " (fuel %d of %d)", f.Used, f.Budget)
	}
	if line := f.lastOutput(); line != "" {
		fmt.Fprintf(&b, "; last printed: %q", line)
	}
	return b.String()
}

// lastOutput returns the most useful printed line: a Go guest's panic, which stack traces follow, or else the last
// line.
func (f *Fault) lastOutput() string {
	for _, line := range f.Log {
		if isPanicLine(line) {
			return line
		}
	}
	if n := len(f.Log); n > 0 {
		return f.Log[n-1]
	}
	return ""
}

// Unwrap returns the kind.
func (f *Fault) Unwrap() error { return f.Kind }

// abort is what the host panics with to end a guest's call; it never leaves the package.
type abort struct {
	kind  error
	cause string
}

func (a *abort) Error() string { return a.kind.Error() + ": " + a.cause }

// Those that tick raises carry no text, so that raising them allocates nothing.
var (
	abortFuel  = &abort{kind: ErrFuel}
	abortStack = &abort{kind: ErrTrap, cause: fmt.Sprintf("stack overflow: calls nested deeper than %d bytes",
		rewrite.StackBytes)}
	abortCancel = &abort{kind: ErrCancelled}
)

// fault makes the Fault of a failed call and leaves the instance broken.
func (in *Instance) fault(fn string, b Budget, used int64, err error) *Fault {
	f := &Fault{Kind: ErrTrap, Module: in.module.name, Func: fn, Budget: b.Burnt + b.Fuel, Used: b.Burnt + used,
		Limit: b.FuelLimit, Log: in.printed.lines()}
	var a *abort
	var exit *sys.ExitError
	switch {
	case errors.As(err, &a):
		f.Kind, f.Cause = a.kind, a.cause
	case errors.As(err, &exit):
		f.Cause = "the instance was closed while it ran"
	default:
		f.Cause = "unknown"
		if inner := errors.Unwrap(err); inner != nil {
			f.Cause = inner.Error()
		} else if err != nil {
			f.Cause, _, _ = strings.Cut(err.Error(), "\n")
		}
	}
	in.explainMemory(f)
	if _, trace, ok := strings.Cut(err.Error(), "wasm stack trace:\n\t"); ok {
		for line := range strings.SplitSeq(trace, "\n\t") {
			f.Trace = append(f.Trace, strings.TrimPrefix(line, "."))
		}
	}
	in.broken = f
	return f
}

// explainMemory adds to the fault that the guest was refused memory before it failed: the trap, exit or endless loop
// that follows a refusal says little by itself.
func (in *Instance) explainMemory(f *Fault) {
	if in.memory == nil || in.memory.refused == 0 || f.Kind != ErrTrap && f.Kind != ErrFuel && f.Kind != ErrTime {
		return
	}
	f.OutOfMemory = true
	f.Cause = strings.TrimSuffix(fmt.Sprintf("out of memory: it asked for %d bytes, its limit is %d (limits.memory): %s",
		in.memory.refused, len(in.memory.reserved), f.Cause), ": ")
}

func abortOf(err error) *abort {
	for _, kind := range []error{ErrAccess, ErrFuel, ErrTime, ErrCancelled, ErrMemory, ErrTrap} {
		if errors.Is(err, kind) {
			return &abort{kind: kind, cause: strings.TrimPrefix(err.Error(), kind.Error()+": ")}
		}
	}
	return &abort{kind: ErrTrap, cause: err.Error()}
}
