package tgi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// newServer returns a server with this API over e.
func newServer(e *generatetest.Engine, change ...func(*generate.Limits, *config.Config)) *server.Server {
	return newPlugged(e, nil, change...)
}

// newPlugged is newServer with plugins; nil is a server that has no plugins.
func newPlugged(e *generatetest.Engine, p *plugins, change ...func(*generate.Limits, *config.Config)) *server.Server {
	l, c := generatetest.Limits(), config.Default()
	for _, f := range change {
		f(&l, &c)
	}
	service := generate.New(e, generatetest.Words{}, l, nil)
	var list func() []server.Plugin
	if p != nil {
		service.WithPlugins(p)
		list = func() []server.Plugin { return p.installed }
	}
	api := New(Options{
		Service: service, ComputeType: "cpu+optimized", Plugins: list,
		Info: Info{
			ModelID: "demo", ModelDType: "int4", DeviceType: "cpu", Version: "1.2.3",
			Limits: config.Limits{
				MaxConcurrentRequests: 8, MaxBestOf: 2, MaxStopSequences: 4, MaxInputTokens: 10, MaxTotalTokens: 20,
				WaitingServedRatio: 0.3, MaxBatchTotalTokens: 100, MaxWaitingTokens: 20, MaxBatchSize: 8, ValidationWorkers: 2, MaxClientBatchSize: 4,
			},
		},
	})
	return server.New(server.Options{
		Config: c.Server, APIs: []server.API{api}, Healthy: e.Healthy, Log: slog.New(slog.DiscardHandler),
	})
}

// script is the engine's part of a transcript, one line per token:
//
//	token ID "text" LOGPROB [special] [top ID "text" LOGPROB]…
//	end REASON        ends a sequence; the next one follows
//	prefill ID "text" LOGPROB
//	break TEXT        ends the stream with an error of the backend, or early when empty
//	fault TEXT        ends the stream with an error of a plugin
//	plugin NAME       is installed
//	skip NAME TEXT    fails and is passed over
type script struct {
	prefill []generate.PromptToken
	seqs    [][]generate.Token
	tops    [][][]generate.Token
	ends    []llm.Reason
	broken  error
	early   bool
	plugins *plugins
}

// plugins are stubs that know names, refuse parameters that say so, and tell
// which were skipped once their sequence began.
type plugins struct {
	installed []server.Plugin
	skips     []generate.Skip
	began     bool
}

func (p *plugins) Bind(_ context.Context, calls []generate.PluginCall) (generate.BoundPlugins, error) {
	for _, c := range calls {
		if !slices.ContainsFunc(p.installed, func(i server.Plugin) bool { return i.Name == c.Name }) {
			return nil, &generate.Invalid{Msg: "plugin `" + c.Name + "` is not installed"}
		}
		if strings.Contains(string(c.Params), "refuse") {
			return nil, &generate.Invalid{Msg: "plugin `" + c.Name + "`: params " + string(c.Params)}
		}
	}
	if len(calls) == 0 {
		return nil, nil
	}
	return p, nil
}

func (p *plugins) Begin([]llm.Token, int, uint64, int) error {
	p.began = true
	return nil
}
func (p *plugins) Sequence(int) sample.Plugins { return sample.Plugins{} }
func (p *plugins) Close()                      {}
func (p *plugins) Skipped() []generate.Skip {
	if !p.began {
		return nil
	}
	return p.skips
}

func (s *script) read(t *testing.T, line string) {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "prefill":
		tok, _ := scanToken(t, rest)
		s.prefill = append(s.prefill, generate.PromptToken{Token: tok.Token, Text: tok.Text, Logprob: tok.Logprob})
	case "token":
		if len(s.seqs) == len(s.ends) {
			s.seqs, s.tops = append(s.seqs, nil), append(s.tops, nil)
		}
		tok, rest := scanToken(t, rest)
		if after, ok := strings.CutPrefix(rest, " special"); ok {
			tok.Special, rest = true, after
		}
		var tops []generate.Token
		for strings.HasPrefix(rest, " top ") {
			var top generate.Token
			top, rest = scanToken(t, rest[len(" top "):])
			tops = append(tops, top)
		}
		i := len(s.seqs) - 1
		s.seqs[i], s.tops[i] = append(s.seqs[i], tok), append(s.tops[i], tops)
	case "end":
		s.ends = append(s.ends, map[string]llm.Reason{"length": llm.FinishLength, "eos_token": llm.FinishEOS, "stop_sequence": llm.FinishStop}[rest])
	case "break":
		s.early = true
		if rest != "" {
			s.broken = fmt.Errorf("%w: %s", llm.ErrBackend, rest)
		}
	case "fault":
		s.early, s.broken = true, fmt.Errorf("%w: %s", llm.ErrPlugin, rest)
	case "plugin", "skip":
		if s.plugins == nil {
			s.plugins = &plugins{}
		}
		name, reason, _ := strings.Cut(rest, " ")
		if verb == "skip" {
			s.plugins.skips = append(s.plugins.skips, generate.Skip{Plugin: name, Reason: reason})
			break
		}
		s.plugins.installed = append(s.plugins.installed, server.Plugin{
			Name: name, Version: "1.2", SHA256: "ab12", State: server.PluginReady, Kinds: []string{"logits", "sampler"}, Apply: config.ApplyRequest,
		})
	default:
		t.Fatalf("script: %s", line)
	}
}

func scanToken(t *testing.T, s string) (generate.Token, string) {
	var tok generate.Token
	r := strings.NewReader(s)
	if _, err := fmt.Fscanf(r, "%d %q %g", &tok.Token, &tok.Text, &tok.Logprob); err != nil {
		t.Fatalf("script: %s: %v", s, err)
	}
	rest, _ := io.ReadAll(r)
	return tok, string(rest)
}

func (s *script) play(r engine.Request) []engine.Event {
	var events []engine.Event
	for i := range s.seqs {
		reason := llm.FinishLength
		if i < len(s.ends) {
			reason = s.ends[i]
		}
		seq := generatetest.Sequence(r, i, reason, s.seqs[i]...)
		for j := range seq {
			if r.Params.TopN > 0 {
				seq[j].Top = s.tops[i][j]
			}
		}
		if i == 0 && r.Params.PromptLogprobs {
			seq[0].Prefill = s.prefill
		}
		if s.early {
			seq[len(seq)-1].Finish = nil
		}
		events = append(events, seq...)
	}
	return events
}

// TestTranscripts plays testdata/*.txt: the script, a blank line, the request
// (line, headers, blank line, body line), a line "---", and the reply: status, the
// headers to look at (a value of * is any), a blank line and the exact body.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ask, want, ok := strings.Cut(string(text), "---\n")
			if !ok {
				t.Fatal("no --- line")
			}
			var s script
			lines := bufio.NewScanner(strings.NewReader(ask))
			for lines.Scan() && lines.Text() != "" {
				s.read(t, lines.Text())
			}
			lines.Scan()
			method, path, _ := strings.Cut(lines.Text(), " ")
			header := http.Header{"Content-Type": {"application/json"}}
			for lines.Scan() && lines.Text() != "" {
				name, value, _ := strings.Cut(lines.Text(), ": ")
				header.Set(name, value)
			}
			lines.Scan()
			req := httptest.NewRequest(method, path, strings.NewReader(lines.Text()))
			req.Header = header
			rec := httptest.NewRecorder()
			newPlugged(&generatetest.Engine{Script: s.play, Break: s.broken}, s.plugins).ServeHTTP(rec, req)
			if got := show(rec, want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// show writes the reply with the headers that want names.
func show(rec *httptest.ResponseRecorder, want string) string {
	var b strings.Builder
	fmt.Fprintln(&b, rec.Code)
	head, _, _ := strings.Cut(want, "\n\n")
	for _, line := range strings.Split(head, "\n")[1:] {
		name, value, _ := strings.Cut(line, ": ")
		got := strings.Join(rec.Header().Values(name), ", ")
		switch {
		case value == "*" && got != "":
			got = "*"
		case value == "none" && got == "":
			got = "none"
		}
		fmt.Fprintf(&b, "%s: %s\n", name, got)
	}
	return b.String() + "\n" + rec.Body.String()
}
