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
