package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tgi/server/api/admin"
	"tgi/server/client/call"
	"tgi/server/client/terminal"
)

// served says which server a command administrates.
type served struct {
	url, key string
	out      output
}

// flags adds those of the server.
func (s *served) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.url, "url", "http://127.0.0.1:3000", "the server's `URL`")
	cmd.Flags().StringVar(&s.key, "key", "", "one of the server's admin `keys`; by default that of the variable ADMIN_KEY")
	s.out.flag(cmd)
}

// do asks an admin route and decodes the answer into to, unless that is nil.
func (s *served) do(ctx context.Context, method, path string, body []byte, to any) error {
	asks, err := call.New(s.url, cmp.Or(s.key, os.Getenv("ADMIN_KEY")), nil)
	if err != nil {
		return misused("--url: %v", err)
	}
	header := http.Header{}
	if body != nil {
		header.Set("Content-Type", "application/wasm")
	}
	reply, err := asks.Do(ctx, method, path, header, body)
	if err != nil {
		return err
	}
	if reply.Status/100 != 2 {
		var said struct{ Error string }
		if json.Unmarshal(reply.Body, &said) != nil || said.Error == "" {
			said.Error = terminal.Line(string(reply.Body[:min(len(reply.Body), 200)]))
		}
		hint := ""
		if reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden {
			hint = "; --key wants one of server.admin_keys"
		}
		return fmt.Errorf("%s: %d %s%s", s.url, reply.Status, terminal.Line(said.Error), hint)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(reply.Body, to)
}

// at is the path of a plugin's admin route.
func at(name, route string) string {
	return "/admin/plugins/" + url.PathEscape(name) + route
}

// newPluginVersions lists the versions that a server keeps.
func newPluginVersions() *cobra.Command {
	s := &served{}
	cmd := &cobra.Command{
		Use: "versions [flags] NAME", Short: "List the versions that a server keeps of an uploaded plugin",
		Args: takesOne("plugin versions takes the name of one plugin, got %d"),
		RunE: func(cmd *cobra.Command, words []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			var got struct {
				Versions []admin.Version `json:"versions"`
			}
			if err := s.do(ctx, http.MethodGet, at(words[0], "/versions"), nil, &got); err != nil {
				return err
			}
			if s.out.json {
				return printIndented(cmd.OutOrStdout(), got)
			}
			for _, v := range got.Versions {
				mark := " "
				if v.Serving {
					mark = "*"
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %.16s  %s  %9d bytes  %s\n", mark, terminal.Line(v.SHA256),
					v.Uploaded.Format(time.RFC3339), v.Bytes, terminal.Line(v.Version)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	s.flags(cmd)
	return cmd
}

// newPluginRollback has an earlier version serve.
func newPluginRollback() *cobra.Command {
	s, to := &served{}, ""
	cmd := &cobra.Command{
		Use: "rollback [flags] NAME", Short: "Have a server use the version before the one that serves",
		Long: `Have a server use an earlier version of an uploaded plugin: the latest, or the one that --to names. Requests that
run finish with theirs. The version that served is kept, so that a second rollback undoes the first.`,
		Args: takesOne("plugin rollback takes the name of one plugin, got %d"),
		RunE: func(cmd *cobra.Command, words []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			route := "/rollback"
			if to != "" {
				route += "?to=" + url.QueryEscape(to)
			}
			var got struct {
				SHA256  string `json:"sha256"`
				Version string `json:"version"`
			}
			if err := s.do(ctx, http.MethodPost, at(words[0], route), nil, &got); err != nil {
				return err
			}
			if s.out.json {
				return printIndented(cmd.OutOrStdout(), got)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: version %s, sha256 %s, serves\n", words[0],
				terminal.Line(got.Version), terminal.Line(got.SHA256))
			return err
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the first digits of the version's sha256; see plugin versions")
	s.flags(cmd)
	return cmd
}

// logPoll is how often --follow asks for new lines.
const logPoll = time.Second

// newPluginLogs shows what a plugin printed.
func newPluginLogs() *cobra.Command {
	s, follow := &served{}, false
	cmd := &cobra.Command{
		Use: "logs [flags] NAME", Short: "Show what a plugin printed lately on a server, and what went wrong with it",
		Args: takesOne("plugin logs takes the name of one plugin, got %d"),
		RunE: func(cmd *cobra.Command, words []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			for after := uint64(0); ; {
				var got struct {
					Lines []admin.LogLine `json:"lines"`
				}
				route := "/log?after=" + strconv.FormatUint(after, 10)
				if err := s.do(ctx, http.MethodGet, at(words[0], route), nil, &got); err != nil {
					if follow && ctx.Err() != nil {
						return nil
					}
					return err
				}
				for _, l := range got.Lines {
					after = l.Seq
					if err := s.line(cmd.OutOrStdout(), l); err != nil {
						return err
					}
				}
				if !follow {
					return nil
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(logPoll):
				}
			}
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new lines until Ctrl-C")
	s.flags(cmd)
	return cmd
}

// line writes a line of a log; as JSON each is an object on a line of its own.
func (s *served) line(w io.Writer, l admin.LogLine) error {
	if s.out.json {
		return encode(w, l, "")
	}
	_, err := fmt.Fprintf(w, "%s %-5s %-5s %s\n", l.Time.Local().Format(time.TimeOnly), l.Level, l.Of,
		terminal.Line(l.Text))
	return err
}
