package tgi

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server"
	"tgi/server/api/apitest"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
	"tgi/server/wire"
)

// sized are limits as a model has them.
var sized = config.Limits{
	MaxConcurrentRequests: 8, MaxBestOf: 2, MaxStopSequences: 4, MaxTopNTokens: 5, MaxInputTokens: 10,
	MaxTotalTokens:     20,
	WaitingServedRatio: 0.3, MaxBatchTotalTokens: 100, MaxWaitingTokens: 20, MaxBatchSize: 8, ValidationWorkers: 2,
	MaxClientBatchSize: 4,
}

// newServer returns a server with this API over e.
func newServer(e *generatetest.Engine, change ...func(*generate.Limits, *config.Config)) *server.Server {
	return newPlugged(e, nil, change...)
}

// newPlugged is newServer with plugins; nil is a server that has no plugins.
func newPlugged(e *generatetest.Engine, p *plugins, change ...func(*generate.Limits, *config.Config)) *server.Server {
	return newChanged(e, p, nil, change...)
}

// newChanged is newPlugged with further options.
func newChanged(e *generatetest.Engine, p *plugins, set func(*Options, *dispatch.Model),
	change ...func(*generate.Limits, *config.Config)) *server.Server {
	l, c := generatetest.Limits(), config.Default()
	for _, f := range change {
		f(&l, &c)
	}
	m := demo(e, l)
	if p != nil {
		generatetest.UserCode{Loop: p.bind, Skips: p.skips}.On(m.Service)
		m.Plugins = func() []server.Plugin { return p.installed }
	}
	o := Options{
		Models: dispatchtest.One(m), Ready: e.Healthy, Version: "1.2.3", Limits: sized, ComputeType: "cpu+optimized",
		ChatDraft: chatDraft, Chat: echo("chat", "messages"), Completion: echo("completion", "prompt"),
	}
	if set != nil {
		set(&o, m)
	}
	return server.New(server.Options{
		Config: c.Server, APIs: []server.API{New(o)}, Healthy: e.Healthy, Log: slog.New(slog.DiscardHandler),
	})
}

// demo is a model over e.
func demo(e generate.Engine, l generate.Limits) *dispatch.Model {
	return &dispatch.Model{ID: "demo", DType: "int4", Device: "cpu",
		Limits: sized, Service: generate.New(e, generatetest.Words{}, l,
			nil)}
}

// chatDraft is a stub of the chat API's: it takes {"messages":TEXT}, adds a
// space, and has no template for "no".
func chatDraft(text []byte, d *dialect.Dialect) (generate.Draft, string, error) {
	q := generate.Draft{RawPrompt: true, DoSample: true}
	err := wire.Decode(text, func(r *wire.Reader) error {
		return r.Object("struct ChatRequest", []wire.Field{
			{Name: "messages", Required: true, Read: wire.Into(&q.Inputs, (*wire.Reader).String)},
			{Name: "max_tokens", Read: wire.Optional(&q.MaxNewTokens, (*wire.Reader).Uint32)},
		})
	})
	if q.Inputs == "no" {
		return q, "", &generate.TemplateError{Msg: "template not found"}
	}
	q.Inputs += " " + d.Name()
	return q, "", err
}

// echo is a stub of OpenAI's handlers: it replies with the field of the body.
func echo(name, field string) BodyHandler {
	return func(w http.ResponseWriter, _ *http.Request, text []byte) error {
		said := ""
		err := wire.Decode(text, func(r *wire.Reader) error {
			return r.Object("struct", []wire.Field{{Name: field, Required: true, Read: wire.Into(&said,
				(*wire.Reader).String)}})
		})
		if err == nil {
			server.WriteJSON(w, append(wire.AppendString(fmt.Appendf(nil, "{%q:", name), said), '}'))
		}
		return err
	}
}

// script is the engine's part of a transcript, one line per token:
//
//	token ID "text" LOGPROB [special] [top ID "text" LOGPROB]…
//	end REASON        ends a sequence; the next one follows
//	prefill ID "text" LOGPROB
//	break TEXT        ends the stream with an error of the backend, or early when empty
//	fault TEXT        ends the stream with an error of a plugin
//	plugin NAME       is installed
//	failed NAME TEXT  could not be loaded
//	skip NAME TEXT    fails and is passed over
//	asked             says, in one token, what the engine was asked for
//	room N            is the limit of prompt and output together
//	messages          is the launcher's switch for /invocations
type script struct {
	room     int
	asked    bool
	messages bool
	prefill  []generate.PromptToken
	seqs     [][]generate.Token
	tops     [][][]generate.Token
	ends     []llm.Reason
	broken   error
	early    bool
	plugins  *plugins
}

// plugins are stubs that know names, refuse parameters that say so, and tell
// which were skipped once their sequence began.
type plugins struct {
	installed []server.Plugin
	skips     []generate.Skip
}

// bind is the Loop of user code.
func (p *plugins) bind(calls []generate.PluginCall) (func(int) sample.Plugins, error) {
	for _, c := range calls {
		if !slices.ContainsFunc(p.installed, func(i server.Plugin) bool { return i.Name == c.Name }) {
			return nil, &generate.Invalid{Msg: "plugin `" + c.Name + "` is not installed"}
		}
		if strings.Contains(string(c.Params), "refuse") {
			return nil, &generate.Invalid{Msg: "plugin `" + c.Name + "`: params " + string(c.Params)}
		}
	}
	return nil, nil
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
		s.ends = append(s.ends, map[string]llm.Reason{"length": llm.FinishLength, "eos_token": llm.FinishEOS,
			"stop_sequence": llm.FinishStop}[rest])
	case "break":
		s.early = true
		if rest != "" {
			s.broken = fmt.Errorf("%w: %s", llm.ErrBackend, rest)
		}
	case "fault":
		s.early, s.broken = true, fmt.Errorf("%w: %s", llm.ErrPlugin, rest)
	case "plugin", "skip", "failed":
		if s.plugins == nil {
			s.plugins = &plugins{}
		}
		name, reason, _ := strings.Cut(rest, " ")
		if verb == "skip" {
			s.plugins.skips = append(s.plugins.skips, generate.Skip{Plugin: name, Reason: reason})
			break
		}
		if verb == "failed" {
			s.plugins.installed = append(s.plugins.installed, server.Plugin{Name: name, State: server.PluginFailed,
				Error: reason, Apply: config.ApplyRequest})
			break
		}
		s.plugins.installed = append(s.plugins.installed, server.Plugin{
			Name: name, Version: "1.2", SHA256: "ab12", State: server.PluginReady, Kinds: []string{"logits", "sampler"},
			Apply: config.ApplyRequest, Params: []byte(reason),
		})
	case "asked":
		s.asked = true
	case "room":
		s.room, _ = strconv.Atoi(rest)
	case "messages":
		s.messages = true
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
	if s.asked {
		p := r.Params
		text := fmt.Sprintf("prompt %d max %d sample %v prefill %v", len(r.Prompt), p.MaxNewTokens, p.Sample,
			p.PromptLogprobs)
		if p.Sample && p.Seed < 100 {
			text += fmt.Sprintf(" seed %d", p.Seed)
		}
		return generatetest.Sequence(r, 0, llm.FinishLength, generate.Token{Token: 1, Text: text, Logprob: -1})
	}
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

// transcript is a file of testdata: the script, a blank line, the request
// (line, headers, blank line, body line), a line "---", and the reply: status, the
// headers to look at (* is any value, # digits, #.# digits with a point, none is
// none), a blank line and the exact body.
// Its dialect is that of the request's header.
type transcript struct {
	name, text string
}

func transcripts(t *testing.T) (all []transcript) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, transcript{strings.TrimSuffix(filepath.Base(file), ".txt"), string(text)})
	}
	return all
}

// play returns the reply and the one wanted. The dialect is what change makes of
// the transcript's, when it is set.
func (c transcript) play(t *testing.T, change func(*dialect.Dialect)) (got, want string) {
	ask, want, ok := strings.Cut(c.text, "---\n")
	if !ok {
		t.Fatal("no --- line")
	}
	var s script
	lines := bufio.NewScanner(strings.NewReader(ask))
	for lines.Scan() && lines.Text() != "" {
		s.read(t, lines.Text())
	}
	req := apitest.Request(lines)
	header := req.Header
	set := func(o *Options, _ *dispatch.Model) { o.MessagesAPI = s.messages }
	if d, ok := dialect.Of(header.Get(dialect.Header)); change != nil && (ok || header.Get(dialect.Header) == "") {
		if !ok {
			d = dialect.Default()
		}
		changed := *d
		change(&changed)
		header.Del(dialect.Header)
		set = func(o *Options, _ *dispatch.Model) { o.MessagesAPI, o.Dialect = s.messages, &changed }
	}
	rec := httptest.NewRecorder()
	newChanged(&generatetest.Engine{Script: s.play, Break: s.broken}, s.plugins, set, func(l *generate.Limits,
		_ *config.Config) {
		l.MaxTotal = cmp.Or(s.room, l.MaxTotal)
	}).ServeHTTP(rec, req)
	return apitest.Reply(rec, want), want
}

func TestTranscripts(t *testing.T) {
	for _, c := range transcripts(t) {
		t.Run(c.name, func(t *testing.T) {
			if got, want := c.play(t, nil); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestServersOwnDialect plays them all with the dialect in the server's settings
// and none in the request.
func TestServersOwnDialect(t *testing.T) {
	for _, c := range transcripts(t) {
		if got, want := c.play(t, func(*dialect.Dialect) {}); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

// TestEveryDifferenceShows flips one field of the dialects at a time: a field
// that no transcript notices does nothing, or is not tested.
func TestEveryDifferenceShows(t *testing.T) {
	all, kind := transcripts(t), reflect.TypeFor[dialect.Dialect]()
	for i := range kind.NumField() {
		f := kind.Field(i)
		if !slices.Contains(strings.Split(f.Tag.Get("of"), ","), "tgi") {
			continue
		}
		noticed := 0
		for _, c := range all {
			got, want := c.play(t, func(d *dialect.Dialect) {
				switch v := reflect.ValueOf(d).Elem().Field(i); v.Kind() {
				case reflect.Bool:
					v.SetBool(!v.Bool())
				case reflect.Uint32:
					v.SetUint(v.Uint() ^ 7)
				default:
					v.SetString(v.String() + " ")
				}
			})
			if got != want {
				noticed++
			}
		}
		if noticed == 0 {
			t.Errorf("no transcript notices %s", f.Name)
		}
		t.Logf("%s shows in %d of %d transcripts", f.Name, noticed, len(all))
	}
}
