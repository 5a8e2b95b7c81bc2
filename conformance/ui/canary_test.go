package ui

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestCanaries: a person sees a new version on trial, what it answers differently, promotes it, and ends another.
func TestCanaries(t *testing.T) {
	demand(t)
	one, two := sure(os.ReadFile(modules+"marker-1.wasm")), sure(os.ReadFile(modules+"marker-2.wasm"))
	s := serve(t, keyed+"[plugins]\nuploads = "+quote(filepath.Join(t.TempDir(), "uploads"))+"\n")
	put := func(query string, wasm []byte) {
		t.Helper()
		call(t, http.MethodPut, s.URL+"/admin/plugins/marker"+query, "boss", string(wasm))
	}
	put("", one)

	p := open(t, s.URL, "/#/plugins")
	p.useKey("boss")
	p.rowOf("marker", "ready")
	p.silent("main", "New versions on trial")
	put("?canary=100&canary_shadow", two)
	p.rowOf("marker", "shadow of 100 % of the requests")
	for i := range 3 {
		call(t, http.MethodPost, s.URL+"/generate", "guest", fmt.Sprintf(
			`{"inputs":"Once","parameters":{"max_new_tokens":5,"seed":%d,"plugins":[{"name":"marker"}]}}`, i))
	}
	p.rowOf("marker", "3 of 3")
	p.checkNames()
	p.shots("plugins-trial")
	p.click("button", "What the trial of marker found")
	p.reads("dialog", "forces another token")
	p.checkNames()
	p.shots("plugins-trial-details")
	p.click("button", "Close")
	p.click("button", "Promote the new version of marker")
	p.find("dialog", "Promote the new version of marker?")
	p.click("button", "Promote")
	p.reads("[role=status]", "marker serves version 2.0.0")
	p.rowOf("marker", "2.0.0 ")
	p.silent("main", "New versions on trial")

	p.click("button", "Replace marker")
	p.upload("Module", sure(filepath.Abs(modules+"marker-1.wasm")))
	p.eventually("the form can try a version first", `(() => {
		const found = [...document.querySelectorAll('form.drop summary')].find((s) => s.textContent === 'Try it first');
		if (found && !found.parentElement.open) found.click();
		return found;
	})()`)
	p.choose("A new version", "answers some requests")
	p.fill("spinbutton", "Percent of the requests", "50")
	p.fill("spinbutton", "It takes over after so many good requests", "1000")
	p.shots("plugins-trial-form")
	p.click("button", "Upload")
	p.reads("[role=status]", "marker version 1.0.0 is on trial")
	p.rowOf("marker", "serves 50 % of the requests · takes over after 1,000 requests")
	p.click("button", "End the trial of marker")
	p.reads("[role=status]", "The trial of marker is over")
	p.silent("main", "New versions on trial")
}
