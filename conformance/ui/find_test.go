package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// find waits for what a screen reader calls so: an element of a role such as button, link or textbox with a name.
func (p *page) find(role, name string) cdp.BackendNodeID {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(40 * time.Millisecond) {
		if nodes := p.all(role, name); len(nodes) > 0 {
			return nodes[0]
		}
		if time.Now().After(end) {
			p.t.Fatalf("there is no %s %q; the page has %s", role, name, p.names(role))
		}
	}
}

// absent waits until nothing has a role and a name.
func (p *page) absent(role, name string) {
	p.t.Helper()
	for end := time.Now().Add(patience); len(p.all(role, name)) > 0; time.Sleep(40 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("there still is a %s %q", role, name)
		}
	}
}

// all returns what has a role and a name now, in the order of the page.
func (p *page) all(role, name string) (list []cdp.BackendNodeID) {
	p.t.Helper()
	root := command(p, dom.GetDocument, dom.GetDocumentParams{}).Root
	found, err := try(p, accessibility.QueryAXTree, accessibility.QueryAXTreeParams{BackendNodeID: root.BackendNodeID,
		Role: role, AccessibleName: name})
	if err != nil {
		return nil // the page was replaced meanwhile
	}
	for _, n := range found.Nodes {
		if !n.Ignored && n.BackendDOMNodeID != 0 {
			list = append(list, n.BackendDOMNodeID)
		}
	}
	return list
}

// names lists what has a role, for errors.
func (p *page) names(role string) string {
	var names []string
	for _, n := range command(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if !n.Ignored && value(n.Role) == role {
			names = append(names, fmt.Sprintf("%q", value(n.Name)))
		}
	}
	return strings.Join(names, ", ")
}

func value(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}

// click clicks with the mouse in the middle of what has a role and a name.
func (p *page) click(role, name string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(40 * time.Millisecond) {
		node := p.find(role, name)
		_, err := try(p, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{BackendNodeID: node})
		var box dom.GetBoxModelResult
		if err == nil {
			box, err = try(p, dom.GetBoxModel, dom.GetBoxModelParams{BackendNodeID: node})
		}
		if err == nil {
			q := box.Model.Content
			p.do(chromedp.MouseClickXY((q[0]+q[4])/2, (q[1]+q[5])/2))
			return
		}
		if time.Now().After(end) { // it was replaced between finding and clicking, again and again
			p.t.Fatalf("%s %q cannot be clicked: %v", role, name, err)
		}
	}
}

// fill empties a field and types a text into it.
func (p *page) fill(role, name, text string) {
	p.t.Helper()
	p.focus(role, name)
	eval[chromedp.Void](p, `document.activeElement.select?.()`)
	p.do(chromedp.KeyEvent(kb.Backspace), chromedp.KeyEvent(text))
}

// focus has keys go to what has a role and a name.
func (p *page) focus(role, name string) {
	p.t.Helper()
	command(p, dom.Focus, dom.FocusParams{BackendNodeID: p.find(role, name)})
}

// press presses keys, one after the other.
func (p *page) press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}

// upload gives files to the file chooser that has a name.
func (p *page) upload(name string, files ...string) {
	p.t.Helper()
	// A search by name takes the chosen file for a part of it.
	for _, n := range command(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if !n.Ignored && value(n.Role) == "button" && value(n.Name) == name {
			command(p, dom.SetFileInputFiles, dom.SetFileInputFilesParams{BackendNodeID: n.BackendDOMNodeID,
				Files: files})
			return
		}
	}
	p.t.Fatalf("there is no file chooser %q", name)
}

// visit opens a page of the playground by its link.
func (p *page) visit(title string) {
	p.t.Helper()
	p.click("link", title)
	p.eventually(title+" is open", `document.title.startsWith(`+quote(title)+`)`)
}

// checkNames fails for what a screen reader could not name: buttons, links, fields and pictures without a name, and
// tables without headers.
func (p *page) checkNames() {
	p.t.Helper()
	named := strings.Fields("button link textbox searchbox combobox checkbox radio slider spinbutton image img " +
		"progressbar tab table dialog meter")
	headers, tables := 0, 0
	for _, n := range command(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		role := value(n.Role)
		if !n.Ignored && slices.Contains(named, role) && value(n.Name) == "" {
			p.t.Errorf("a %s has no name: %s", role, p.html(n.BackendDOMNodeID))
		}
		if role == "columnheader" {
			headers++
		}
		if role == "table" {
			tables++
		}
	}
	if tables > 0 && headers == 0 {
		p.t.Errorf("%d tables without headers", tables)
	}
}

// html is the beginning of an element as HTML.
func (p *page) html(node cdp.BackendNodeID) string {
	found, err := try(p, dom.GetOuterHTML, dom.GetOuterHTMLParams{BackendNodeID: node})
	if err != nil {
		return err.Error()
	}
	return found.OuterHTML[:min(len(found.OuterHTML), 200)]
}
