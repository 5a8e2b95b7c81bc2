package jinja

// templateForms records which formats of a message a template supports. It is measured at load, by rendering small
// conversations and searching the output. That follows values through assignments, loops, macros and tests, where an
// analysis of the syntax would have to guess.
type templateForms struct {
	roles      map[string]contentForms
	otherRoles contentForms // of roles that the template does not name

	// null and missing are what stands for an assistant's content that is null
	// or not there.
	null, missing nullForm
	// emptyIsNull: calls are shown where the content is null, and not where it is
	// an empty string.
	emptyIsNull bool
	// emptyPart: a list of an empty part stands for no content beside calls, and not
	// an empty string.
	emptyPart bool
	// textArguments: the arguments of a call are shown as they are where they
	// are text. objectArguments: they are shown where they are an object.
	textArguments, objectArguments bool
}

// outcome is the result of trying a format with a template.
type outcome uint8

const (
	failed   outcome = iota // no text at all
	notShown                // the content is not in the text, or as Python or JSON writes a list
	shown
)

// contentForms records which formats of one role's content a template supports.
type contentForms struct {
	text  outcome // a string
	parts outcome // a list of parts
	first outcome // a list of one part
}

// contentForm is the format in which content is passed.
type contentForm uint8

const (
	asText contentForm = iota
	asParts
	asOnePart
)

// choose returns the format for content that is a list, or a string.
func (c contentForms) choose(list bool) contentForm {
	switch {
	case list && c.parts == shown:
		return asParts
	case c.text == shown:
		return asText
	case c.parts == shown:
		return asParts
	case c.first == shown:
		return asOnePart
	}
	return asText
}

// alternative returns the format to try if form failed.
func (c contentForms) alternative(list bool) contentForm {
	if c.choose(list) == asText {
		return asParts
	}
	return asText
}

// known says whether any form was shown.
func (c contentForms) known() bool { return c.text == shown || c.parts == shown || c.first == shown }

// nullForm is what stands for content that is null or not there.
type nullForm uint8

const (
	nullAsGiven nullForm = iota
	nullIsNull
	nullIsEmpty
)

// forRole gives the forms of a role's content.
func (r *templateForms) forRole(role string) contentForms {
	if c, ok := r.roles[role]; ok {
		return c
	}
	return r.otherRoles
}
