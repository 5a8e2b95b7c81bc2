package clients

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
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
	pictures := [][]byte{drawn(t, 40, 25), drawn(t, 31, 64)}
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

// drawn is the file of a picture.
func drawn(t *testing.T, width, height int) []byte {
	t.Helper()
	p := visiontest.Picture(width, height, width)
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		m.SetNRGBA(i%width, i/width, color.NRGBA{p.Pix[3*i], p.Pix[3*i+1], p.Pix[3*i+2], 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
