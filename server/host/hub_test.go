package host

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"tgi/models/demo"
	"tgi/models/library/fetch/hubtest"
	"tgi/server/api/modelsapi"
	"tgi/server/config"
)

// TestServeFromHub: a model that is named and not there is fetched and served under
// its name, with the hub's commit, as TGI does. One that must be fetched holds up none
// that is there.
func TestServeFromHub(t *testing.T) {
	hub := hubtest.New(t, hubtest.Checkpoint)
	clear(hub.Files)
	for _, e := range sure(fs.ReadDir(demo.Checkpoint(), ".")) {
		hub.Files[e.Name()] = sure(fs.ReadFile(demo.Checkpoint(), e.Name()))
	}
	folder := folderOf(t, "there")
	loaded, err := config.Read(settingFlags(t, "--model-id", "org/model", "--hub-url", hub.URL, "--models-folder",
		folder), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	p := openPlugged(t, func(c *config.Config) { c.Model, c.Models = loaded.Config.Model, loaded.Config.Models })
	if info := p.as(t, "", "GET", "/info", "").text; !strings.Contains(info, `"model_id":"org/model","model_sha":"`+
		hubtest.Commit+`"`) {
		t.Errorf("%s", info)
	}
	if r := p.as(t, "", "POST", "/generate", `{`+hello+`}`); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.text)
	}

	gate := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-gate
		hub.ServeHTTP(w, r)
	}))
	defer slow.Close()
	q := openManager(t, folder, func(c *config.Config) {
		c.Models.Hub, c.Models.Folder = slow.URL, filepath.Join(folder, "org") // holds "model"
		c.ModelList = []config.Model{blockOf(config.DemoModel), blockOf("fetched"), blockOf("model")}
		c.ModelList[1].Source = "org/model"
	})
	q.until(t, "model", modelsapi.Running)
	if got := q.status(t, "fetched"); got == string(modelsapi.Running) {
		t.Errorf("what the hub holds back is %s", got)
	}
	close(gate)
	q.until(t, "fetched", modelsapi.Running)
}
