package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestReceiptsKeepSettings: a receipt tells whether what an operator configured is the same, and nothing by which a
// client could try what it is. With a key it is the same in other servers, too.
func TestReceiptsKeepSettings(t *testing.T) {
	const settings = `{"hashing_key":40423,"locked":true}`
	ask := func(key, settings string) (mac string) {
		t.Helper()
		p := guarding(t, func(c *config.Config) {
			c.Server.ReceiptKey = key
			var values map[string]any
			if err := json.Unmarshal([]byte(settings), &values); err != nil {
				t.Fatal(err)
			}
			c.Plugin = append(c.Plugin, config.Plugin{Name: "mark", Source: config.Builtin + "watermark",
				OnError: config.OnErrorFail, Apply: config.ApplyAlways, Config: values})
		})
		status, reply := p.call(t, http.MethodPost, "/generate",
			[]byte(`{"inputs":"Once","parameters":{"max_new_tokens":3,"details":true,"do_sample":true,"seed":1}}`))
		var r struct {
			Details struct {
				Receipt struct {
					Plugins []struct {
						Name string
						MAC  string `json:"config_mac"`
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(reply), &r); err != nil || status != 200 {
			t.Fatalf("%d %v: %s", status, err, reply)
		}
		plain := sha256.Sum256([]byte(settings))
		if strings.Contains(reply, hex.EncodeToString(plain[:])) {
			t.Errorf("everybody can try settings: %s", reply)
		}
		for _, used := range r.Details.Receipt.Plugins {
			if used.Name == "mark" {
				mac = used.MAC
			}
		}
		if mac == "" {
			t.Errorf("it does not tell of the settings: %s", reply)
		}
		return mac
	}
	const key = "known to the operator alone"
	first := ask(key, settings)
	if again := ask(key, settings); again != first {
		t.Errorf("%s, another server %s", first, again)
	}
	id, _, _ := strings.Cut(first, ".")
	if other := ask(key, `{"hashing_key":40424,"locked":true}`); other == first || !strings.HasPrefix(other, id) {
		t.Errorf("%s, other settings %s", first, other)
	}
	if own := ask("", settings); strings.HasPrefix(own, id) {
		t.Errorf("%s, without a key %s", first, own)
	}
}
