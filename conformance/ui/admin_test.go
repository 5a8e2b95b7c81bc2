package ui

import (
	"fmt"
	"net"
	"testing"
)

// TestWithoutAdmins: where nobody may administrate, the pages say so and how to change that.
func TestWithoutAdmins(t *testing.T) {
	s := serve(t, "")
	p := open(t, s.URL, "/#/engine")
	p.alerts("server.admin_keys is empty. Start the server with --admin-key")
	p.visit("Plugins")
	p.alerts("server.admin_keys is empty. Start the server with --admin-key")
	p.visit("Models")
	p.rowOf("tgi-demo", "loaded")
	p.alerts("server.admin_keys is empty. Start the server with --admin-key")
	p.eventually("nothing can be done", readOnly)
	p.shots("models-read-only")
}

// readOnly is whether no button of the page of models does anything.
const readOnly = `document.querySelector('td button') &&
	[...document.querySelectorAll('td button, form.pull button')].every((b) => b.disabled)`

// TestAdminKeyIsAskedFor: a server that is open but for administration asks for the key when something is done.
func TestAdminKeyIsAskedFor(t *testing.T) {
	s := serve(t, "[server]\nadmin_keys = [\"boss\"]\n")
	p := open(t, s.URL, "/#/models")
	p.rowOf("tgi-demo", "loaded")
	p.click("button", "Unload tgi-demo")
	p.signIn("boss")
	p.rowOf("tgi-demo", "on disk")
}

// TestAdminAddress: with an address of their own administrators find all pages there, and others learn where it is.
func TestAdminAddress(t *testing.T) {
	demand(t)
	l := sure(net.Listen("tcp", "127.0.0.1:0")) // of two that want a port, the server says so
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := serve(t, fmt.Sprintf("[server]\nadmin_port = %d\n", port)+keyed)
	p := open(t, fmt.Sprintf("http://127.0.0.1:%d", port), "/#/chat")
	p.useKey("boss")
	p.visit("Engine")
	p.rowOf("tgi-demo", "running")
	p.visit("Plugins")
	p.rowOf("grammar", "ready")
	p.visit("Models")
	p.rowOf("tgi-demo", "loaded")
	p.click("button", "Unload tgi-demo")
	p.rowOf("tgi-demo", "on disk")

	q := open(t, s.URL, "/#/chat")
	q.useKey("boss")
	q.visit("Engine")
	q.alerts("With server.admin_port administration has its own address")
}
