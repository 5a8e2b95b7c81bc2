package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"tgi/server/client/call"
	"tgi/server/client/terminal"
	"tgi/server/config"
)

// Fleet are servers of which a command asks the same. Of one server everything is as without a fleet.
type Fleet []*Server

// NewFleet returns the servers at the URLs; key is an admin key of all.
func NewFleet(addresses []string, key string) (Fleet, error) {
	callers, err := call.NewAll(addresses, key)
	f := make(Fleet, len(callers))
	for i, c := range callers {
		f[i] = &Server{c, config.Shown(addresses[i]), nil}
	}
	return f, err
}

// patience bounds what one of several servers may take for a command, so that one that hangs does not hold up what is
// told of the others. Loading a module takes a server a minute at most (limits.time_load).
const patience = 5 * time.Minute

// questionPatience bounds what a server may take for an answer that it has at hand: all that changes nothing and
// compiles no module.
const questionPatience = 15 * time.Second

// noteAfter is when it is said which server is waited for.
const noteAfter = 3 * time.Second

// notes are where it is said. nil says nothing.
type notes struct {
	mu sync.Mutex
	to io.Writer
}

// Note has w told which servers are waited for, where that takes seconds; nil tells nobody. It returns f.
func (f Fleet) Note(w io.Writer) Fleet {
	if w == nil {
		return f
	}
	n := &notes{to: w}
	for _, s := range f {
		s.notes = n
	}
	return f
}

// waits says after a while that a server is waited for, until done is called.
func (n *notes) waits(server string, limit time.Duration) (done func()) {
	if n == nil {
		return func() {}
	}
	answered, said := make(chan struct{}), sync.WaitGroup{}
	said.Go(func() {
		late := time.NewTimer(noteAfter)
		defer late.Stop()
		select {
		case <-answered:
		case <-late.C:
			n.mu.Lock()
			defer n.mu.Unlock()
			fmt.Fprintf(n.to, "tgi: waiting for %s, at most %s\n", terminal.Line(server), limit)
		}
	})
	return func() { close(answered); said.Wait() }
}

// Plan is what was found out about one of several servers before anything was changed at any.
type Plan struct {
	// Done says why there is nothing left to do there, "" where there is.
	Done string
	// Err is why it cannot be done there.
	Err error
}

// Outcome is what came of a command at one of several servers. One of Result and Error is there.
type Outcome struct {
	URL    string `json:"url"`
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`

	text string
}

// of names the server of an outcome, whose error need not name it then.
func (o *Outcome) of(s *Server) {
	o.URL = s.url
	o.Error = strings.TrimSuffix(strings.TrimPrefix(o.Error, s.url+": "), otherServer)
}

// Run does what a verb says at all servers, and says what came of it. Of several servers one may refuse: nothing is
// changed anywhere if that is found out before, and else the others have it, and the error names those that do not.
func (f Fleet) Run(ctx context.Context, v Verb, words []string, say func(v any, text string) error) error {
	if err := config.CheckName(words[0]); err != nil {
		return Misuse(fmt.Sprintf("the name of a plugin %v", err))
	}
	words = slices.Clip(words) // what a verb appends to them is its own at each server
	switch {
	case len(f) == 1:
		return v.Run(ctx, f[0], words, say)
	case v.Lines:
		return f.lines(ctx, v, words, say)
	}
	plans := make([]Plan, len(f))
	if v.Before != nil {
		limited, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
		err := v.Before(limited, f, words, plans)
		cancel()
		if err != nil {
			return err
		}
		if refused := f.refused(plans); refused != nil {
			if err := f.tell(refused, say); err != nil {
				return err
			}
			return f.failed(refused, "nothing was changed at any of them")
		}
	}
	outcomes := make([]Outcome, len(f))
	f.each(ctx, func(ctx context.Context, i int) error {
		if plans[i].Done != "" {
			outcomes[i] = Outcome{Result: map[string]string{"done": plans[i].Done}, text: plans[i].Done + "\n"}
			return nil
		}
		return v.Run(ctx, f[i], words, func(v any, text string) error {
			outcomes[i] = Outcome{Result: v, text: text}
			return nil
		})
	}, func(i int, err error) { outcomes[i] = Outcome{Error: err.Error()} })
	if err := f.tell(outcomes, say); err != nil {
		return err
	}
	return f.failed(outcomes, "")
}

// each calls a function for all servers at the same time, and fail for those of which it returns an error.
func (f Fleet) each(ctx context.Context, ask func(ctx context.Context, i int) error, fail func(i int, err error)) {
	f.endless(ctx, func(ctx context.Context, i int) error {
		limited, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
		defer cancel()
		return ask(limited, i)
	}, fail)
}

// endless is each without a bound of its time.
func (f Fleet) endless(ctx context.Context, ask func(ctx context.Context, i int) error, fail func(i int, err error)) {
	var asked sync.WaitGroup
	for i := range f {
		asked.Go(func() {
			if err := ask(ctx, i); err != nil {
				fail(i, err)
			}
		})
	}
	asked.Wait()
}

// ask finds something out at all servers; what it cannot find out is a reason to change nothing.
func (f Fleet) ask(ctx context.Context, plans []Plan, one func(ctx context.Context, s *Server) (Plan, error)) {
	f.each(ctx, func(ctx context.Context, i int) (err error) {
		plans[i], err = one(ctx, f[i])
		return err
	}, func(i int, err error) { plans[i].Err = err })
}

// refused are the outcomes where one of the plans has an error, nil where none has.
func (f Fleet) refused(plans []Plan) []Outcome {
	outcomes, any := make([]Outcome, len(f)), false
	for i, p := range plans {
		outcomes[i] = Outcome{Result: map[string]string{"unchanged": "it could be done here"},
			text: "it could be done here; nothing was changed\n"}
		if p.Err != nil {
			outcomes[i], any = Outcome{Error: p.Err.Error()}, true
		}
	}
	if !any {
		return nil
	}
	return outcomes
}

// tell says what came of a command, a paragraph for each server.
func (f Fleet) tell(outcomes []Outcome, say func(v any, text string) error) error {
	var b strings.Builder
	for i := range outcomes {
		o := &outcomes[i]
		o.of(f[i])
		text := o.text
		if o.Error != "" {
			text = "failed: " + terminal.Text(o.Error) + "\n"
		}
		fmt.Fprintf(&b, "%s\n", terminal.Line(o.URL))
		for line := range strings.Lines(text) {
			b.WriteString("  " + line)
		}
	}
	return say(map[string][]Outcome{"servers": outcomes}, b.String())
}

// failed is the error of a command that some servers refused: which, so that it can be tried again at them alone.
func (f Fleet) failed(outcomes []Outcome, rest string) error {
	var at []string
	for i, o := range outcomes {
		if o.Error != "" {
			at = append(at, "--url "+f[i].url)
		}
	}
	if len(at) == 0 {
		return nil
	}
	if rest == "" {
		rest = "for these alone: " + strings.Join(at, " ")
	}
	return fmt.Errorf("%d of %d servers failed; %s", len(at), len(f), rest)
}

// lines runs a verb whose results are lines at all servers; each line begins with its server. What fails at one is a
// line when it fails, since others may be followed for long.
func (f Fleet) lines(ctx context.Context, v Verb, words []string, say func(v any, text string) error) error {
	var one sync.Mutex
	var unsaid error // what is wrong with say, and not with a server
	tell := func(o Outcome, text string) error {
		one.Lock()
		defer one.Unlock()
		err := say(o, terminal.Line(o.URL)+" "+text)
		unsaid = cmp.Or(unsaid, err)
		return err
	}
	ask, outcomes := f.each, make([]Outcome, len(f))
	if v.Follows != nil && v.Follows() {
		ask = f.endless
	}
	ask(ctx, func(ctx context.Context, i int) error {
		var err error
		failed := v.Run(ctx, f[i], words, func(v any, text string) error {
			err = tell(Outcome{URL: f[i].url, Result: v}, text)
			return err
		})
		if err != nil {
			return nil // unsaid has it
		}
		return failed
	}, func(i int, err error) {
		o := Outcome{Error: err.Error()}
		o.of(f[i])
		outcomes[i] = o
		_ = tell(o, "failed: "+terminal.Line(o.Error)+"\n") // unsaid has it
	})
	return cmp.Or(unsaid, f.failed(outcomes, ""))
}
