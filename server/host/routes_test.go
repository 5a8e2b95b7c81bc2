package host

import (
	"fmt"
	"testing"

	"tgi/server/config"
)

func TestCheckRoutes(t *testing.T) {
	const health, predict = "server.health_route must not be a path that is served: ",
		"server.predict_route must not be a path that is served: "
	for _, c := range []struct{ predict, health, want string }{
		{"", "", ""},
		{"/v1/endpoints/7:predict", "/v1/endpoints/7", ""},
		{"/same", "/same", ""}, // of other methods
		{"/vertex", "/health", ""},
		{"/v1/models/a:predict", "", ""},
		{"", "/generate", health + `POST /generate. Given: "/generate"`},
		{"", "/metrics", health + `GET /metrics. Given: "/metrics"`},
		{"", "/v1/models/a", health + `GET /v1/models/{id:.+}. Given: "/v1/models/a"`},
		{"/api/ws", "", predict + `GET /api/ws. Given: "/api/ws"`},
		{"http://u:PW@h/x?key=PW", "", "server.predict_route must be a path from the root, without braces and outside of " +
			`/admin/. Given: "http://***@h/x?***"`},
		{"/v1/chat/completions", "", predict + `POST /v1/chat/completions. Given: "/v1/chat/completions"`},
	} {
		err := CheckRoutes(config.Server{PredictRoute: c.predict, HealthRoute: c.health})
		if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
			t.Errorf("%q and %q: got %v\nwant %s", c.predict, c.health, got, c.want)
		}
	}
}
