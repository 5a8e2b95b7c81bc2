package generateapi

import (
	"strconv"
	"unicode/utf16"

	"tgi/server/wire"
)

// pythonList writes an array of objects as Python's json.dumps does: a space
// behind commas and colons, and nothing but ASCII. The zero value is an empty
// array.
type pythonList struct {
	b       []byte
	members int // of the object that is open
	open    bool
}

// object begins the next object.
func (l *pythonList) object() {
	switch {
	case l.b == nil:
		l.b = append(l.b, '[')
	case l.open:
		l.b = append(l.b, "}, "...)
	}
	l.b = append(l.b, '{')
	l.members, l.open = 0, true
}

func (l *pythonList) name(name string) {
	if l.members++; l.members > 1 {
		l.b = append(l.b, ", "...)
	}
	l.b = append(wire.AppendString(l.b, name), ": "...)
}

func (l *pythonList) text(name, value string) {
	l.name(name)
	l.b = appendASCII(l.b, value)
}

func (l *pythonList) texts(name string, values []string) {
	l.name(name)
	l.b = append(l.b, '[')
	for i, value := range values {
		if i > 0 {
			l.b = append(l.b, ", "...)
		}
		l.b = appendASCII(l.b, value)
	}
	l.b = append(l.b, ']')
}

func (l *pythonList) truth(name string, value bool) {
	l.name(name)
	l.b = strconv.AppendBool(l.b, value)
}

func (l *pythonList) count(name string, value int) {
	l.name(name)
	l.b = strconv.AppendInt(l.b, int64(value), 10)
}

func (l *pythonList) number(name string, value float64) {
	l.name(name)
	l.b = wire.AppendFloat64(l.b, value)
}

// json writes a member that is JSON already.
func (l *pythonList) json(name string, value []byte) {
	l.name(name)
	l.b = escaped(l.b, string(value))
}

// end returns the array.
func (l *pythonList) end() []byte {
	switch {
	case l.b == nil:
		return []byte("[]")
	case l.open:
		l.b, l.open = append(l.b, '}'), false
	}
	return append(l.b, ']')
}

// appendASCII appends s as a JSON string in ASCII; bytes that are not UTF-8
// become U+FFFD.
func appendASCII(b []byte, s string) []byte {
	start := len(b)
	b = wire.AppendString(b, s)
	plain := true
	for _, c := range b[start:] {
		plain = plain && c < 0x7f
	}
	if plain {
		return b
	}
	quoted := string(b[start:])
	return escaped(b[:start], quoted)
}

// escaped appends JSON with nothing but ASCII.
func escaped(b []byte, text string) []byte {
	for _, r := range text {
		switch {
		case r < 0x7f:
			b = append(b, byte(r))
		case r < 0x10000:
			b = appendUnit(b, uint16(r))
		default:
			high, low := utf16.EncodeRune(r)
			b = appendUnit(appendUnit(b, uint16(high)), uint16(low))
		}
	}
	return b
}

func appendUnit(b []byte, unit uint16) []byte {
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
}
