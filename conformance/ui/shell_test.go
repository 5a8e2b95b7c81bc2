package ui

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestShell: the pages can be reached by mouse and by keyboard, on every screen.
func TestShell(t *testing.T) {
	s := serve(t, "")
	p := open(t, s.URL, "/")
	p.find("link", "Chat")
	p.eventually("chat is first", `location.hash === '' || location.hash === '#/chat'`)
	p.checkNames()
	p.shots("chat-empty")
	p.focus("link", "Skip to the content")
	p.press(kb.Enter)
	p.eventually("the content has the focus", `document.activeElement.id === 'main'`)
	p.click("button", "Theme: auto. Change it")
	p.eventually("the theme is light", `document.documentElement.dataset.theme === 'light'`)
	p.press(kb.Enter)
	p.eventually("the theme is dark", `document.documentElement.dataset.theme === 'dark'`)
}

// TestFilesArePacked: the browser gets the files in fewer bytes than they have.
func TestFilesArePacked(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.eventually("large files are packed", `(() => {
		const files = performance.getEntriesByType('resource').filter((e) => e.name.includes('/playground/') &&
			e.decodedBodySize > 4000);
		return files.length > 8 && files.every((e) => e.encodedBodySize < e.decodedBodySize * 0.6);
	})()`)
}
