package clients

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/conformance/live"
	"tgi/models/vision/visiontest"
)

// startSeeing starts a server with a tiny model that reads images, and one that has two pictures, and returns what the
// environment of a script says of them.
func startSeeing(t *testing.T) []string {
	t.Helper()
	g, err := visiontest.Read("gemma3")
	if err != nil {
		t.Fatal(err)
	}
	var pictures [][]byte
	for _, size := range [][2]int{{40, 25}, {31, 64}} {
		picture, err := visiontest.PNG(size[0], size[1], size[0])
		if err != nil {
			t.Fatal(err)
		}
		pictures = append(pictures, picture)
	}
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".png")
		if i != "0" && i != "1" {
			http.NotFound(w, r)
			return
		}
		w.Write(pictures[i[0]-'0'])
	}))
	t.Cleanup(files.Close)
	s := live.Start(t, fmt.Sprintf("[model]\npath = %q\nweights = \"fp32\"\n[images]\nhosts = [%q]\n"+
		"private_addresses = true\n", g.Dir, strings.TrimPrefix(files.URL, "http://")))
	forms := map[string][]string{}
	for i, p := range pictures {
		forms["data"] = append(forms["data"], "data:image/png;base64,"+base64.StdEncoding.EncodeToString(p))
		forms["address"] = append(forms["address"], fmt.Sprintf("%s/%d.png", files.URL, i))
	}
	text, err := json.Marshal(forms)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"TGI_SEEING_URL=" + s.URL, "TGI_PICTURES=" + string(text),
		fmt.Sprintf("TGI_IMAGE_TOKENS=%d", g.Runs[0].Tokens[0])}
}
