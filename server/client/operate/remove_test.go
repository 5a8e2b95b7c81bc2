package operate

import (
	"fmt"
	"strings"
	"testing"

	"tgi/server"
)

// TestRemove: the command says what went with an upload, and removes nothing where the server does not tell.
func TestRemove(t *testing.T) {
	const kept = `{"versions":[{"sha256":"cd"},{"sha256":"ab"},{"sha256":"ef"}]}`
	const one, other = "dog: removed from ", "; requests that run with it finish\n"
	f, list := fleetOf(t, map[string]string{"GET /versions": kept, "GET /canary": trial, "DELETE ": "204 "})
	text, _, err := command(t, f, "rm", "dog")
	says(t, list, text, one+"S0"+other+"  2 earlier versions went too: no rollback brings one back\n"+
		"  its canary ended\n", err, "", "GET /versions, GET /canary, DELETE ")
	f, list = fleetOf(t, map[string]string{"GET /versions": `{"versions":[{"sha256":"cd"}]}`, "DELETE ": "204 "})
	text, _, err = command(t, f, "rm", "dog")
	says(t, list, text, one+"S0"+other, err, "", "GET /versions, GET /canary, DELETE ")

	f, list = fleetOf(t, map[string]string{"GET /versions": `409 {"error":"it has no versions"}`,
		"DELETE ": `409 {"error":"it is of the settings"}`})
	text, _, err = command(t, f, "rm", "dog")
	says(t, list, text, "", err, "S0: 409 it is of the settings", "GET /versions, DELETE ")
	f, list = fleetOf(t, map[string]string{"GET /versions": kept, "GET /canary": `500 {"error":"oh"}`})
	text, _, err = command(t, f, "rm", "dog")
	says(t, list, text, "", err, "S0: 500 oh", "GET /versions, GET /canary")
}

// TestFleetRemove: where one server has the plugin from its settings none removes it; where one has none the others
// remove theirs. Again is safe.
func TestFleetRemove(t *testing.T) {
	has := map[string]string{"GET /versions": `{"versions":[{"sha256":"cd"}]}`, "DELETE ": "204 "}
	settled := map[string]string{"GET /versions": `409 {"error":"it is of the settings"}`}
	f, list := fleetOf(t, has, settled)
	text, _, err := command(t, f, "rm", "dog")
	says(t, list, text, "S0\n  it could be done here; nothing was changed\nS1\n  failed: 409 it is of the settings\n",
		err, "1 of 2 servers failed; nothing was changed at any of them", "GET /versions", "GET /versions")

	f, list = fleetOf(t, has, map[string]string{})
	text, _, err = command(t, f, "rm", "dog")
	says(t, list, text, "S0\n  dog: removed from S0; requests that run with it finish\n"+
		"S1\n  dog: there is no such plugin\n", err, "", "GET /versions, GET /versions, GET /canary, DELETE ",
		"GET /versions")
	f, list = fleetOf(t, map[string]string{}, map[string]string{})
	text, _, err = command(t, f, "rm", "dog")
	says(t, list, text, "", err, "none of the servers has a plugin dog", "GET /versions", "GET /versions")
}

// TestRefusals: a wrong name is not sent, each violation of a module has a line, and no key is asked for where none
// would help.
func TestRefusals(t *testing.T) {
	for _, name := range []string{"", "a/b?x"} {
		f, list := fleetOf(t, map[string]string{})
		text, _, err := command(t, f, "rm", name)
		says(t, list, text, "", err, fmt.Sprintf("the name of a plugin must be 1 to 64 lower-case letters, digits and "+
			"single hyphens between them, a letter first, given %q", name), "")
	}
	refused := map[string]string{"GET /versions": `409 {"error":"it has\n 2 violations:\u001b\n\n"}`}
	f, list := fleetOf(t, refused)
	text, _, err := command(t, f, "versions", "dog")
	says(t, list, text, "", err, "S0: 409 it has\n   2 violations:\\x1b", "GET /versions")
	f, list = fleetOf(t, refused, refused)
	text, _, err = command(t, f, "versions", "dog")
	each := "\n  failed: 409 it has\n     2 violations:\\x1b\n"
	says(t, list, text, "S0"+each+"S1"+each, err, "2 of 2 servers failed; for these alone: --url S0 --url S1",
		"GET /versions", "GET /versions")
	f, list = fleetOf(t, map[string]string{"GET /versions": `403 {"error":"` + server.ErrAdminOff.Error() + `"}`})
	text, _, err = command(t, f, "versions", "dog")
	says(t, list, text, "", err, "S0: 403 "+server.ErrAdminOff.Error(), "GET /versions")
	if strings.Contains(err.Error(), "--key") {
		t.Error(err)
	}
}
