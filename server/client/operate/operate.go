// Package operate asks the admin routes of a server about its plugins, for the commands of tgi plugin.
//
// It owns what these commands print. The routes are those of server/api/admin.
package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/client/call"
	"tgi/server/client/terminal"
	"tgi/server/config"
)

// Server is one that is administrated.
type Server struct {
	caller *call.Caller
	url    string // as it may be shown
	notes  *notes
}

// New returns the server at a URL; key is one of its admin keys.
func New(address, key string) (*Server, error) {
	c, err := call.New(address, key, nil)
	return &Server{c, config.Shown(address), nil}, err
}

// EnvKey is the variable with the admin keys of a server, as the server reads it.
const EnvKey = "ADMIN_KEY"

// AdminKey is the given key or else, where there is none, the first of EnvKey.
func AdminKey(given string, lookup func(string) (string, bool)) string {
	if given == "" {
		all, _ := lookup(EnvKey)
		given, _, _ = strings.Cut(all, ",")
		given = strings.TrimSpace(given)
	}
	return given
}

// otherServer is a hint where nobody listens.
const otherServer = "; --url names another server"

// do asks an admin route and decodes the answer, which has the members, into to. Where that is nil there is none.
func (s *Server) do(ctx context.Context, method, path string, to any, members ...string) error {
	_, err := s.ask(ctx, method, path, "", nil, to, members...)
	return err
}

// ask is do with a body of a media type, unless that is "". It returns the status too.
func (s *Server) ask(ctx context.Context, method, path, kind string, body []byte, to any, members ...string) (int,
	error) {
	limit := patience
	if method == http.MethodGet {
		limit = questionPatience
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: no answer within %s", s.url, limit))
	defer cancel()
	defer s.notes.waits(s.url, limit)()
	header := http.Header{}
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	reply, err := s.caller.Do(ctx, method, path, header, body)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return 0, fmt.Errorf("%w%s", err, otherServer)
	}
	if err != nil {
		return 0, err
	}
	if reply.Status/100 == 2 {
		if to != nil {
			err = reply.Decode(to, members...)
		} else if reply.Status != http.StatusNoContent {
			err = fmt.Errorf("%w: its reply has status %d, not %d", call.ErrForeign, reply.Status, http.StatusNoContent)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", s.url, err)
		}
		return reply.Status, err
	}
	said := cmp.Or(reply.Reason(), terminal.Cut(string(reply.Body), 200))
	if strings.TrimSpace(said) == "" {
		said = http.StatusText(reply.Status)
	}
	hint := ""
	if reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden &&
		!strings.HasPrefix(said, server.ErrUnsigned.Error()) && said != server.ErrAdminOff.Error() {
		hint = "; --key wants one of server.admin_keys"
	}
	return reply.Status, &refusal{reply.Status, fmt.Sprintf("%s: %d %s%s", s.url, reply.Status, lines(said), hint)}
}

// refusal is the error of a server that answered with a status of its own.
type refusal struct {
	status int
	text   string
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

// maxLines bounds the lines of a refusal that are shown as such.
const maxLines = 64

// lines are those of a refusal, such as the violations of a module. What follows the first is indented: it is the
// server's.
func lines(text string) string {
	list := strings.SplitN(strings.TrimRight(text, "\n"), "\n", maxLines)
	for i, line := range list {
		list[i] = terminal.Line(line)
	}
	return strings.Join(list, "\n  ")
}

// same returns an error where a reply is not of the plugin that was asked for, or of another module; sum is its SHA-256
// or the begin of that.
func (s *Server) same(name, sum, gotName, gotSum string) error {
	if gotName == name && gotSum != "" && strings.HasPrefix(gotSum, sum) {
		return nil
	}
	return fmt.Errorf("%s: %w: it says that it has plugin %.64q, sha256 %.64q, and not %q, sha256 %q", s.url,
		call.ErrForeign, gotName, gotSum, name, cmp.Or(sum, "of any module"))
}

// at is the path of a plugin's admin route.
func at(name, route string) string { return "/admin/plugins/" + url.PathEscape(name) + route }

// Versions returns the versions that the server keeps of an uploaded plugin, the serving one first, and as a text:
// one a line, the serving one with a star, and below it which settings it has where another is the same module. Where
// the latest one does not serve, the text says why.
func (s *Server) Versions(ctx context.Context, name string) (list []admin.Version, text string, err error) {
	list, _, err = s.versions(ctx, name)
	if err != nil {
		return nil, "", err
	}
	for _, v := range list {
		mark := " "
		if v.Serving {
			mark = "*"
		}
		text += fmt.Sprintf("%s %.16s  %s  %9d bytes  %s\n", mark, terminal.Line(v.SHA256),
			v.Uploaded.Format(time.RFC3339), v.Bytes, terminal.Line(v.Version))
		if differ := different(v, list); differ != "" {
			text += terminal.Line(fmt.Sprintf("    %s: %s", nameOf(v, list), differ)) + "\n"
		}
		if v.Error != "" {
			text += "  it does not serve: " + terminal.Line(v.Error) + "\n"
		}
	}
	return list, text, nil
}

// versions are those of Versions, with the status of the reply.
func (s *Server) versions(ctx context.Context, name string) ([]admin.Version, int, error) {
	var got struct {
		Versions []admin.Version `json:"versions"`
	}
	status, err := s.ask(ctx, http.MethodGet, at(name, "/versions"), "", nil, &got, "versions")
	for _, v := range got.Versions {
		err = cmp.Or(err, s.same(name, "", name, v.SHA256))
	}
	return got.Versions, status, err
}

// Serving is what serves under a name.
type Serving struct {
	Name    string `json:"name"`
	SHA256  string `json:"sha256"`
	Version string `json:"version"`
	// How it is used, as server.Plugin has it.
	Apply   string            `json:"apply,omitempty"`
	OnError string            `json:"on_error,omitempty"`
	Keys    []string          `json:"keys,omitempty"`
	Limits  map[string]string `json:"limits,omitempty"`
}

// used says how a plugin is used, as a line; "" where the server did not tell.
func used(p server.Plugin) string {
	if p.Apply == "" {
		return ""
	}
	text := fmt.Sprintf("apply %s, on_error %s", applyOf(p), p.OnError)
	if p.OnFull != "" {
		text += fmt.Sprintf(", on_full %s, on_exhausted %s", p.OnFull, p.OnExhausted)
	}
	if len(p.Limits) > 0 {
		text += ", limits " + limitsOf(p)
	}
	return "  " + terminal.Line(text) + "\n"
}

// Delete removes what was uploaded under a name.
func (s *Server) Delete(ctx context.Context, name string) error {
	return s.do(ctx, http.MethodDelete, at(name, ""), nil)
}

// Rollback has an earlier version serve: the latest, or the one whose SHA-256 begins with to. text says so.
func (s *Server) Rollback(ctx context.Context, name, to string) (got Serving, text string, err error) {
	route := "/rollback"
	if to != "" {
		route += "?to=" + url.QueryEscape(to)
	}
	if err = s.do(ctx, http.MethodPost, at(name, route), &got, "name", "sha256"); err == nil {
		err = s.same(name, admin.ParseVersionName(to).SHA256, got.Name, got.SHA256)
	}
	return got, strings.TrimSuffix(got.text(name), "\n") + " again at " + terminal.Line(s.url) + "\n" +
		used(server.Plugin{Apply: got.Apply, OnError: got.OnError, Keys: got.Keys, Limits: got.Limits}), err
}

// text says what serves.
func (s Serving) text(name string) string {
	return fmt.Sprintf("%s: version %q, sha256 %s, serves\n", name, s.Version, terminal.Line(s.SHA256))
}

// poll is how often new lines of a log are asked for.
const poll = time.Second

// Log gives the lines that the server keeps of a plugin behind the one whose Seq is after, and with follow those that
// come, until ctx ends.
func (s *Server) Log(ctx context.Context, name string, after uint64, follow bool,
	line func(admin.LogLine) error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		var got struct {
			Lines []admin.LogLine `json:"lines"`
		}
		err := s.do(ctx, http.MethodGet, at(name, "/log?after="+strconv.FormatUint(after, 10)), &got, "lines")
		if follow && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, l := range got.Lines {
			after = l.Seq
			if err := line(l); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// WriteLine writes a line of a log.
func WriteLine(w io.Writer, l admin.LogLine) error {
	_, err := io.WriteString(w, lineText(l))
	return err
}

// lineText is a line of a log as people read it.
func lineText(l admin.LogLine) string {
	of := l.Of
	if l.Trial != "" {
		of += "/" + l.Trial
	}
	return fmt.Sprintf("%s %-5s %-5s %s\n", l.Time.Local().Format(time.TimeOnly), terminal.Line(l.Level),
		terminal.Line(of), terminal.Line(l.Text))
}
