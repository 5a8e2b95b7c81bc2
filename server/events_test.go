package server_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"tgi/server"
)

// TestKeepAliveCountsFromTheLastEvent: what is waited for may come at any time
// after an earlier event; only silence of 15 seconds brings a comment.
func TestKeepAliveCountsFromTheLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gaps := []time.Duration{10, 14, 14, 16, 1, 14, 31}
		s := newServer(routes{"/slow": func(w http.ResponseWriter, r *http.Request) error {
			e, err := server.StartEvents(w)
			if err != nil {
				return err
			}
			event := make(chan struct{})
			go func() {
				for _, gap := range gaps {
					time.Sleep(gap * time.Second)
					event <- struct{}{}
				}
			}()
			for range gaps {
				_, err := server.Await(r.Context(), e, func(ctx context.Context) (int, error) {
					select {
					case <-event:
						return 0, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				})
				if err != nil {
					return err
				}
				if err := e.Data([]byte("x")); err != nil {
					return err
				}
			}
			return nil
		}}, nil)
		const event, comment = "data: x\n\n", ":\n\n"
		want := event + event + event + comment + event + event + event + comment + comment + event
		if got := ask(s, "POST", "/slow", "").Body.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
