// Package top shows what servers do now, in a terminal: GET /admin/live and GET /admin/usage, again and again.
//
// Servers are not trusted: a reply is bounded, of lists only so many lines are shown as the terminal has, and of
// texts only what a terminal does not obey.
package top

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/client/call"
	"tgi/server/client/terminal"
)

// Reading is what a server told.
type Reading struct {
	Live admin.Live `json:"live"`
	// Keys is what keys have used; none where the server does not count it.
	Keys []Key `json:"keys"`
}

// Key is what a key has used since the server started.
type Key struct {
	// Name is how the server shows it, nil for requests without a key.
	Name      *string `json:"key"`
	Requests  uint64  `json:"requests"`
	Running   int     `json:"running"`
	Prompt    uint64  `json:"prompt_tokens"`
	Generated uint64  `json:"generated_tokens"`
	Unseen    uint64  `json:"unseen_tokens"`
}

// maxReply bounds a reply; the longest that a server gives has about 100 kB.
const maxReply = 4 << 20

// maxShown bounds what of a refusal is shown.
const maxShown = 300

// Ask asks a server once. One that drains tells what it does still, and no longer what keys have used.
func Ask(ctx context.Context, c *call.Caller) (r Reading, err error) {
	if _, err := get(ctx, c, "/admin/live", &r.Live, "version", "models", "plugins"); err != nil {
		return r, err
	}
	var usage struct {
		Keys []Key `json:"keys"`
	}
	if found, err := get(ctx, c, "/admin/usage", &usage, "keys"); found && err != nil && !r.Live.Draining {
		return r, err
	}
	r.Keys = usage.Keys
	return r, nil
}

// get reads one document, and reports whether there is such a route.
func get(ctx context.Context, c *call.Caller, path string, to any, members ...string) (found bool, err error) {
	reply, err := c.Do(ctx, http.MethodGet, path, nil, nil)
	switch {
	case err != nil:
		return true, err
	case reply.Status == http.StatusForbidden && reply.Reason() == server.ErrAdminOff.Error(): // no key would help
		return true, fmt.Errorf("%s: %d: %w", path, reply.Status, server.ErrAdminOff)
	case reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden:
		return true, fmt.Errorf("%s: %d: the server wants an admin key (--key or ADMIN_KEY; server.admin_keys)", path,
			reply.Status)
	case reply.Status == http.StatusNotFound:
		return false, fmt.Errorf("%s: 404: this server has no such route; its admin routes may be at "+
			"server.admin_port", path)
	case reply.Status != http.StatusOK:
		return true, fmt.Errorf("%s: %d: %s", path, reply.Status,
			terminal.Line(terminal.Cut(string(reply.Body), maxShown)))
	case len(reply.Body) > maxReply:
		return true, fmt.Errorf("%s: the reply has %d bytes, at most %d are read", path, len(reply.Body), maxReply)
	}
	if err := reply.Decode(to, members...); err != nil {
		return true, fmt.Errorf("%s: %s", path, terminal.Line(err.Error()))
	}
	return true, nil
}

// Screen is a terminal.
type Screen struct {
	Out io.Writer
	// Size returns how many columns and rows it has now.
	Size func() (columns, rows int)
	// ASCII says that it shows no other characters.
	ASCII bool
}

// Print writes once what was told, whole.
func (s Screen) Print(answers []Answer) error {
	var b strings.Builder
	for _, line := range show(answers, whole, whole) {
		b.WriteString(s.text(line) + "\n")
	}
	_, err := io.WriteString(s.Out, b.String())
	return err
}

// text is a line as the terminal can show it.
func (s Screen) text(line string) string {
	if s.ASCII {
		return ascii.Replace(line)
	}
	return line
}

// Watch shows servers every so often until ctx ends. One that cannot be reached is shown as that and asked again.
func Watch(ctx context.Context, sources []Source, every time.Duration, s Screen) error {
	// The other screen, no cursor, and no row that goes on in the next one, as after the terminal became narrower.
	const alternate, normal = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
	if _, err := io.WriteString(s.Out, alternate); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(s.Out, normal) }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		answers := AskAll(ctx, sources, max(every, 2*time.Second))
		if ctx.Err() != nil {
			return nil
		}
		columns, rows := s.Size() // now: the answers may have taken seconds
		lines := show(answers, columns, rows)
		if err := s.draw(lines, rows); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// wrapped is a text in lines of at most so many columns.
func wrapped(text string, columns int) (lines []string) {
	from, taken := 0, 0
	for i, r := range text {
		if taken += runeColumns(r); taken > columns && i > from {
			lines = append(lines, text[from:i])
			from, taken = i, runeColumns(r)
		}
	}
	return append(lines, text[from:])
}

// draw writes lines over those that were there, and clears the rows below them.
func (s Screen) draw(lines []string, rows int) error {
	var b strings.Builder
	for i, l := range lines {
		// A row is cleared before it is written: clearing behind a line that fills it would take its last character.
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[K%s", i+1, s.text(l))
	}
	if len(lines) < rows {
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[J", len(lines)+1)
	}
	_, err := io.WriteString(s.Out, b.String())
	return err
}
