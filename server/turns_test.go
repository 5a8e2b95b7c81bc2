package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"tgi/server"
	"tgi/server/generate"
)

// turns counts the work of each client, and gives nobody a processor when it is full.
type turns struct {
	full bool
	of   map[string]int
	now  int // that has a processor
}

func (t *turns) Begin(client string) generate.Turn { return &turn{t, client, false} }

type turn struct {
	turns  *turns
	client string
	has    bool
}

func (t *turn) Take(context.Context) bool {
	if t.turns.full {
		return false
	}
	t.turns.of[t.client]++
	t.turns.now++
	t.has = true
	return true
}

func (t *turn) Yield(context.Context) bool { return true }

func (t *turn) End() {
	if t.has {
		t.turns.now--
	}
}

// TestLongBodiesTakeTurns: a long body is read in its client's turn, and so are metrics collected, which a request that
// ends before does not wait for.
func TestLongBodiesTakeTurns(t *testing.T) {
	all := &turns{of: map[string]int{}}
	inTurn, refused := 0, false
	s := newServer(routes{"/parse": func(w http.ResponseWriter, r *http.Request) error {
		body, err := server.ReadBody(r)
		if err != nil {
			return err
		}
		n, err := server.Parse(r.Context(), body, func(b []byte) (int, error) {
			if inTurn = all.now; refused {
				return 0, &generate.Invalid{Msg: "no"}
			}
			return len(b), nil
		})
		if err == nil && n != len(body) {
			t.Errorf("read %d of %d bytes", n, len(body))
		}
		return err
	}}, func(o *server.Options) { o.Metrics = server.NewMetrics() })
	s.ShareProcessors(all)
	for n, want := range map[int]int{10: 0, 1 << 14: 1} {
		body := strings.Repeat("x", n)
		if rec := ask(s, http.MethodPost, "/parse", body); rec.Code != http.StatusOK || inTurn != want {
			t.Errorf("%d bytes: %d, %d in turn, want %d", n, rec.Code, inTurn, want)
		}
	}
	refused = true
	rec := ask(s, http.MethodPost, "/parse", strings.Repeat("x", 1<<14))
	if rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("a body that is refused: %d", rec.Code)
	}
	if rec := ask(s, http.MethodGet, "/metrics", ""); rec.Code != http.StatusOK ||
		!strings.Contains(rec.Body.String(), "te_request_count") ||
		!strings.HasPrefix(rec.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("metrics: %d %s %.200s", rec.Code, rec.Header(), rec.Body)
	}
	if all.of["address 192.0.2.1"] != 3 || all.now != 0 {
		t.Errorf("turns were %v, %d are not over", all.of, all.now)
	}
	all.full = true
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if err := generate.InTurn(ctx, all, "a", func() { t.Error("it was done") }); !errors.Is(err, gone) {
		t.Error(err)
	}
}
