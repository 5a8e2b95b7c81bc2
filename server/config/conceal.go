package config

import (
	"strconv"
	"strings"
)

// Conceal returns err with a text that shows values as Shown does, wherever it repeats one of them, quoted or cut
// short. Values are such as a command line, the environment or a file has: texts, or lists and assignments of those. It
// is for where errors of many sources meet: what shows a value that is an address asks Shown itself.
func Conceal(err error, values ...string) error {
	if err == nil {
		return nil
	}
	text := concealAll(err.Error(), values)
	if text == err.Error() {
		return err
	}
	return &concealed{err, text}
}

// concealAll is Conceal of a text.
func concealAll(text string, values []string) string {
	for _, v := range values {
		if !strings.ContainsAny(v, "@?#/") { // Shown hides nothing of it
			continue
		}
		text = conceal(text, v)
		for i := range len(v) { // an assignment's value, which may have a = of its own
			if v[i] == '=' {
				text = conceal(text, v[i+1:])
			}
		}
		if parts := strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == '=' }); len(parts) > 1 {
			for _, part := range parts {
				text = conceal(text, part)
			}
		}
	}
	return text
}

// concealed is an error with another text.
type concealed struct {
	error
	text string
}

// Error implements error.
func (c *concealed) Error() string { return c.text }

// Unwrap returns the error that it is.
func (c *concealed) Unwrap() error { return c.error }

// leastCut is as much of a value as errors show where they cut it, or less, in bytes.
const leastCut = 16

// conceal replaces a value in text, and what begins with it, by what may be shown of it.
func conceal(text, value string) string {
	shown := Shown(value)
	if shown == value {
		return text
	}
	open := 0 // bytes that may be shown as they are
	for open < min(len(shown), len(value)) && shown[open] == value[open] {
		open++
	}
	quoted := strconv.Quote(value)
	for _, form := range []string{value, quoted[1 : len(quoted)-1]} {
		text = strings.ReplaceAll(text, form, shown)
		if len(form) <= leastCut {
			continue
		}
		for from := 0; ; {
			at := strings.Index(text[from:], form[:leastCut])
			if at < 0 {
				break
			}
			at += from
			end := at + leastCut
			for end < len(text) && end-at < len(form) && text[end] == form[end-at] {
				end++
			}
			if from = end; end-at > open {
				text = text[:at] + shown + text[end:]
				from = at + len(shown)
			}
		}
	}
	return text
}
