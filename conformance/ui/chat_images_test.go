package ui

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"

	"tgi/models/vision/visiontest"
)

// picture writes an image of a width to a folder.
func picture(t *testing.T, dir string, width int) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, 10))); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "wide-"+strconv.Itoa(width)+".png")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// openSeeing opens the chat of a server with a model that reads images, whose replies have three tokens.
func openSeeing(t *testing.T) *page {
	t.Helper()
	model, err := visiontest.Read("llava")
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, serve(t, "[model]\npath = "+quote(model.Dir)+"\nweights = \"fp32\"\n").URL, "/#/chat")
	p.find("button", "+ Image")
	p.put("Max tokens", "3")
	return p
}

// paste gives the message box a clipboard with images of these widths, and a text unless that is empty.
func (p *page) paste(text string, widths ...int) {
	p.t.Helper()
	list := "["
	for _, w := range widths {
		list += strconv.Itoa(w) + ","
	}
	eval[chromedp.Void](p, `(async () => {
		const data = new DataTransfer();
		for (const width of `+list+`]) {
			const canvas = Object.assign(document.createElement('canvas'), {width, height: 10});
			canvas.getContext('2d').fillRect(0, 0, 5, 5);
			const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
			data.items.add(new File([blob], 'image.png', {type: 'image/png'}));
		}
		const text = `+quote(text)+`;
		if (text) data.setData('text/plain', text);
		document.querySelector('#message').dispatchEvent(new ClipboardEvent('paste', {clipboardData: data,
			bubbles: true, cancelable: true}));
	})()`)
}

// widths waits for images of these widths in what a selector names.
func (p *page) widths(selector string, want ...int) {
	p.t.Helper()
	list := ""
	for i, w := range want {
		if i > 0 {
			list += ","
		}
		list += strconv.Itoa(w)
	}
	p.eventually(selector+" has the images "+list, `[...document.querySelectorAll(`+quote(selector+" img")+`)]
		.map((i) => i.naturalWidth).join() === `+quote(list))
}

// TestChatTakesImages: images are pasted and dropped in the order in which they come; what is none is refused by name.
func TestChatTakesImages(t *testing.T) {
	p, dir := openSeeing(t), t.TempDir()
	p.paste("", 40, 41)
	p.widths(".thumbs", 40, 41)
	eval[chromedp.Void](p, `window.first = document.querySelector('.thumbs img')`)
	p.paste("", 42)
	p.dropOn(".chat", picture(t, dir, 43))
	p.widths(".thumbs", 40, 41, 42, 43)
	p.eventually("the first picture was drawn once", `window.first === document.querySelector('.thumbs img')`)
	p.checkNames()
	p.shots("chat-images")
	p.click("button", "Remove image 2")
	p.widths(".thumbs", 40, 42, 43)
	p.paste("a cell", 50)
	p.widths(".thumbs", 40, 42, 43)

	odd := filepath.Join(dir, "<img src=x onerror=alert(1)>.txt")
	large := filepath.Join(dir, "large.png")
	for file, content := range map[string][]byte{odd: []byte("x"), large: make([]byte, 10<<20+1)} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.dropOn(".chat", odd)
	p.reads(".composer-error", "<img src=x onerror=alert(1)>.txt is text/plain: models are given PNG, JPEG, GIF and WebP")
	p.notHTML()
	p.dropOn(".chat", large)
	p.reads(".composer-error", "large.png has 10,485,761 bytes, more than 10.0 MiB")
	p.widths(".thumbs", 40, 42, 43)

	p.ask("What is this?")
	p.reads(reply+" .stats", "3 tokens")
	p.widths(".message.user", 40, 42, 43)
	p.widths(".thumbs")
}

// TestChatRefusesImages: a model of text is given no image, and a file that is dropped anywhere leaves the page there.
func TestChatRefusesImages(t *testing.T) {
	s := serve(t, "")
	p := openSettled(t, s.URL)
	dir := t.TempDir()
	p.paste("", 40)
	p.reads(".composer-error", "This model reads no images")
	p.fill("textbox", messageBox, "Who are you?")
	p.dropOn("header.bar", picture(t, dir, 40))
	p.dropOn(".chat", picture(t, dir, 40))
	p.reads(".composer-error", "This model reads no images")
	p.widths(".thumbs")
	if at := eval[string](p, `location.href`); at != s.URL+"/#/chat" {
		t.Errorf("the browser is at %s", at)
	}
}

// TestChatSaysWhatIsTooLarge: images that the tab has no room for are left out of what it keeps, which a reload tells.
func TestChatSaysWhatIsTooLarge(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	eval[chromedp.Void](p, `(() => {
		const image = 'data:image/png;base64,' + 'A'.repeat(6 << 20);
		window.kept = {sides: [{settings: {}, messages: [{role: 'user', text: 'What is this?', images: [image]}]},
			{settings: {}, messages: []}]};
	})()`)
	if got := eval[string](p, `(async () => {
		const files = document.querySelector('script[type=module]').src.replace(/app\.js$/, '');
		const {load, save} = await import(files + 'chat/state.js');
		save(window.kept);
		const [message] = load().sides[0].messages;
		return JSON.stringify([message.text, message.images.length, message.lost]);
	})()`); got != `["What is this?",0,1]` {
		t.Errorf("kept is %s", got)
	}
}
