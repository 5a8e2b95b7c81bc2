package replay

import (
	"context"
	"fmt"

	"tgi/server/client/call"
)

// Tally counts what became of exchanges: of All, Equal had the same reply again, Refused had been refused when they
// were kept, and of Incomparable too little was kept to compare a reply with.
type Tally struct{ All, Equal, Refused, Incomparable int }

// RunAll runs exchanges one after the other, and hands over each report when it is there. It ends with ctx, and with an
// error of report.
func RunAll(ctx context.Context, c *call.Caller, list []Exchange, o Options, report func(Report) error) (t Tally,
	err error) {
	t.All = len(list)
	for _, e := range list {
		r, err := Run(ctx, c, e, o)
		if err == nil {
			err = report(r)
		}
		if err != nil {
			return t, err
		}
		switch {
		case r.Same:
			t.Equal++
		case r.Refused:
			t.Refused++
		case r.Incomparable:
			t.Incomparable++
		}
	}
	return t, nil
}

// Same reports whether all replies that there are texts of are the same, and one is.
func (t Tally) Same() bool { return t.Equal > 0 && t.Equal+t.Refused == t.All }

// Unknown reports whether no reply differs and none failed, though not all that there are texts of were compared, or
// there are none.
func (t Tally) Unknown() bool { return !t.Same() && t.Equal+t.Refused+t.Incomparable == t.All }

// String is the tally for people.
func (t Tally) String() string {
	text := fmt.Sprintf("%d of %d are the same", t.Equal, t.All-t.Refused-t.Incomparable)
	if t.Incomparable > 0 {
		text += fmt.Sprintf("; %d cannot be compared", t.Incomparable)
	}
	if t.Refused > 0 {
		text += fmt.Sprintf("; %d refused when kept, not sent again", t.Refused)
	}
	return text
}
