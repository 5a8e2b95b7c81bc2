package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
)

// TestLiveRates: rates are those since a reading some seconds ago, whoever read in between; a model that was loaded
// again has none.
func TestLiveRates(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	next := admin.Live{}
	api := admin.New(admin.Options{Live: func(context.Context) admin.Live { return next }})
	read := func(after time.Duration, m admin.LiveModel) *admin.LiveRates {
		m.ID = "a"
		next = admin.Live{At: began.Add(after), Models: []admin.LiveModel{m}}
		return api.Live(t.Context()).Models[0].Rates
	}
	if r := read(0, admin.LiveModel{}); r != nil {
		t.Errorf("the first reading: %+v", r)
	}
	if r := read(100*time.Millisecond, admin.LiveModel{Steps: 5}); r != nil {
		t.Errorf("too early: %+v", r)
	}
	r := read(2*time.Second, admin.LiveModel{Steps: 10, StepSeconds: 0.5, PrefillTokens: 100, GeneratedTokens: 40,
		PromptTokens: 200, CachedTokens: 50})
	if r == nil || *r.Hits != 0.25 {
		t.Fatalf("after two seconds: %+v", r)
	}
	r.Hits = nil
	if want := (admin.LiveRates{Window: 2, Prefill: 50, Generated: 20, Steps: 5, StepTime: 0.05}); *r != want {
		t.Errorf("after two seconds: %+v, want %+v", *r, want)
	}
	// The first reading is too old now, so that of second 2 counts.
	r = read(6*time.Second, admin.LiveModel{Steps: 10, StepSeconds: 0.5, PrefillTokens: 100, GeneratedTokens: 80,
		PromptTokens: 200, CachedTokens: 50})
	if r == nil || *r != (admin.LiveRates{Window: 4, Generated: 10}) {
		t.Errorf("after six seconds: %+v", r)
	}
	if r := read(7*time.Second, admin.LiveModel{Steps: 1}); r != nil {
		t.Errorf("loaded again: %+v", r)
	}
}

// TestLiveBounds: whatever the guests say and however many there are, the reply has an end.
func TestLiveBounds(t *testing.T) {
	var l admin.Live
	for i := range 3 * admin.MaxLive {
		l.Models = append(l.Models, admin.LiveModel{ID: fmt.Sprint(i)})
		l.Plugins = append(l.Plugins, admin.NewLivePlugin(server.Plugin{Name: fmt.Sprint(i),
			Version: strings.Repeat("é", 1000) + "\xff", Doc: strings.Repeat("x", 1<<16), Faults: map[string]uint64{
				"trap": 2, "fuel": 3}}))
	}
	c := config.Default().Server
	c.AdminKeys = []string{"key"}
	s := server.New(server.Options{Config: c, Log: slog.New(slog.DiscardHandler), APIs: []server.API{
		admin.New(admin.Options{Live: func(context.Context) admin.Live { return l }})}})
	rec := ask(s, http.MethodGet, "/admin/live", "", "")
	var got admin.Live
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 || rec.Body.Len() > 100<<10 {
		t.Fatalf("%d, %d bytes: %v", rec.Code, rec.Body.Len(), err)
	}
	if len(got.Models) != admin.MaxLive || len(got.Plugins) != admin.MaxLive ||
		got.OmittedModels != 2*admin.MaxLive || got.OmittedPlugins != 2*admin.MaxLive {
		t.Errorf("%d models and %d more, %d plugins and %d more", len(got.Models), got.OmittedModels,
			len(got.Plugins), got.OmittedPlugins)
	}
	if p := got.Plugins[0]; p.Faults != 5 || p.Version != strings.Repeat("é", admin.MaxLiveText/2) || p.Kinds == nil {
		t.Errorf("%+v", p)
	}
}
