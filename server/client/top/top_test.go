package top

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/client/call"
)

// serving answers /admin/live and /admin/usage.
func serving(t *testing.T, live, usage string, status int) *call.Caller {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
		if r.URL.Path == "/admin/live" {
			_, _ = w.Write([]byte(live))
		} else {
			_, _ = w.Write([]byte(usage))
		}
	}))
	t.Cleanup(s.Close)
	c, err := call.New(s.URL, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAsk(t *testing.T) {
	c := serving(t, `{"version":"1.2","requests":3,"uptime_seconds":61,"models":[{"id":"m","state":"loaded","waiting":4,
		"running":5,"cache":{"used":5,"total":10},"rates":{"generated_tokens_per_second":12.34,"step_seconds":0.02}}],
		"plugins":[{"name":"p","calls":4,"seconds":0.001,"faults":2,"canary":{"state":"running","shadow":true,"percent":5,
		"version":"2","calls":3,"seconds":0.0003,"faults":1,"instances_out":1,"answers":9,"different_answers":4}}]}`,
		`{"keys":[{"key":"sk-…1","requests":7,"generated_tokens":99},{"key":null,"requests":1}]}`, 200)
	r, err := Ask(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(Lines(r, 200, 100), "\n")
	for _, want := range []string{"tgi 1.2  serving  up 1m1s  in flight 3", "█████░░░░░  50%", "12.3", "20.0ms", "250.0",
		"sk-…1", "(none)", " 99", "\n  shadow 5%                  2            running           3      100.0        1        -         1\n" +
			"    4 of 9 answers differ"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestAskDraining: a server that shuts down serves only one of the routes. What it tells is shown.
func TestAskDraining(t *testing.T) {
	draining := "true"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/admin/live" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"Server is shutting down","error_type":"draining"}`))
			return
		}
		_, _ = w.Write([]byte(`{"version":"1.2","requests":3,"models":[],"plugins":[],"draining":` + draining + `}`))
	}))
	defer s.Close()
	c, err := call.New(s.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Ask(t.Context(), c)
	if text := strings.Join(Lines(r, 200, 100), "\n"); err != nil ||
		!strings.Contains(text, "tgi 1.2  draining  up 0s  in flight 3") {
		t.Errorf("%s, %v", text, err)
	}
	draining = "false"
	if _, err := Ask(t.Context(), c); err == nil || !strings.Contains(err.Error(), "/admin/usage: 503") {
		t.Errorf("a server that serves, and refuses: %v", err)
	}
}

func TestAskRefuses(t *testing.T) {
	for _, c := range []struct {
		live   string
		status int
		want   string
	}{
		{"{}", 401, "admin key"},
		{`{"error":"` + server.ErrAdminOff.Error() + `"}`, 403, "/admin/live: 403: " + server.ErrAdminOff.Error()},
		{"{}", 404, "admin_port"},
		{"no \x1b[2J", 503, `503: no \x1b[2J`},
		{"[1]", 200, "as tgi does"},
		{"null", 200, "no version"},
		{`{"version":"1"}`, 200, "no models"},
		{`{"version":"1","models":[],"plugins":[]}`, 200,
			"/admin/usage: it does not answer as tgi does: its reply has no keys"},
		{`{"version":"` + strings.Repeat("x", maxReply) + `"}`, 200, "bytes"},
	} {
		_, err := Ask(t.Context(), serving(t, c.live, "{}", c.status))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%d: %v, want %q", c.status, err, c.want)
		}
	}
}

// hostileReading is what a server says that wants to harm a terminal.
func hostileReading() Reading {
	evil := "\x1b[2J\r\n\u202e" + strings.Repeat("é漢e\u0301", 1000)
	l := admin.Live{Version: evil, Uptime: 1e300, Requests: -1,
		Memory: admin.LiveMemory{Device: evil, Resident: -1 << 63}}
	for range 500 {
		l.Models = append(l.Models, admin.LiveModel{ID: evil, State: evil, Cache: &admin.LiveCache{Used: 9, Total: 1,
			Bytes: -1}, Rates: &admin.LiveRates{Prefill: 1e300}})
		l.Plugins = append(l.Plugins, admin.LivePlugin{Name: evil, Version: evil, State: evil, SHA256: evil,
			Canary: &admin.CanaryInShort{State: evil, Version: evil, SHA256: evil, Shadow: true}})
	}
	return Reading{Live: l, Keys: []Key{{Name: &evil}}}
}

// holds fails where lines are more, or longer, than a terminal has room for, or move its cursor.
func holds(t *testing.T, lines []string, columns, rows int) {
	t.Helper()
	if len(lines) > max(rows, 1) {
		t.Errorf("%d lines for %d rows", len(lines), rows)
	}
	for _, line := range lines {
		if columnsOf(line) > columns || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Errorf("%d columns: %q", columns, line)
		}
	}
}

// TestHostileServer: whatever a server says, it moves no cursor and takes no more room than there is.
func TestHostileServer(t *testing.T) {
	r := hostileReading()
	for _, size := range [][2]int{{80, 24}, {1, 1}, {300, 50}, {80, 0}} {
		holds(t, Lines(r, size[0], size[1]), size[0], size[1])
	}
}

// TestWatch: a server that cannot be reached is asked again, and the terminal is left as it was.
func TestWatch(t *testing.T) {
	c := serving(t, "{}", "{}", 503)
	ctx, cancel := context.WithCancel(t.Context())
	var screen strings.Builder
	rounds := 0
	err := Watch(ctx, []Source{{"http://a", c}}, time.Millisecond, Screen{Out: &screen, Size: func() (int, int) {
		if rounds++; rounds > 3 {
			cancel()
		}
		return 80, 24
	}})
	cancel()
	text := screen.String()
	if err != nil || strings.Count(text, "asking again") < 3 || !strings.HasSuffix(text, "\x1b[?1049l") {
		t.Errorf("%v: %q", err, text)
	}
}

// picture is what a terminal shows of what was written: text at places, and what clears.
func picture(t *testing.T, written string, columns, rows int) []string {
	t.Helper()
	cells := make([][]rune, rows)
	for i := range cells {
		cells[i] = []rune(strings.Repeat(" ", columns))
	}
	row, column := 0, 0
	clear := func(row, from int) {
		for i := from; i < columns; i++ {
			cells[row][i] = ' '
		}
	}
	for rest := written; rest != ""; {
		if code, ok := strings.CutPrefix(rest, "\x1b["); ok {
			end := strings.IndexFunc(code, unicode.IsLetter)
			switch code[end] {
			case 'H':
				if n, err := fmt.Sscanf(code[:end], "%d;%d", &row, &column); n != 2 || err != nil {
					t.Fatalf("%q", code[:end])
				}
				row, column = row-1, column-1
			case 'K':
				clear(row, min(column, columns-1)) // behind a full row the cursor is on its last character
			case 'J':
				clear(row, min(column, columns-1))
				for i := row + 1; i < rows; i++ {
					clear(i, 0)
				}
			}
			rest = code[end+1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		if row >= rows || column >= columns {
			t.Fatalf("%q is written at row %d, column %d of %d and %d", rest, row, column, rows, columns)
		}
		cells[row][column] = r
		column, rest = column+1, rest[size:]
	}
	out := make([]string, rows)
	for i := range cells {
		out[i] = strings.TrimRight(string(cells[i]), " ")
	}
	return out
}

// TestDraw: in terminals of all sizes, which change, each line is whole and nothing of earlier ones is left.
func TestDraw(t *testing.T) {
	l := admin.Live{Version: "1", Models: []admin.LiveModel{{ID: "m", State: "loaded",
		Cache: &admin.LiveCache{Used: 1, Total: 2}, Rates: &admin.LiveRates{Generated: 123.4}}},
		Plugins: []admin.LivePlugin{{Name: "p"}, {Name: "q"}}}
	wrong := wrapped("/admin/live: dial tcp 127.0.0.1:3000: connect: connection refused", 20)
	for _, size := range [][2]int{{120, 40}, {80, 24}, {20, 4}, {1, 1}, {79, 9}} {
		columns, rows := size[0], size[1]
		var b strings.Builder
		s := Screen{Out: &b}
		full := make([]string, rows)
		for i := range full {
			full[i] = strings.Repeat("x", columns)
		}
		for _, lines := range [][]string{full, Lines(Reading{Live: l}, columns, rows), full,
			within(slices.Clone(wrong), columns, rows)} {
			if err := s.draw(lines, rows); err != nil {
				t.Fatal(err)
			}
			shown := picture(t, b.String(), columns, rows)
			for i := range shown {
				want := ""
				if i < len(lines) {
					want = strings.TrimRight(lines[i], " ")
				}
				if shown[i] != want {
					t.Errorf("%d by %d: row %d shows %q, want %q", columns, rows, i, shown[i], want)
				}
			}
		}
	}
	if text := strings.Join(Lines(Reading{Live: l}, 80, 24), "\n"); !strings.Contains(text, "TOKENS/S") ||
		!strings.Contains(text, "123.4") {
		t.Errorf("80 columns lack the tokens per second:\n%s", text)
	}
	if text := strings.Join(wrong, ""); !strings.HasSuffix(text, "connection refused") || len(wrong) < 4 {
		t.Errorf("%q", wrong)
	}
}

// TestASCII: without UTF-8 nothing is drawn with other characters.
func TestASCII(t *testing.T) {
	var b strings.Builder
	lines := Lines(Reading{Live: admin.Live{Models: []admin.LiveModel{{ID: strings.Repeat("long", 20),
		Cache: &admin.LiveCache{Used: 1, Total: 2}}}, Plugins: []admin.LivePlugin{{}}}}, 90, 24)
	if err := (Screen{Out: &b, ASCII: true}).draw(lines, 24); err != nil {
		t.Fatal(err)
	}
	other := strings.ContainsFunc(b.String(), func(r rune) bool { return r > 0x7e })
	if other || !strings.Contains(b.String(), "#####") {
		t.Errorf("%q", b.String())
	}
}

// TestWatchHangs: of a server that takes requests and answers none it says so.
func TestWatchHangs(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	c, err := call.New(s.URL, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var screen strings.Builder
	err = Watch(ctx, []Source{{"http://a", c}}, time.Millisecond, Screen{Out: &screen, Size: func() (int, int) {
		cancel()
		return 80, 24
	}})
	if err != nil || !strings.Contains(screen.String(), "no answer within 2s") {
		t.Errorf("%v: %q", err, screen.String())
	}
}
