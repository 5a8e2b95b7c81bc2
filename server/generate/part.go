package generate

import (
	"strings"

	"tgi/server/wire"
)

// Part is a piece of what a message says: a text, or an image.
type Part struct {
	Text string
	// Image is nil for a text.
	Image *Image
}

// AppendContent writes the value of the member content of m's JSON as templates of transformers know it: one text, or
// parts where there are several or images. It sets HasText and Images.
func (m *Message) AppendContent(b []byte, parts []Part) []byte {
	for _, p := range parts {
		if p.Image != nil {
			m.Images = append(m.Images, *p.Image)
		}
		m.HasText = m.HasText || strings.TrimSpace(p.Text) != ""
	}
	switch {
	case len(parts) == 0:
		return append(b, `""`...)
	case len(parts) == 1 && parts[0].Image == nil:
		return wire.AppendString(b, parts[0].Text)
	}
	b = append(b, '[')
	for i, p := range parts {
		b = wire.Comma(b, i)
		if p.Image != nil {
			b = append(b, `{"type":"image"}`...)
			continue
		}
		b = append(wire.AppendString(append(b, `{"type":"text","text":`...), p.Text), '}')
	}
	return append(b, ']')
}
