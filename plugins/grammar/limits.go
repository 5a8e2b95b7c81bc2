package grammar

import (
	"errors"
	"time"
)

// Limits bounds what one grammar may cost. A zero field means the default.
type Limits struct {
	// Memory is about how many bytes of states are kept: default 16 MiB. At the limit they are dropped and rebuilt as
	// texts reach them: a grammar that needs more gets slower, not wrong.
	Memory int64
	// CompileWork is how many units, of about a nanosecond on a fast machine,
	// Compile may take: default 300,000,000.
	CompileWork int64
	// StepWork is how many such units a call of a State may take: default
	// 50,000,000. Cached results cost nothing, so a call that failed may succeed later.
	StepWork int64
	// Threads is how many parses of the text so far may be open at once: default 5,000.
	Threads int
	// Search is how many states are visited to decide whether an intersection or a complement still matches a text:
	// default 100,000.
	Search int
	// Yield, if not nil, is called several times per millisecond of Compile, and may block while others use the
	// processors.
	Yield func()
}

// Effort bounds one call of a [State] in addition to the grammar's limits. The zero value adds no bound.
type Effort struct {
	// Time is about how long the call may take; 0: no bound other than its work. A call that takes longer fails with
	// ErrLimit. Its results so far stay cached.
	Time time.Duration
	// Yield, if not nil, is called several times per millisecond, and may block while others use the processors.
	Yield func()
}

func (l Limits) withDefaults() Limits {
	if l.Memory == 0 {
		l.Memory = 16 << 20
	}
	if l.CompileWork == 0 {
		l.CompileWork = 300_000_000
	}
	if l.StepWork == 0 {
		l.StepWork = 50_000_000
	}
	if l.Threads == 0 {
		l.Threads = 5_000
	}
	if l.Search == 0 {
		l.Search = 100_000
	}
	return l
}

// Errors. They are wrapped with the details.
var (
	// ErrLimit: a limit of [Limits] is reached; the text says which one, and how much was needed.
	ErrLimit = errors.New("grammar limit exceeded")
	// ErrEmpty: the grammar matches no text.
	ErrEmpty = errors.New("the grammar admits no text")
	// ErrToken: the grammar names a token that the vocabulary does not have.
	ErrToken = errors.New("no such token")
	// ErrRejected: a token or text is not allowed here. The state is unchanged.
	ErrRejected = errors.New("not admitted by the grammar")
	// ErrStuck: texts can continue, but no token of the vocabulary begins a continuation. This cannot happen with a
	// vocabulary that has all 256 bytes, unless the grammar names tokens.
	ErrStuck = errors.New("no token of the vocabulary goes on")
)
