package replay

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tgi/server/client/call"
	"tgi/server/client/terminal"
)

// Tally counts what became of exchanges: of All, Equal had the same reply again, Refused had been refused when they
// were kept, of Incomparable too little was kept to compare a reply with, and Skipped embed or rank.
type Tally struct{ All, Equal, Refused, Incomparable, Skipped int }

// RunAll runs exchanges one after the other, and hands over each report when it is there. Those that embed or rank,
// which servers record too, share one report behind all others. It ends with ctx, and with an error of report.
func RunAll(ctx context.Context, c *call.Caller, list []Exchange, o Options, report func(Report) error) (t Tally,
	err error) {
	t.All = len(list)
	var paths []string
	for _, e := range list {
		if e.Method == http.MethodPost && slices.Contains(vectors, e.route()) {
			t.Skipped++
			paths = append(paths, e.route())
			continue
		}
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
	if t.Skipped == 0 {
		return t, nil
	}
	slices.Sort(paths)
	return t, report(Report{Request: fmt.Sprintf("%s of %s", terminal.Count(t.Skipped, "request"),
		strings.Join(slices.Compact(paths), ", ")), Differences: []Difference{}, Skipped: t.Skipped})
}

// Same reports whether all replies that there are texts of are the same, and one is.
func (t Tally) Same() bool { return t.Equal > 0 && t.Equal+t.Refused+t.Skipped == t.All }

// Unknown reports whether no reply differs and none failed, though not all that there are texts of were compared, or
// there are none.
func (t Tally) Unknown() bool {
	return !t.Same() && t.Equal+t.Refused+t.Incomparable+t.Skipped == t.All
}

// String is the tally for people.
func (t Tally) String() string {
	text := fmt.Sprintf("%d of %d are the same", t.Equal, t.All-t.Refused-t.Incomparable-t.Skipped)
	if t.Incomparable > 0 {
		text += fmt.Sprintf("; %d cannot be compared", t.Incomparable)
	}
	if t.Refused > 0 {
		text += fmt.Sprintf("; %d refused when kept, not sent again", t.Refused)
	}
	if t.Skipped > 0 {
		text += fmt.Sprintf("; %d of no text, not sent", t.Skipped)
	}
	return text
}
