package server_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// TestRetryAfter: a server whose four permits come back every now and then says
// how long that takes.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration // two of them make a request: one before its token, one before its end
		want  string
	}{{6 * time.Second, "3"}, {10 * time.Second, "5"}, {time.Second, "1"}} {
		synctest.Test(t, func(t *testing.T) {
			const permits = 4
			limits := generatetest.Limits()
			limits.MaxConcurrent = permits
			svc := generate.New(&generatetest.Engine{Pause: c.pause}, generatetest.Words{}, limits, nil)
			s := newServer(routes{"/go": func(w http.ResponseWriter, r *http.Request) error {
				one := uint32(1)
				run, err := svc.Start(r.Context(), generate.Draft{Inputs: "a", MaxNewTokens: &one})
				if err != nil {
					return err
				}
				defer run.Close()
				_, err = run.Collect(r.Context())
				return err
			}}, nil)
			// Clients that ask again at once, their requests evenly apart.
			apart := 2 * c.pause / permits
			stop := make(chan struct{})
			var clients sync.WaitGroup
			for i := range permits {
				clients.Go(func() {
					time.Sleep(time.Duration(i) * apart)
					for {
						select {
						case <-stop:
							return
						default:
							if rec := ask(s, "POST", "/go", "{}"); rec.Code != 200 {
								t.Errorf("a client in its turn got %d", rec.Code)
							}
						}
					}
				})
			}
			// Many returns later, half way between two.
			time.Sleep(60*apart + apart/2)
			rec := ask(s, "POST", "/go", "{}")
			if rec.Code != 429 || rec.Header().Get("Retry-After") != c.want {
				t.Errorf("a permit every %s: got %d with Retry-After %q, want %q", apart, rec.Code,
					rec.Header().Get("Retry-After"), c.want)
			}
			if body := rec.Body.String(); body != `{"error":"Model is overloaded","error_type":"overloaded"}` {
				t.Errorf("the body is %s", body)
			}
			close(stop)
			clients.Wait()
		})
	}
}
