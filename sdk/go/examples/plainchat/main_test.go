package main

import (
	"encoding/json"
	"testing"

	"tgi/sdk/go/examples/internal/vectors"
	"tgi/sdk/go/plugintest"
)

// TestVectors: the conversations that the examples of all languages are tested with.
func TestVectors(t *testing.T) {
	for _, c := range vectors.Read(t, "plain-chat") {
		var want string // data in «», as plugintest.Render writes it
		for _, part := range c.Out {
			switch part := part.(type) {
			case string:
				want += part
			case []any:
				want += "«" + part[0].(string) + "»"
			}
		}
		got, err := render(t, c)
		if err != nil {
			got = "refused: " + err.Error()
		}
		if c.Error != "" {
			want = "refused: " + c.Error
		}
		if got != want {
			t.Errorf("%s: %q, want %q", c.About, got, want)
		}
	}
}

func render(t *testing.T, c vectors.Case) (string, error) {
	plugintest.New(t)
	p, err := open(c.Config)
	if err != nil {
		return "", err
	}
	var r struct{ Params json.RawMessage }
	if err := json.Unmarshal(c.Request, &r); err != nil {
		t.Fatal(err)
	}
	if err := p.(plain).Validate(r.Params); err != nil {
		return "", err
	}
	return plugintest.Render(p, string(c.Request))
}
