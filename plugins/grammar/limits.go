package grammar

import (
	"errors"
	"time"
)

// Limits bounds what one grammar may cost. A zero field means the default.
type Limits struct {
	// Memory is how many bytes of states are kept, about: default 16 MiB. At the
	// limit they are forgotten and built again as texts reach them: a grammar that
	// needs more gets slower, not wrong.
	Memory int64
	// CompileWork is how many units, of about a nanosecond on a fast machine,
	// Compile may take: default 300,000,000.
	CompileWork int64
	// StepWork is how many such units a call of a State may take: default
	// 50,000,000. What is known already costs nothing, so a call that failed may
	// succeed later.
	StepWork int64
	// Threads is in how many ways at once the text so far may be read: default 5,000.
	Threads int
	// Search is how many states are looked at to find whether an intersection or a
	// complement still has a text: default 100,000.
	Search int
	// Yield, if not nil, is called about once in a millisecond of Compile, and may wait while others have the
	// processors.
	Yield func()
}

// Effort is what one call of a [State] may take beside the grammar's limits. The zero value adds nothing to them.
type Effort struct {
	// Time is how long the call may take, about; 0: as long as its work does. A call that takes longer fails with
	// ErrLimit. What it found out stays known.
	Time time.Duration
	// Yield, if not nil, is called about once in a millisecond, and may wait while others have the processors.
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

// Errors. They are wrapped with what exactly is wrong.
var (
	// ErrLimit: a limit of [Limits] is reached; the text says which, and how much was wanted.
	ErrLimit = errors.New("grammar limit exceeded")
	// ErrEmpty: no text at all belongs to the grammar.
	ErrEmpty = errors.New("the grammar admits no text")
	// ErrToken: the grammar names a token that the vocabulary does not have.
	ErrToken = errors.New("no such token")
	// ErrRejected: a token or text may not come here. The state is as before.
	ErrRejected = errors.New("not admitted by the grammar")
	// ErrStuck: texts can go on, but no token of the vocabulary begins one of the
	// ways on. Vocabularies that have all 256 bytes never get there, unless the
	// grammar names tokens.
	ErrStuck = errors.New("no token of the vocabulary goes on")
)
