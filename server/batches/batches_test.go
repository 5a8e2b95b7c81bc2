package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	alice = strings.Repeat("a", 64)
	bob   = strings.Repeat("b", 64)
)

func limits() Limits {
	return Limits{Storage: 64 << 20, OwnerStorage: 32 << 20, MaxFile: 8 << 20, MaxLine: 1 << 10, MaxResult: 1 << 16,
		MaxLines: 5000, MaxBatches: 3, Lines: 4, Keep: time.Hour}
}

// echoes answers a line with its body; what says "fail" with a 400.
func echoes(_ context.Context, _, _ string, body []byte) (Reply, error) {
	status := 200
	if strings.Contains(string(body), "fail") {
		status = 400
	}
	return Reply{Status: status, RequestID: "r", Body: body}, nil
}

func open(t *testing.T, folder string, l Limits, do Do) *Store {
	t.Helper()
	s, err := Open(folder, l, do, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put uploads a file.
func put(t *testing.T, s *Store, owner, text string) *File {
	t.Helper()
	u, err := s.Begin(owner)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err = io.WriteString(u, text); err != nil {
		t.Fatal(err)
	}
	f, err := u.Keep("input.jsonl", PurposeBatch, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// input returns n lines with the ids 0, 1, …; text is in their bodies.
func input(n int, text func(i int) string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"%d","method":"POST","url":"/v1/chat/completions","body":{"i":%d,"t":%q}}`+"\n", i, i,
			text(i))
	}
	return b.String()
}

func create(t *testing.T, s *Store, owner, file string) Batch {
	t.Helper()
	b, err := s.Create(owner, Spec{Endpoint: "/v1/chat/completions", InputFile: file, Window: "24h",
		Time:     24 * time.Hour,
		Metadata: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// until waits for a state of a batch.
func until(t *testing.T, s *Store, owner, id string, reached func(Batch) bool) Batch {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		b, err := s.Batch(owner, id)
		if err != nil {
			t.Fatal(err)
		}
		if reached(b) {
			return b
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("the batch is %+v", b)
		}
	}
}

func over(b Batch) bool { return b.over() }

// results reads a file of results.
func results(t *testing.T, s *Store, owner string, id *string) (out []result) {
	t.Helper()
	if id == nil {
		return nil
	}
	f, file, err := s.OpenFile(owner, *id)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil || int64(len(text)) != file.Bytes || file.Purpose != PurposeOutput {
		t.Fatalf("%+v: %d bytes, %v", file, len(text), err)
	}
	for _, l := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		var r result
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		out = append(out, r)
	}
	return out
}

// TestBatch: answers and errors come in the order of the input, each request once, with its own id and its reply.
func TestBatch(t *testing.T) {
	s := open(t, t.TempDir(), limits(), func(ctx context.Context, o, p string, body []byte) (Reply, error) {
		time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		return echoes(ctx, o, p, body)
	})
	defer s.Close()
	f := put(t, s, alice, input(200, func(i int) string {
		return map[bool]string{true: "fail",
			false: "ok"}[i%5 == 3]
	}))
	b := until(t, s, alice, create(t, s, alice, f.ID).ID, over)
	if b.Status != Completed || b.Counts != (Counts{200, 160, 40}) || b.Metadata["k"] != "v" || b.CompletedAt == nil ||
		b.InProgressAt == nil || b.FinalizingAt == nil || b.Errors != nil {
		t.Fatalf("%+v", b)
	}
	good, bad := results(t, s, alice, b.OutputFile), results(t, s, alice, b.ErrorFile)
	if len(good) != 160 || len(bad) != 40 {
		t.Fatalf("%d answers, %d errors", len(good), len(bad))
	}
	checkOrder(t, good)
	checkOrder(t, bad)
	if r := bad[0]; r.Custom != "3" || r.Response.Status != 400 || r.Error != nil || r.Response.RequestID != "r" ||
		!strings.HasPrefix(r.ID, "batch_req_") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(s.path(alice, b.ID+journalExt)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the journal is still there")
	}
	isolated(t, s, f.ID, b)
}

// checkOrder: the numbers of custom_id ascend.
func checkOrder(t *testing.T, list []result) {
	t.Helper()
	last := -1
	for _, r := range list {
		var n int
		if _, err := fmt.Sscan(r.Custom, &n); err != nil || n <= last {
			t.Fatalf("%q comes behind %d", r.Custom, last)
		}
		last = n
	}
}

// isolated: nobody else sees, reads, cancels or deletes what is alice's.
func isolated(t *testing.T, s *Store, file string, b Batch) {
	t.Helper()
	for _, id := range []string{file, *b.OutputFile, *b.ErrorFile} {
		_, err := s.File(bob, id)
		_, _, opened := s.OpenFile(bob, id)
		for _, err := range []error{err, opened, s.DeleteFile(bob, id)} {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("another's file: %v", err)
			}
		}
	}
	_, err := s.Batch(bob, b.ID)
	_, cancelled := s.Cancel(bob, b.ID)
	_, made := s.Create(bob, Spec{Endpoint: "/v1/chat/completions", InputFile: file, Time: time.Hour})
	for _, err := range []error{err, cancelled, made} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("another's batch: %v", err)
		}
	}
	files, _, _ := s.Files(bob, "", "", 10, false)
	list, _, _ := s.Batches(bob, "", 10)
	if len(files)+len(list) != 0 {
		t.Errorf("others' lists: %v %v", files, list)
	}
}

// copyFolder copies a folder as it is at the moment, as a machine that stops leaves it.
func copyFolder(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestCrash stops in the middle, again and again, with a torn record: in the end each request has one result.
func TestCrash(t *testing.T) {
	const n = 120
	folder, id := t.TempDir(), ""
	var asked atomic.Int64
	for round := 0; ; round++ {
		if round > 50 {
			t.Fatal("no end")
		}
		stopAt := asked.Load() + 17
		gate := make(chan struct{})
		s := open(t, folder, limits(), func(ctx context.Context, o, p string, body []byte) (Reply, error) {
			if asked.Add(1) > stopAt {
				select {
				case <-gate:
				case <-ctx.Done():
					return Reply{}, ctx.Err()
				}
			}
			return echoes(ctx, o, p, body)
		})
		if id == "" {
			id = create(t, s, alice, put(t, s, alice, input(n, func(int) string { return "ok" })).ID).ID
		}
		b := until(t, s, alice, id, func(b Batch) bool { return b.over() || asked.Load() > stopAt })
		if b.over() {
			if got := results(t, s, alice, b.OutputFile); len(got) != n || b.Counts.Completed != n {
				t.Fatalf("%d results, %+v", len(got), b)
			} else {
				checkOrder(t, got)
			}
			_ = s.Close()
			t.Logf("%d rounds, %d requests were asked for %d results", round, asked.Load(), n)
			return
		}
		next := copyFolder(t, folder)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		folder = next
		tear(t, filepath.Join(folder, alice, id+journalExt), round)
	}
}

// tear cuts the last record, or leaves a piece of one behind it.
func tear(t *testing.T, path string, round int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return // not even begun
	}
	switch round % 3 {
	case 0:
		text = text[:max(0, len(text)-5)]
	case 1:
		text = append(text, appendRecord(nil, 119, true, []byte(`{"custom_id":"119"}`))[:20]...)
	case 2:
		text = append(text, make([]byte, 40)...) // a page that was never written
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestStopping: a server that shuts down leaves the batch as it is, and the next one goes on; a second process cannot
// have the folder.
func TestStopping(t *testing.T) {
	folder := t.TempDir()
	var draining atomic.Bool
	var asked sync.Map
	s := open(t, folder, limits(), func(ctx context.Context, o, p string, body []byte) (Reply, error) {
		if draining.Load() {
			return Reply{}, ErrStopping
		}
		asked.Store(string(body), true)
		return echoes(ctx, o, p, body)
	})
	b := create(t, s, alice, put(t, s, alice, input(300, func(int) string { return "ok" })).ID)
	until(t, s, alice, b.ID, func(b Batch) bool { return b.Counts.Completed > 20 })
	draining.Store(true)
	if _, err := Open(folder, limits(), echoes, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrInUse) {
		t.Errorf("two have the same folder: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	twice := 0
	s = open(t, folder, limits(), func(ctx context.Context, o, p string, body []byte) (Reply, error) {
		if _, before := asked.LoadOrStore(string(body), true); before {
			twice++
		}
		return echoes(ctx, o, p, body)
	})
	defer s.Close()
	b = until(t, s, alice, b.ID, over)
	if got := results(t, s, alice, b.OutputFile); b.Status != Completed || len(got) != 300 || twice != 0 {
		t.Errorf("%s, %d results, %d were asked twice", b.Status, len(got), twice)
	}
}

// TestCancel: what was answered stays; cancelling twice, and by many at once, is once; what is over cannot be
// cancelled.
func TestCancel(t *testing.T) {
	var n atomic.Int64
	s := open(t, t.TempDir(), limits(), func(ctx context.Context, o, p string, body []byte) (Reply, error) {
		if n.Add(1) > 10 {
			<-ctx.Done()
			return Reply{}, ctx.Err()
		}
		return echoes(ctx, o, p, body)
	})
	defer s.Close()
	f := put(t, s, alice, input(100, func(int) string { return "ok" }))
	b := create(t, s, alice, f.ID)
	until(t, s, alice, b.ID, func(b Batch) bool { return b.Counts.Completed == 10 })
	if err := s.DeleteFile(alice, f.ID); !errors.Is(err, ErrConflict) {
		t.Errorf("the input of a batch that runs was deleted: %v", err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := s.Cancel(alice,
				b.ID); err == nil && got.Status != Cancelling || err != nil && !errors.Is(err,
				ErrConflict) {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	all.Wait()
	b = until(t, s, alice, b.ID, over)
	if got := results(t, s, alice, b.OutputFile); b.Status != Cancelled || len(got) != 10 || b.ErrorFile != nil ||
		b.CancellingAt == nil || b.CancelledAt == nil || b.Counts != (Counts{100, 10, 0}) {
		t.Errorf("%d results, %+v", len(got), b)
	}
	if _, err := s.Cancel(alice, b.ID); !errors.Is(err, ErrConflict) {
		t.Errorf("cancelled again: %v", err)
	}
	if err := s.DeleteFile(alice, f.ID); err != nil {
		t.Error(err)
	}
}

// TestExpiry: when the window is over what was not answered is among the errors; a clock that was set back does not
// make the window longer.
func TestExpiry(t *testing.T) {
	var n atomic.Int64
	s := open(t, t.TempDir(), limits(), func(ctx context.Context, o, p string, body []byte) (Reply, error) {
		if n.Add(1) > 5 {
			<-ctx.Done()
			return Reply{}, ctx.Err()
		}
		return echoes(ctx, o, p, body)
	})
	defer s.Close()
	f := put(t, s, alice, input(20, func(int) string { return "ok" }))
	b, err := s.Create(alice, Spec{Endpoint: "/v1/chat/completions", InputFile: f.ID, Window: "1s", Time: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	b = until(t, s, alice, b.ID, over)
	good, bad := results(t, s, alice, b.OutputFile), results(t, s, alice, b.ErrorFile)
	if b.Status != Expired || len(good) != 5 || len(bad) != 15 || b.Counts != (Counts{20, 5, 15}) ||
		b.ExpiredAt == nil {
		t.Fatalf("%d answers, %d errors, %+v", len(good), len(bad), b)
	}
	if r := bad[0]; r.Response != nil || r.Error == nil || r.Error.Code != "batch_expired" {
		t.Errorf("%+v", r)
	}
	s.expire(time.Now().Add(2 * time.Hour))
	files, _, _ := s.Files(alice, "", "", 10, false)
	list, _, _ := s.Batches(alice, "", 10)
	_ = s.Close() // what the run had taken is given back
	if len(files)+len(list) != 0 || s.used != 0 {
		t.Errorf("what was not to be kept: %v %v, %d bytes", files, list, s.used)
	}
}

// TestWrongInput: a batch whose input is wrong fails, with the lines, before anything runs.
func TestWrongInput(t *testing.T) {
	l := limits()
	l.MaxLines = 3
	s := open(t, t.TempDir(), l, func(context.Context, string, string, []byte) (Reply, error) {
		t.Error("a line was run")
		return Reply{}, ErrStopping
	})
	defer s.Close()
	good := func(id string) string {
		return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{}}`, id)
	}
	for text, want := range map[string]string{
		"\n\n":                       "empty_file",
		good("a") + "\n" + good("a"): "duplicate_custom_id 2",
		good("a") + "\n{":            "invalid_json_line 2",
		strings.Replace(good("a"), "{}", `{},"body":{}`, 1): "invalid_json_line 1",
		strings.Replace(good("a"), "{}", `{},"Body":{}`, 1): "invalid_json_line 1",
		"[1]":                                  "invalid_json_line 1",
		`{"custom_id":3}`:                      "invalid_json_line 1",
		`{"method":[]}`:                        "invalid_json_line 1",
		"\xff\n" + good("a"):                   "invalid_json_line 1",
		strings.Repeat("x", 3000):              "line_too_long 1",
		strings.Repeat(good("")+"\n", 2) + "x": "missing_required_parameter 1",
		strings.Replace(good("a"), "POST", "GET", 1):                       "invalid_method 1",
		strings.Replace(good("a"), "chat/completions", "models", 1):        "invalid_url 1",
		strings.Replace(good("a"), "{}", "[]", 1):                          "missing_required_parameter 1",
		strings.Replace(good("a"), "{}", `{"stream":true}`, 1):             "invalid_value 1",
		good("a") + "\n" + good("b") + "\n" + good("c") + "\n" + good("d"): "too_many_requests 4",
		good(strings.Repeat("i", 600)):                                     "invalid_value 1",
	} {
		b := until(t, s, alice, create(t, s, alice, put(t, s, alice, text).ID).ID, over)
		if b.Status != Failed || b.Errors == nil || b.FailedAt == nil {
			t.Errorf("%.80q: %+v", text, b)
			continue
		}
		got, said := b.Errors.Data[0].Code, b.Errors.Data[0].Message
		if strings.Contains(said, "json:") || strings.Contains(said, "struct") || strings.Contains(said, "Go ") {
			t.Errorf("%.80q: types of Go: %s", text, said)
		}
		if n := b.Errors.Data[0].Line; n != nil {
			got += fmt.Sprint(" ", *n)
		}
		if got != want {
			t.Errorf("%.80q: %s, want %s", text, got, want)
		}
	}
}

// TestQuota: files beyond what a key, or all, may have are refused and leave nothing; a batch whose results do not fit
// says so.
func TestQuota(t *testing.T) {
	l := limits()
	l.OwnerStorage, l.Storage, l.MaxFile = 3<<20, 5<<20, 2<<20
	big := strings.Repeat("x", 60_000)
	s := open(t, t.TempDir(), l, func(context.Context, string, string, []byte) (Reply, error) {
		return Reply{Status: 200, Body: fmt.Appendf(nil, "%q", big)}, nil
	})
	defer s.Close()
	write := func(owner string, n int) error {
		u, err := s.Begin(owner)
		if err != nil {
			return err
		}
		defer u.Close()
		if _, err := u.Write(make([]byte, n)); err != nil {
			return err
		}
		_, err = u.Keep("x", PurposeBatch, 0)
		return err
	}
	if err := write(alice, 3<<20); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large file: %v", err)
	}
	if err := errors.Join(write(alice, 2<<20), write(bob, 2<<20)); err != nil {
		t.Error(err)
	}
	if err := write(alice, 2<<20); !errors.Is(err, ErrQuota) || !strings.Contains(err.Error(), "key_storage") {
		t.Errorf("beyond the key's storage: %v", err)
	}
	if err := write(strings.Repeat("c", 64), 2<<20); !errors.Is(err, ErrQuota) ||
		!strings.Contains(err.Error(), "batches.storage") {
		t.Errorf("beyond the storage of all: %v", err)
	}
	f := put(t, s, bob, input(100, func(int) string { return "ok" }))
	b := until(t, s, bob, create(t, s, bob, f.ID).ID, over)
	if b.Status != Failed || b.FinalizingAt == nil || b.Errors == nil || b.OutputFile == nil ||
		b.Errors.Data[0].Code != "storage_exceeded" || len(results(t, s, bob, b.OutputFile)) != b.Counts.Completed {
		t.Errorf("results that do not fit: %+v", b)
	}
	left, _ := filepath.Glob(filepath.Join(s.folder, "*", "*"+tempExt))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	used := s.used
	_ = s.Close()
	again := open(t, s.folder, l, echoes)
	if again.used != used {
		t.Errorf("%d bytes are used, %d when it is opened again", used, again.used)
	}
	_ = again.Close()
}

// TestRetries: a line that finds no room is asked again, without a slot while it waits; one that never fits is an
// error.
func TestRetries(t *testing.T) {
	var n atomic.Int64
	s := open(t, t.TempDir(), limits(), func(ctx context.Context, o, p string, body []byte) (Reply, error) {
		switch {
		case strings.Contains(string(body), "never"):
			return Reply{Status: 429, Body: []byte(`{}`)}, nil
		case n.Add(1) <= 2:
			return Reply{Status: 503, Body: []byte(`{}`)}, nil
		}
		return echoes(ctx, o, p, body)
	})
	defer s.Close()
	f := put(t, s, alice, input(10, func(i int) string { return map[bool]string{true: "never"}[i == 9] }))
	b := until(t, s, alice, create(t, s, alice, f.ID).ID, over)
	if b.Counts != (Counts{10, 9, 1}) || n.Load() != 11 {
		t.Errorf("%+v after %d questions", b.Counts, n.Load())
	}
}

// TestPages: lists in both orders, in pages.
func TestPages(t *testing.T) {
	s := open(t, t.TempDir(), limits(), echoes)
	defer s.Close()
	seen := map[string]bool{}
	for range 7 {
		put(t, s, alice, "x")
	}
	after := ""
	for pages := 0; ; pages++ {
		list, more, err := s.Files(alice, PurposeBatch, after, 3, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			seen[f.ID] = true
		}
		if after = list[len(list)-1].ID; !more {
			if pages != 2 || len(seen) != 7 {
				t.Errorf("%d pages, %d files", pages+1, len(seen))
			}
			break
		}
	}
	if _, _, err := s.Files(alice, "", "../lock", 3, false); !errors.Is(err, ErrInvalid) {
		t.Errorf("after what is not there: %v", err)
	}
	if list, _, _ := s.Files(alice, "vision", "", 3, false); len(list) != 0 {
		t.Error("files of another purpose are listed")
	}
}

// FuzzLines: whatever is read, no line is longer than allowed, each has an id and an object, and all bytes are read.
func FuzzLines(f *testing.F) {
	f.Add([]byte(input(3, func(int) string { return "x" })))
	f.Add([]byte("\xef\xbb\xbf{}\r\n\n\x00"))
	f.Add([]byte(`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"a":[{}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l := newLines(strings.NewReader(string(text)), "/v1/chat/completions", 200)
		for n := 0; ; n++ {
			one, wrong, err := l.next()
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil || n > len(text):
				t.Fatal(err)
			case wrong == nil && (one.custom == "" || !json.Valid(one.body) || one.body[0] != '{' ||
				len(one.body) > 202):
				t.Fatalf("%+v", one)
			case wrong != nil && (wrong.Line == nil || *wrong.Line < 1 || wrong.Message == ""):
				t.Fatalf("%+v", wrong)
			}
		}
	})
}

// FuzzJournal: whatever a journal has, opening it keeps whole records alone, and adding goes on behind them.
func FuzzJournal(f *testing.F) {
	whole := appendRecord(appendRecord(nil, 3, true, []byte(`{"a":1}`)), 0, false, []byte(`{}`))
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add(append(whole, whole...))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "j")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for round := range 2 {
			j, err := openJournal(path, 5)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				if j.has(i) {
					if _, _, err := j.result(i); err != nil {
						t.Fatal(err)
					}
				} else if err := j.add(i, true, []byte(`{}`)); err != nil || round == 1 {
					t.Fatalf("round %d: %v", round, err)
				}
			}
			_ = j.file.Close()
		}
	})
}

// TestFilesOfOneSecond: files and batches that are made in one second are listed in the order in which they were made.
func TestFilesOfOneSecond(t *testing.T) {
	s := open(t, t.TempDir(), limits(), echoes)
	defer s.Close()
	var made []string
	for range 20 {
		made = append(made, put(t, s, alice, "x").ID)
	}
	list, _, err := s.Files(alice, "", "", 100, true)
	if err != nil || len(list) != len(made) {
		t.Fatalf("%d files, error %v", len(list), err)
	}
	for i, f := range list {
		if f.ID != made[i] {
			t.Errorf("file %d is %s, want %s", i, f.ID, made[i])
		}
	}
}
