package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// small is a server whose model has room for 1,100 tokens, each byte of a prompt being one. long is called when a
// prompt has more.
func small(t *testing.T, long func()) string {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Inputs string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		var pieces []string
		for i := range len(body.Inputs) {
			pieces = append(pieces, fmt.Sprintf(`{"start":%d,"stop":%d}`, i, i+1))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(pieces, ","))
	})
	mux.HandleFunc("POST /generate_stream", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Inputs     string
			Parameters struct {
				Tokens int `json:"max_new_tokens"`
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if len(body.Inputs)+body.Parameters.Tokens > 1100 {
			long()
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		steady(body.Parameters.Tokens, 0, 0)(w, 0, "")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// TestModelWithoutRoom: what was measured before a load that fails is reported, with the reason.
func TestModelWithoutRoom(t *testing.T) {
	rep, err := Model(t.Context(), small(t, func() {}), ModelOptions{Outside: func() float64 { return 0.25 }})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Decode) != 3 || rep.PrefillPerSecond <= 0 || rep.Repeat == nil || rep.Beside != nil {
		t.Errorf("%+v", rep)
	}
	var table strings.Builder
	if err := rep.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{rep.BesideError, table.String()} {
		if !strings.Contains(s, "a prompt of 1900 tokens has no first token: 422") {
			t.Errorf("no reason in %q", s)
		}
	}
}

// TestModelAlone: a run without long prompts beside streams sends none.
func TestModelAlone(t *testing.T) {
	url := small(t, func() { t.Error("a long prompt") })
	rep, err := Model(t.Context(), url, ModelOptions{NoBeside: true, Outside: func() float64 { return 0 }})
	if err != nil || rep.Beside != nil || rep.BesideError != "" {
		t.Errorf("%+v, %v", rep, err)
	}
	if err := rep.WriteTable(io.Discard); err != nil {
		t.Error(err)
	}
}

// TestModelInterrupted: an interrupt is no property of the model.
func TestModelInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := Model(ctx, small(t, stop), ModelOptions{Outside: func() float64 { return 0 }})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
