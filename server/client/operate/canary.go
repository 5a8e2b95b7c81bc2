package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tgi/server/api/admin"
	"tgi/server/client/terminal"
	"tgi/server/config"
)

// Misuse is the error of a command that was given what does not go together.
type Misuse string

// Error says what is wrong.
func (m Misuse) Error() string { return string(m) }

// Canary is what is asked of the canary of a plugin.
type Canary struct {
	// Read reads the file of a module.
	Read func(file string) ([]byte, error)

	use
	share                       string
	shadow, texts, promote, end bool
	after, faults, differences  int
	least                       time.Duration
}

// beginning are the flags of a canary that begins, beside those of its use.
var beginning = []string{"share", "shadow", "faults", "promote-after", "promote-time", "differences", "texts"}

// Flags adds what Run reads.
func (c *Canary) Flags(set *pflag.FlagSet) {
	c.use.Flags(set)
	set.StringVar(&c.share, "share", "", "`share` of the requests that get the new version, such as 5%")
	set.BoolVar(&c.shadow, "shadow", false, "show it the requests and compare its answers; no reply depends on it")
	set.IntVar(&c.faults, "faults", 0, "abort it after this `number` of faulty requests; the server's default is 3")
	set.IntVar(&c.after, "promote-after", 0, "have it serve after this `number` of requests, if it is not aborted")
	set.DurationVar(&c.least, "promote-time", 0, "and not before this `time` has passed")
	set.IntVar(&c.differences, "differences", 0,
		"with --shadow --promote-after: abort it after more than this `number` of different requests")
	set.BoolVar(&c.texts, "texts", false, "with --shadow: keep parts of the requests with its differences")
	set.BoolVar(&c.promote, "promote", false, "have the canary serve now")
	set.BoolVar(&c.end, "end", false, "end the canary")
}

// query are the settings of the canary.
func (c *Canary) query() (url.Values, error) {
	share, err := strconv.Atoi(strings.TrimSuffix(c.share, "%"))
	if err != nil || share < 1 || share > 100 {
		return nil, Misuse(fmt.Sprintf("--share is %q: it wants 1%% to 100%%", c.share))
	}
	q := url.Values{"canary": {strconv.Itoa(share)}}
	for key, on := range map[string]bool{"canary_shadow": c.shadow, "canary_texts": c.texts} {
		if on {
			q.Set(key, "true")
		}
	}
	for key, n := range map[string]int{"canary_faults": c.faults, "promote_after": c.after,
		"canary_differences": c.differences} {
		if n != 0 {
			q.Set(key, strconv.Itoa(n))
		}
	}
	c.add(q)
	if c.least != 0 {
		q.Set("promote_time", c.least.String())
	}
	return q, nil
}

// Run does what was asked about a plugin: it begins a canary where there is a file, promotes it, ends it, or tells of
// it. The first result is for programs.
func (c *Canary) Run(ctx context.Context, at *Server, name, file string) (v any, text string, err error) {
	if err := c.misuse(file); err != nil {
		return nil, "", err
	}
	var shown admin.Canary
	switch {
	case c.promote:
		got, err := at.PromoteCanary(ctx, name)
		return got, got.text(name), at.withoutCanary(ctx, name, err)
	case c.end:
		return map[string]string{"ended": name}, fmt.Sprintf("%s: the canary is ended\n", name), at.EndCanary(ctx, name)
	case file == "":
		shown, err = at.Canary(ctx, name)
		err = at.withoutCanary(ctx, name, err)
	default:
		shown, err = c.start(ctx, at, name, file)
	}
	return shown, canaryText(shown), err
}

// withoutCanary adds to an error about a canary that is not there what to do next: begin one, or take another name.
func (s *Server) withoutCanary(ctx context.Context, name string, err error) error {
	if said, ok := errors.AsType[*refusal](err); !ok || said.status != http.StatusNotFound {
		return err
	}
	_, none, other := s.serving(ctx, name)
	switch {
	case none:
		list, _, other := s.List(ctx)
		if other != nil {
			return err
		}
		names := make([]string, len(list))
		for i, p := range list {
			names[i] = p.Name
		}
		return fmt.Errorf("%w, and the server no plugin of that name%s", err,
			terminal.Line(config.Suggest(name, names)))
	case other != nil:
		return err
	}
	return fmt.Errorf("%w; `tgi plugin canary %s FILE --share 5%%` begins one", err, name)
}

// misuse returns what does not go together of what was given.
func (c *Canary) misuse(file string) error {
	begins := c.given()
	if i := slices.IndexFunc(beginning, c.flags.Changed); i >= 0 {
		begins = beginning[i]
	}
	switch {
	case c.promote && c.end, file != "" && (c.promote || c.end):
		return Misuse("a file, --promote and --end do not go together")
	case file == "" && begins != "":
		return Misuse(fmt.Sprintf("--%s is of a canary that begins: the file of its module is missing", begins))
	}
	return nil
}

// start begins the canary.
func (c *Canary) start(ctx context.Context, at *Server, name, file string) (admin.Canary, error) {
	q, err := c.query()
	if err != nil {
		return admin.Canary{}, err
	}
	m, err := c.read(c.Read, file)
	if err != nil {
		return admin.Canary{}, err
	}
	return at.StartCanary(ctx, name, m, q)
}

// StartCanary has the server try a module beside the one that was uploaded. q are settings of the route.
func (s *Server) StartCanary(ctx context.Context, name string, m Module, q url.Values) (got admin.Canary, err error) {
	if _, err = s.put(ctx, at(name, query(q)), m, &got, "name", "state", "canary"); err == nil {
		err = s.same(name, m.sum(), got.Name, got.Canary.SHA256)
	}
	return got, err
}

// Canary tells of the canary of a plugin.
func (s *Server) Canary(ctx context.Context, name string) (got admin.Canary, err error) {
	got, _, err = s.trial(ctx, name)
	return got, err
}

// PromoteCanary has the canary of a plugin serve.
func (s *Server) PromoteCanary(ctx context.Context, name string) (got Serving, err error) {
	if err = s.do(ctx, http.MethodPost, at(name, "/canary/promote"), &got, "name", "sha256"); err == nil {
		err = s.same(name, "", got.Name, got.SHA256)
	}
	return got, err
}

// EndCanary ends the canary of a plugin.
func (s *Server) EndCanary(ctx context.Context, name string) error {
	return s.do(ctx, http.MethodDelete, at(name, "/canary"), nil)
}

// canaryText is a canary as people read it.
func canaryText(c admin.Canary) string {
	var b strings.Builder
	mode := "canary"
	if c.Shadow {
		mode = "shadow"
	}
	fmt.Fprintf(&b, "%s: %s of version %q, sha256 %.16s, for %d%% of the requests since %s: %s\n",
		terminal.Line(c.Name), mode,
		c.Canary.Version, terminal.Line(c.Canary.SHA256), c.Percent,
		c.Began.Local().Format(time.DateTime), terminal.Line(c.State))
	if c.Why != "" {
		fmt.Fprintf(&b, "  %s\n", terminal.Line(c.Why))
	}
	fmt.Fprintf(&b, "  requests   %d bound, %d finished, %d faulty (%d abort it), %d fell back\n", c.Bound, c.Finished,
		c.Faulty, c.AbortAfter, c.Fallbacks)
	if c.PromoteAfter > 0 {
		fmt.Fprintf(&b, "  promotion  after %s, not before %s\n", requests(c.PromoteAfter),
			c.PromoteNotBefore.Local().Format(time.DateTime))
	}
	writeUse(&b, "serving", c.Serving)
	writeUse(&b, mode, c.Canary)
	if x := c.Compared; x != nil {
		fmt.Fprintf(&b, "  compared   %s, %d different, in %s; %s dropped\n", terminal.Count(int(x.Answers), "answer"),
			x.DifferentAnswers, requests(x.Different), requests(x.Dropped))
		for _, d := range x.Samples {
			fmt.Fprintf(&b, "  %s %s, %s", d.Time.Local().Format(time.TimeOnly), terminal.Line(d.Request),
				terminal.Line(d.Kind))
			if d.Step >= 0 {
				fmt.Fprintf(&b, " at token %d", d.Step)
			}
			fmt.Fprintf(&b, ": %s\n", strings.TrimRight(terminal.Line(d.What)+", "+terminal.Line(d.Texts), ", "))
		}
	}
	return b.String()
}

// requests counts them.
func requests[N uint64 | int64 | int](n N) string { return terminal.Count(int(n), "request") }

// shortly is a canary as one line of what tells of its plugin.
func shortly(c *admin.CanaryInShort) string {
	text := fmt.Sprintf("%s, %s: %s, %d faulty; %s, %.3f s, %s", trialOf(c), c.State, requests(c.Bound), c.Faulty,
		terminal.Count(int(c.Calls), "call"), c.Seconds, terminal.Count(int(c.Faults), "fault"))
	if c.Shadow {
		text += fmt.Sprintf("; %d of %s differ, in %s", c.DifferentAnswers, terminal.Count(int(c.Answers), "answer"),
			requests(c.Different))
	}
	return terminal.Line(text)
}

// trialOf names what is tried and on how much.
func trialOf(c *admin.CanaryInShort) string {
	mode := "canary"
	if c.Shadow {
		mode = "shadow"
	}
	return fmt.Sprintf("%s of %d%%, version %q, sha256 %.12s", mode, c.Percent, c.Version, c.SHA256)
}

func writeUse(w io.Writer, name string, u admin.CanaryUse) {
	faults := uint64(0)
	for _, n := range u.Faults {
		faults += n
	}
	fmt.Fprintf(w, "  %-10s %s, %.3f s, %d fuel, %s, %s\n", name, terminal.Count(int(u.Calls), "call"), u.Seconds,
		u.Fuel, terminal.Count(int(faults), "fault"), terminal.Count(int(u.Refusals), "refusal"))
	if g := u.Guard; g != nil {
		fmt.Fprintf(w, "  %-10s %s\n", "", guardText(g))
	}
}
