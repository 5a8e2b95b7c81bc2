package fetch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tgi/models/library"
)

func TestFetchHub(t *testing.T) {
	h, l := newHub(t), newLibrary(t, library.Limits{})
	var last, total int64
	p := &Progress{On: func(d, n int64) { last, total = d, n }}
	if err := fetch(l, quick(Options{}), h.source(), p); err != nil {
		t.Fatal(err)
	}
	complete(t, l)
	var want int64
	for _, data := range checkpoint(t) {
		want += int64(len(data))
	}
	if d, n := p.Bytes(); d != want || n != want || last != want || total != want {
		t.Errorf("progress %d of %d, told %d of %d, want %d", d, n, last, total, want)
	}
	for _, it := range p.Items() {
		if it.Done != it.Total || !strings.HasPrefix(it.URL, h.URL+"/org/model/resolve/"+h.sha+"/") {
			t.Errorf("item %+v", it)
		}
	}
	info, err := l.Describe(id)
	if err != nil || info.Origin.Revision != h.sha || info.Origin.Source != h.URL+"/org/model" ||
		len(info.Origin.SHA256) != len(checkpoint(t)) {
		t.Errorf("origin %+v, %v", info.Origin, err)
	}
	for _, hit := range h.hits {
		if strings.Contains(hit, "README") || strings.Contains(hit, "pytorch") {
			t.Errorf("asked for %s, which serving does not need", hit)
		}
	}
	wantError(t, fetch(l, quick(Options{}), h.source(), nil), library.ErrExists)
	l2 := newLibrary(t, library.Limits{})
	src := h.source()
	src.Revision = "refs/pr/1"
	if err := fetch(l2, quick(Options{}), src, nil); err != nil {
		t.Errorf("revision with slashes: %v", err)
	}
}

// TestBrokenOff breaks every connection at a random point. Odd rounds also end the
// process, as far as the library can tell: a new client goes on from the parts.
func TestBrokenOff(t *testing.T) {
	for _, kind := range []string{"hub", "files", "archive"} {
		t.Run(kind, func(t *testing.T) {
			h, l := newHub(t), newLibrary(t, library.Limits{})
			rng := rand.New(rand.NewPCG(7, uint64(len(kind))))
			h.cut = func(string) int {
				if h.broken.Load() >= 20 {
					return 0
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				return 1 + rng.IntN(30_000)
			}
			src := h.source()
			switch kind {
			case "files":
				src = listSource(h, false)
			case "archive":
				h.files["model.tgz"] = archiveOf(t, checkpoint(t))
				src = Source{URL: h.URL + "/files/model.tgz"}
			}
			rounds := 0
			for ; rounds < 40; rounds++ {
				before := l.Partial(id)
				err := fetch(l, quick(Options{Attempts: 1, Parallel: 1 + rounds%3}), src, nil)
				if err == nil {
					break
				}
				wantError(t, err, ErrUnavailable)
				absent(t, l)
				if after := l.Partial(id); after < before {
					t.Errorf("round %d: %d bytes are left of %d", rounds, after, before)
				}
			}
			if kind == "archive" {
				if _, err := l.Describe(id); err != nil {
					t.Fatal(err)
				}
			} else {
				complete(t, l)
			}
			if h.broken.Load() < 20 || rounds < 3 {
				t.Errorf("%d breaks in %d rounds: the test broke too little", h.broken.Load(), rounds)
			}
		})
	}
}

// TestBrokenOffInOneRun: one call goes on by itself as long as bytes arrive.
func TestBrokenOffInOneRun(t *testing.T) {
	h, l := newHub(t), newLibrary(t, library.Limits{})
	var ranges atomic.Int32
	h.cut = func(string) int { return 9000 }
	h.hook = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") != "" && r.Header.Get("If-Range") != "" {
			ranges.Add(1)
		}
		return false
	}
	if err := fetch(l, quick(Options{Attempts: 2}), h.source(), nil); err != nil {
		t.Fatal(err)
	}
	complete(t, l)
	if ranges.Load() < 5 {
		t.Errorf("%d requests with Range and If-Range", ranges.Load())
	}
}

// listSource lists the hub's checkpoint file by file.
func listSource(h *hub, sums bool) Source {
	src := Source{URL: h.URL + "/files"}
	for name, data := range h.files {
		if name == "README.md" || name == "pytorch_model.bin" {
			continue
		}
		f := File{Path: name}
		if sums {
			sum := sha256.Sum256(data)
			f.SHA256, f.Size = strings.ToUpper(hex.EncodeToString(sum[:])), int64(len(data))
		}
		src.Files = append(src.Files, f)
	}
	return src
}

func archiveOf(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: "m/" + name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const shard = "model-00002-of-00004.safetensors"

// TestWrongChecksum: bytes that do not fit never become a model.
func TestWrongChecksum(t *testing.T) {
	damage := func(h *hub, name string) func() {
		return func() {
			h.hook = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, name) {
					return false
				}
				data := bytes.Clone(h.files[name])
				data[len(data)/2] ^= 1
				w.Write(data)
				return true
			}
		}
	}
	t.Run("lfs", func(t *testing.T) {
		h, l := newHub(t), newLibrary(t, library.Limits{})
		h.set(damage(h, shard))
		wantError(t, fetch(l, quick(Options{}), h.source(), nil), ErrChecksum, shard, "sha256 is ")
		absent(t, l)
		h.set(func() { h.hook = nil })
		if err := fetch(l, quick(Options{}), h.source(), nil); err != nil {
			t.Fatal(err)
		}
		complete(t, l)
	})
	for _, name := range []string{"config.json", "model.safetensors.index.json"} {
		t.Run("git "+name, func(t *testing.T) {
			h, l := newHub(t), newLibrary(t, library.Limits{})
			h.set(damage(h, name))
			wantError(t, fetch(l, quick(Options{}), h.source(), nil), ErrChecksum, "git object is ")
			absent(t, l)
		})
	}
	t.Run("files", func(t *testing.T) {
		h, l := newHub(t), newLibrary(t, library.Limits{})
		h.set(damage(h, shard))
		wantError(t, fetch(l, quick(Options{}), listSource(h, true), nil), ErrChecksum, shard)
		absent(t, l)
	})
	t.Run("archive", func(t *testing.T) {
		h, l := newHub(t), newLibrary(t, library.Limits{})
		h.files["m.tgz"] = archiveOf(t, checkpoint(t))
		src := Source{URL: h.URL + "/files/m.tgz", SHA256: strings.Repeat("0", 64)}
		wantError(t, fetch(l, quick(Options{}), src, nil), ErrChecksum)
		absent(t, l)
	})
	t.Run("size", func(t *testing.T) {
		h, l := newHub(t), newLibrary(t, library.Limits{})
		src := listSource(h, true)
		for i := range src.Files {
			src.Files[i].Size++
		}
		wantError(t, fetch(l, quick(Options{}), src, nil), ErrChecksum, "the list says")
		absent(t, l)
	})
}

// TestPartDamagedOnDisk: what was kept is not believed either.
func TestPartDamagedOnDisk(t *testing.T) {
	h, l := newHub(t), newLibrary(t, library.Limits{})
	h.cut = func(name string) int {
		if name == shard {
			return 5000
		}
		return 0
	}
	wantError(t, fetch(l, quick(Options{Attempts: 1, Parallel: 1}), h.source(), nil), ErrUnavailable)
	part := partPath(filepath.Join(l.Dir(), ".tgi/partial/org+model/work"), shard) + ".part"
	data, err := os.ReadFile(part)
	if err != nil || len(data) == 0 {
		t.Fatal(len(data), err)
	}
	data[0] ^= 1
	if err := os.WriteFile(part, data, 0o644); err != nil {
		t.Fatal(err)
	}
	h.set(func() { h.cut = nil })
	if err := fetch(l, quick(Options{Attempts: 1}), h.source(), nil); err != nil {
		t.Fatal(err)
	}
	complete(t, l)
}

// TestChangedBetweenResumes: the rest of one version is never put behind the
// beginning of another, whatever the server says of versions.
func TestChangedBetweenResumes(t *testing.T) {
	for _, c := range []struct {
		name   string
		noETag bool
		source func(h *hub) Source
	}{
		{"hub", false, (*hub).source},
		{"hub without etag", true, (*hub).source},
		{"files with etag", false, func(h *hub) Source { return listSource(h, false) }},
		{"files without", true, func(h *hub) Source { return listSource(h, false) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, l := newHub(t), newLibrary(t, library.Limits{})
			h.noETag = c.noETag
			good := h.files[shard]
			old := bytes.Clone(good)
			for i := range len(old) - 9000 {
				old[9000+i] ^= 0x55 // the header stays readable
			}
			old2 := bytes.Clone(h.files["generation_config.json"])
			old2[len(old2)-2] = ' '
			h.files[shard], h.files["generation_config.json"] = old, append(old2, '\n')
			h.cut = func(name string) int {
				if name == shard {
					return len(old) - 1000
				}
				return 0
			}
			wantError(t, fetch(l, quick(Options{Attempts: 1, Parallel: 8}), c.source(h), nil), ErrUnavailable)
			h.set(func() {
				h.files[shard], h.files["generation_config.json"], h.cut = good,
					checkpoint(t)["generation_config.json"], nil
				h.sha, h.hits = strings.Repeat("b2", 20), nil
			})
			if err := fetch(l, quick(Options{}), c.source(h), nil); err != nil {
				t.Fatal(err)
			}
			complete(t, l)
			for _, hit := range h.hits {
				if strings.HasPrefix(c.name, "hub") && strings.Contains(hit, shard+" bytes=") {
					t.Errorf("%s: the list says that the part is of another version", hit)
				}
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	h := newHub(t)
	h.token = "secret"
	var stranger atomic.Value // the last Authorization that the other host saw
	stranger.Store("")
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stranger.Store(stranger.Load().(string) + r.Header.Get("Authorization") + r.Header.Get("Referer"))
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(h.files[strings.TrimPrefix(r.URL.Path, "/cdn/")]))
	}))
	t.Cleanup(cdn.Close)
	h.hook = func(w http.ResponseWriter, r *http.Request) bool {
		name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		switch {
		case strings.HasSuffix(name, ".safetensors") && strings.Contains(r.URL.Path, "/resolve/"):
			http.Redirect(w, r, "/moved/"+name, http.StatusTemporaryRedirect) // relative: the token goes along
			return true
		case strings.HasPrefix(r.URL.Path, "/moved/"):
			if r.Header.Get("Authorization") != "Bearer secret" {
				t.Error("a redirect on the same host lost the token")
			}
			http.Redirect(w, r, cdn.URL+"/cdn/"+name+"?signature=hidden", http.StatusFound)
			return true
		}
		return false
	}
	src := h.source()
	src.Token = "secret"
	l := newLibrary(t, library.Limits{})
	if err := fetch(l, quick(Options{}), src, nil); err != nil {
		t.Fatal(err)
	}
	complete(t, l)
	if got := stranger.Load(); got != "" {
		t.Errorf("the other host got %q", got)
	}
	src.Token = "wrong"
	wantError(t, fetch(newLibrary(t, library.Limits{}), quick(Options{}), src, nil), ErrNotFound, "wants a token")

	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
	}))
	t.Cleanup(loop.Close)
	wantError(t, fetch(newLibrary(t, library.Limits{}), quick(Options{}), Source{URL: loop.URL}, nil), ErrSource,
		"more than 10 redirects")

	forbidden := errors.New("host is not on the list")
	allow := func(u *url.URL) error {
		if u.Host == strings.TrimPrefix(cdn.URL, "http://") {
			return forbidden
		}
		return nil
	}
	src.Token = "secret"
	err := fetch(newLibrary(t, library.Limits{}), quick(Options{Allow: allow}), src, nil)
	wantError(t, err, forbidden)
	if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %q tells a secret", err)
	}
	s := New(Options{}).session(nil, "")
	from, to := &http.Request{URL: &url.URL{Scheme: "https", Host: "a"}},
		&http.Request{URL: &url.URL{Scheme: "http", Host: "a"}}
	wantError(t, s.redirect(to, []*http.Request{from}), ErrSource, "from https to http")
}

func TestStatuses(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   error
		hits   int
	}{
		{http.StatusUnauthorized, ErrUnauthorized, 1}, {http.StatusForbidden, ErrForbidden, 1},
		{http.StatusNotFound, ErrNotFound, 1},
		{http.StatusGone, ErrNotFound, 1}, {http.StatusTeapot, ErrSource, 1}, {http.StatusTooManyRequests,
			ErrUnavailable, 3},
		{http.StatusServiceUnavailable, ErrUnavailable, 3}, {http.StatusInternalServerError, ErrUnavailable, 3},
		{http.StatusRequestTimeout, ErrUnavailable, 3},
	} {
		t.Run(http.StatusText(c.status), func(t *testing.T) {
			h, l := newHub(t), newLibrary(t, library.Limits{})
			hits := 0
			h.hook = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/config.json") {
					return false
				}
				hits++
				w.Header().Set("X-Error-Message", "because\nof this")
				w.WriteHeader(c.status)
				return true
			}
			wantError(t, fetch(l, quick(Options{Attempts: 3}), h.source(), nil), c.kind, "config.json",
				"because of this")
			if hits != c.hits {
				t.Errorf("%d requests, want %d", hits, c.hits)
			}
			absent(t, l)
		})
	}
}

// round is a transport that answers from a function.
type round func(*http.Request) (*http.Response, error)

func (f round) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(r *http.Request, status int, body io.Reader, header ...string) *http.Response {
	res := &http.Response{StatusCode: status, ProtoMajor: 2, Header: http.Header{}, Body: io.NopCloser(body),
		ContentLength: -1, Request: r}
	for i := 0; i+1 < len(header); i += 2 {
		res.Header.Set(header[i], header[i+1])
	}
	return res
}

func TestRetryAfterAndBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		wait := "7"
		tr := round(func(r *http.Request) (*http.Response, error) {
			at = append(at, time.Since(start))
			switch len(at) {
			case 1, 2:
				return nil, errors.New("refused")
			case 3:
				return reply(r, http.StatusTooManyRequests, strings.NewReader(""), "Retry-After", wait), nil
			}
			return reply(r, http.StatusNotFound, strings.NewReader("")), nil
		})
		c := New(Options{Transport: tr, Backoff: time.Second, MaxBackoff: 10 * time.Second})
		l := newLibrary(t, library.Limits{})
		wantError(t, fetch(l, c, Source{URL: "http://h/a.tar"}, nil), ErrNotFound)
		if len(at) != 4 {
			t.Fatalf("requests at %v", at)
		}
		gap1, gap2, gap3 := at[1], at[2]-at[1], at[3]-at[2]
		if gap1 < time.Second/2 || gap1 > time.Second || gap2 < time.Second || gap2 > 2*time.Second ||
			gap3 != 7*time.Second {
			t.Errorf("waits %s, %s, %s; want up to 1s, up to 2s, 7s", gap1, gap2, gap3)
		}
		at, wait = nil, "3600"
		wantError(t, fetch(l, c, Source{URL: "http://h/a.tar"}, nil), ErrUnavailable, "1h0m0s", "2m0s")
		// a date has no fractions
		if d := retryAfter(time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat)); d <= 8*time.Second ||
			d > 9*time.Second {
			t.Errorf("a date in 9s is read as %s", d)
		}
	})
}

// hanging gives some bytes and then nothing until the request ends.
type hanging struct {
	ctx   context.Context
	bytes int
}

func (b *hanging) Read(p []byte) (int, error) {
	if b.bytes > 0 {
		n := min(b.bytes, len(p))
		b.bytes -= n
		return n, nil
	}
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// drip gives one byte every 50 seconds.
type drip struct {
	ctx  context.Context
	left int
}

func (b *drip) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	b.left--
	select {
	case <-time.After(50 * time.Second):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	p[0] = 'x'
	return 1, nil
}

func TestSlowServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, library.Limits{})
		var requests int
		c := New(Options{Attempts: 2, Transport: round(func(r *http.Request) (*http.Response, error) {
			requests++
			return reply(r, http.StatusOK, &hanging{r.Context(), 100}), nil
		})})
		start := time.Now()
		wantError(t, fetch(l, c, Source{URL: "http://h/a.tar"}, nil), ErrUnavailable, "no data received for 1m0s")
		if took := time.Since(start); took < 2*time.Minute || took > 4*time.Minute || requests < 2 {
			t.Errorf("given up after %s and %d requests", took, requests)
		}
		// Slow is not stalled.
		c = New(Options{Transport: round(func(r *http.Request) (*http.Response, error) {
			return reply(r, http.StatusOK, &drip{r.Context(), 10}), nil
		})})
		start = time.Now()
		wantError(t, fetch(l, c, Source{URL: "http://h/b.tar"}, nil), library.ErrUnusable)
		if took := time.Since(start); took != 500*time.Second {
			t.Errorf("took %s, want 500s", took)
		}
	})
}

func TestCancelKeepsPartial(t *testing.T) {
	h, l := newHub(t), newLibrary(t, library.Limits{})
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("asked to stop")
	release := make(chan struct{})
	h.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, shard) {
			return false
		}
		w.Write(h.files[shard][:5000])
		w.(http.Flusher).Flush()
		<-release
		return true
	}
	p := &Progress{}
	p.On = func(done, _ int64) {
		if done > 5000 {
			cancel(stop)
		}
	}
	_, err := quick(Options{Parallel: 1}).Fetch(ctx, l, id, h.source(), p)
	close(release)
	wantError(t, err, stop)
	absent(t, l)
	if l.Partial(id) < 1000 {
		t.Errorf("%d bytes are left", l.Partial(id))
	}
	h.set(func() { h.hook, h.hits = nil, nil })
	if err := fetch(l, quick(Options{}), h.source(), nil); err != nil {
		t.Fatal(err)
	}
	complete(t, l)
	if hits := strings.Join(h.hits, "\n"); strings.Contains(hits, "/config.json") {
		t.Errorf("a whole file was asked for again:\n%s", hits)
	}
}

func TestOneAtATime(t *testing.T) {
	h, l := newHub(t), newLibrary(t, library.Limits{})
	reached, release := make(chan struct{}), make(chan struct{})
	h.hook = func(http.ResponseWriter, *http.Request) bool {
		select {
		case reached <- struct{}{}:
			<-release
		case <-release:
		}
		return false
	}
	first := make(chan error)
	go func() { first <- fetch(l, quick(Options{}), h.source(), nil) }()
	<-reached
	wantError(t, fetch(l, quick(Options{}), h.source(), nil), library.ErrInUse)
	close(release)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	complete(t, l)
}

// counted is a body that tells when it is closed.
type counted struct {
	io.ReadCloser
	closed func()
}

func (c counted) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}

func TestParallelIsBounded(t *testing.T) {
	h, l := newHub(t), newLibrary(t, library.Limits{})
	var now, most, shards atomic.Int32
	two := make(chan struct{}) // closed when two shards are asked for
	tr := round(func(r *http.Request) (*http.Response, error) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if strings.HasSuffix(r.URL.Path, ".safetensors") {
			if shards.Add(1) == 2 {
				close(two)
			}
			select {
			case <-two:
			case <-r.Context().Done(): // the client's Idle
			}
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			res.Body = counted{res.Body, func() { now.Add(-1) }}
		}
		return res, err
	})
	if err := fetch(l, quick(Options{Parallel: 2, Transport: tr, Attempts: 1, Idle: 20 * time.Second}), h.source(),
		nil); err != nil {
		t.Fatal(err)
	}
	complete(t, l)
	if most.Load() != 2 {
		t.Errorf("%d requests at a time, want 2", most.Load())
	}
}

// fullDisk is a file that takes no more than room bytes.
type fullDisk struct {
	partFile
	room *atomic.Int64
}

func (f fullDisk) Write(p []byte) (int, error) {
	if f.room.Add(-int64(len(p))) < 0 {
		return 0, &os.PathError{Op: "write", Path: "part", Err: syscall.ENOSPC}
	}
	return f.partFile.Write(p)
}

func TestFullDiskAndLimits(t *testing.T) {
	h, l := newHub(t), newLibrary(t, library.Limits{})
	c := quick(Options{})
	var room atomic.Int64
	room.Store(20_000)
	c.open = func(path string) (partFile, error) {
		f, err := openPart(path)
		return fullDisk{f, &room}, err
	}
	wantError(t, fetch(l, c, h.source(), nil), library.ErrSpace)
	absent(t, l)
	room.Store(1 << 40)
	if err := fetch(l, c, h.source(), nil); err != nil {
		t.Fatal(err)
	}
	complete(t, l)

	small := newLibrary(t, library.Limits{MaxBytes: 30_000, MaxFiles: 100})
	wantError(t, fetch(small, c, h.source(), nil), library.ErrLimit, "30000 bytes")
	wantError(t, fetch(small, c, listSource(h, false), nil), library.ErrLimit, "30000 bytes")
	wantError(t, fetch(newLibrary(t, library.Limits{MaxBytes: 1 << 30, MaxFiles: 3}), c, h.source(), nil),
		library.ErrLimit, "at most 3")
	absent(t, small)
}

func TestHostileListings(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		kind         error
	}{
		{"no json", `<html>`, ErrSource},
		{"no files", `{"siblings": []}`, library.ErrUnusable},
		{"bad sum",
			`{"siblings": [{"rfilename": "config.json"}, {"rfilename": "model.safetensors", "lfs": {"size": 5, "sha256": "xyz"}}]}`, ErrSource},
		{"no sum",
			`{"siblings": [{"rfilename": "config.json"}, {"rfilename": "model.safetensors", "lfs": {"size": 5}}]}`,
			ErrSource},
		{"commit with a path",
			`{"sha": "../../x", "siblings": [{"rfilename": "config.json"}, {"rfilename": "model.safetensors"}]}`,
			ErrSource},
		{"names outside",
			`{"siblings": [{"rfilename": "config.json"}, {"rfilename": "../model.safetensors"}, {"rfilename": "/model.safetensors"}, {"rfilename": "additional_chat_templates/../../x.jinja"}]}`, library.ErrUnusable},
		{"size", `{"siblings": [{"rfilename": "config.json", "size": -5}, {"rfilename": "model.safetensors"}]}`,
			ErrSource},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, l := newHub(t), newLibrary(t, library.Limits{})
			h.hook = func(w http.ResponseWriter, r *http.Request) bool {
				io.WriteString(w, c.answer)
				return true
			}
			wantError(t, fetch(l, quick(Options{}), h.source(), nil), c.kind)
			absent(t, l)
		})
	}
}

func TestBadSources(t *testing.T) {
	list := func(files ...File) Source { return Source{URL: "http://h/", Files: files} }
	for name, c := range map[string]struct {
		src  Source
		kind error
	}{
		"nothing":       {Source{}, ErrSource},
		"scheme":        {Source{URL: "file:///etc/passwd"}, ErrSource},
		"user":          {Source{URL: "http://me:pw@h/x"}, ErrSource},
		"no hub":        {Source{Repo: "a/b"}, ErrSource},
		"both":          {Source{URL: "http://h", Repo: "a/b", Files: []File{{Path: "x"}}}, ErrSource},
		"deep repo":     {Source{URL: "http://h", Repo: "a/b/c"}, ErrSource},
		"bad repo":      {Source{URL: "http://h", Repo: "../b"}, ErrSource},
		"bad revision":  {Source{URL: "http://h", Repo: "a/b", Revision: "a/../b"}, ErrSource},
		"bad token":     {Source{URL: "http://h", Token: "a\r\nX: y"}, ErrSource},
		"lonely token":  {Source{Files: []File{{Path: "x", URL: "http://h/x"}}, Token: "t"}, ErrSource},
		"archive's sum": {Source{URL: "http://h", SHA256: "12"}, ErrSource},
		"outside":       {list(File{Path: "../x"}), library.ErrPath},
		"absolute":      {list(File{Path: "/x"}), library.ErrPath},
		"twice":         {list(File{Path: "Config.json"}, File{Path: "config.json"}), ErrSource},
		"relative":      {Source{Files: []File{{Path: "x"}}}, ErrSource},
		"no config":     {list(File{Path: "model.safetensors"}), library.ErrUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLibrary(t, library.Limits{})
			c2 := New(Options{Transport: round(func(r *http.Request) (*http.Response, error) {
				t.Errorf("%s was requested", r.URL)
				return nil, errRefused
			})})
			err := fetch(l, c2, c.src, nil)
			wantError(t, err, c.kind)
			if strings.Contains(err.Error(), "pw") {
				t.Errorf("error %q tells the password", err)
			}
		})
	}
}

// TestUnsupportedModelEndsEarly: weights of a model that cannot be served are not fetched.
func TestUnsupportedModelEndsEarly(t *testing.T) {
	h, l := newHub(t), newLibrary(t, library.Limits{})
	h.files["config.json"] = bytes.Replace(h.files["config.json"], []byte("Qwen2ForCausalLM"), []byte("BertModel"), 1)
	wantError(t, fetch(l, quick(Options{}), h.source(), nil), library.ErrUnusable, "BertModel")
	for _, hit := range h.hits {
		if strings.Contains(hit, "safetensors") && !strings.Contains(hit, "index") {
			t.Errorf("asked for %s", hit)
		}
	}
	if n := l.Partial(id); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

func TestServersOutOfTheOrdinary(t *testing.T) {
	data := []byte("0123456789")
	for _, c := range []struct {
		name string
		src  File
		get  func(r *http.Request, n int) *http.Response
		kind error
	}{
		{"compressed", File{}, func(r *http.Request, _ int) *http.Response {
			return reply(r, 200, bytes.NewReader(data), "Content-Encoding", "gzip")
		}, ErrSource},
		{"more than announced", File{Size: 5}, func(r *http.Request, _ int) *http.Response {
			return reply(r, 200, bytes.NewReader(data))
		}, ErrChecksum},
		{"304 to no condition", File{}, func(r *http.Request, _ int) *http.Response {
			return reply(r, 304, bytes.NewReader(nil))
		}, ErrSource},
		{"no end", File{}, func(r *http.Request, _ int) *http.Response {
			res := reply(r, 200, bytes.NewReader(data))
			res.ProtoMajor = 1
			return res
		}, ErrSource},
		{"always from the beginning", File{}, func(r *http.Request, _ int) *http.Response {
			res := reply(r, 200, bytes.NewReader(data[:7]), "ETag", `"x"`)
			res.ContentLength = 10
			return res
		}, ErrUnavailable},
		{"416 for ever", File{}, func(r *http.Request, n int) *http.Response {
			if r.Header.Get("Range") != "" {
				return reply(r, 416, bytes.NewReader(nil))
			}
			res := reply(r, 200, bytes.NewReader(data[:7]), "ETag", `"x"`)
			res.ContentLength = 10
			return res
		}, ErrUnavailable},
		{"416 once", File{}, func(r *http.Request, n int) *http.Response {
			if r.Header.Get("Range") != "" {
				return reply(r, 416, bytes.NewReader(nil))
			}
			res := reply(r, 200, bytes.NewReader(data[:min(10, 6+n)]), "ETag", `"x"`)
			res.ContentLength = 10
			return res
		}, library.ErrUnusable}, // whole, and no config.json
		{"if-range ignored", File{}, func(r *http.Request, n int) *http.Response {
			if r.Header.Get("Range") != "" {
				return reply(r, 206, bytes.NewReader(data[7:]), "Content-Range", "bytes 7-9/10", "ETag", `"y"`)
			}
			res := reply(r, 200, bytes.NewReader(data[:7]), "ETag", `"x"`)
			res.ContentLength = 10
			return res
		}, ErrUnavailable},
		{"wrong range", File{}, func(r *http.Request, n int) *http.Response {
			if r.Header.Get("Range") != "" {
				return reply(r, 206, bytes.NewReader(data), "Content-Range", "bytes 3-9/10", "ETag", `"x"`)
			}
			res := reply(r, 200, bytes.NewReader(data[:7]), "ETag", `"x"`)
			res.ContentLength = 10
			return res
		}, ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 0
			client := quick(Options{Attempts: 3, Transport: round(func(r *http.Request) (*http.Response, error) {
				if n++; n > 50 {
					t.Fatal("it never ends")
				}
				return c.get(r, n), nil
			})})
			c.src.Path = "config.json"
			wantError(t, fetch(newLibrary(t, library.Limits{}), client, Source{URL: "http://h/", Files: []File{c.src}},
				nil), c.kind)
		})
	}
}
