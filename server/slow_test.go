package server_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/server"
	"tgi/server/config"
)

// trickle is the connection of a client that takes its time for each write.
type trickle struct {
	http.ResponseWriter
	each     time.Duration
	deadline time.Time
}

func (w *trickle) SetWriteDeadline(at time.Time) error {
	w.deadline = at
	return nil
}

func (w *trickle) FlushError() error { return nil }

func (w *trickle) Write(b []byte) (int, error) {
	left := time.Until(w.deadline)
	time.Sleep(min(left, w.each))
	if left < w.each {
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

// TestTricklingReader: a client that accepts each write in time, but hardly so, has
// no longer for a MiB of the reply than for one write. Neither counts the time in
// which there is nothing to write.
func TestTricklingReader(t *testing.T) {
	for name, c := range map[string]struct {
		each, between time.Duration
		size, writes  int
		ends          bool
	}{
		"never in time":         {31 * time.Second, 0, 100, 1, false},
		"in time once":          {29 * time.Second, 0, 100, 1, true},
		"hardly in time, twice": {29 * time.Second, 0, 100, 2, false},
		"a long reply":          {10 * time.Second, 0, 1 << 19, 100, true},
		"a slow stream":         {time.Millisecond, time.Minute, 100, 1000, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			s := newServer(routes{"/flood": func(w http.ResponseWriter, _ *http.Request) error {
				e, err := server.StartEvents(w)
				for range c.writes {
					if err == nil {
						time.Sleep(c.between)
						err = e.Data(make([]byte, c.size))
					}
				}
				ended <- err
				return nil
			}}, func(o *server.Options) { o.Config.WriteTimeout = config.Duration(30 * time.Second) })
			s.ServeHTTP(&trickle{ResponseWriter: httptest.NewRecorder(), each: c.each}, httptest.NewRequest("POST",
				"/flood", strings.NewReader("")))
			if err := <-ended; c.ends != (err == nil) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
