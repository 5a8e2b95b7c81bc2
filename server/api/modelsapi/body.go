package modelsapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"tgi/server"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Bounds of what bodies hold, in bytes. Those of ids are the models folder's.
const (
	maxID     = 200
	maxPart   = 96
	maxParts  = 4
	maxSource = 2048
	maxPath   = 4096
	maxName   = 256
	// maxIgnored and maxMember bound what a reply says of members that were
	// ignored: how many, and how much of each name.
	maxIgnored = 16
	maxMember  = 64
)

// invalid is an error about a member of a body, or a part of the address.
func invalid(field, format string, args ...any) error {
	return &generate.Invalid{Field: field, Msg: fmt.Sprintf(format, args...)}
}

// CheckID returns why id cannot be a model's, or nil: it has 1 to 200 bytes in
// at most four parts between slashes, each of at most 96 letters, digits, dots,
// dashes and underscores that begins with neither a dot nor a dash and does not
// end with a dot, so that it means the same in an address and as a folder and
// leads out of none. The ids that routes would hide are refused: pull, and what
// begins with download/. The error is *generate.Invalid with the given field.
func CheckID(field, id string) error {
	if id == "" || len(id) > maxID {
		return invalid(field, "`%s` must have 1 to %d bytes, given %d", field, maxID, len(id))
	}
	parts := strings.Split(id, "/")
	if len(parts) > maxParts {
		return invalid(field, "`%s` must have at most %d parts between slashes, given %d", field, maxParts, len(parts))
	}
	for _, part := range parts {
		switch {
		case len(part) > maxPart:
			return invalid(field, "`%s` must have parts of at most %d bytes, given %d", field, maxPart, len(part))
		case !sound(part, "-_.") || part[len(part)-1] == '.':
			return invalid(field,
				"`%s` must be parts of letters, digits and any of -_. between slashes, none of which begins with a dot or a dash or ends with a dot, given %.64q", field, id)
		}
	}
	return checkHidden(field, id)
}

// checkHidden refuses what routes would hide.
func checkHidden(field, id string) error {
	if id == "pull" || strings.HasPrefix(id, "download/") {
		return invalid(field, "`%s` must not be pull or begin with download/, which are routes, given %.64q", field, id)
	}
	return nil
}

// sound reports whether part is letters, digits and any of more, and begins with a
// letter, a digit or an underscore.
func sound(part, more string) bool {
	for i := range len(part) {
		c := part[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') && strings.IndexByte(more, c) < 0 ||
			i == 0 && c != '_' && strings.IndexByte(more, c) >= 0 {
			return false
		}
	}
	return part != ""
}

// checkText checks a text from a body against its bounds.
func checkText(field, s string, least, most int) error {
	switch {
	case len(s) < least || len(s) > most:
		return invalid(field, "`%s` must have %d to %d bytes, given %d", field, least, most, len(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid(field, "`%s` must not hold control characters, given %.64q", field, s)
	}
	return nil
}

// request is a body of any of the routes.
type request struct {
	model, id, taskID  *string
	path, name, option *string
	// ignored are members that no route here knows, at most maxIgnored.
	ignored []string
	// notes say what is done in another way than the body asks.
	notes []string
}

// readRequest reads a body.
func readRequest(body []byte) (*request, error) {
	q := &request{}
	known := map[string]**string{"model": &q.model, "id": &q.id, "taskId": &q.taskID, "modelPath": &q.path,
		"name": &q.name, "option": &q.option}
	var seen []string
	err := wire.Decode(body, func(r *wire.Reader) error {
		return r.Map("struct ModelRequest", func(key string) error {
			into := known[key]
			if into == nil {
				q.ignore(key)
				return r.Skip()
			}
			if slices.Contains(seen, key) {
				return r.Refuse("duplicate field `" + key + "`")
			}
			seen = append(seen, key)
			return wire.Optional(into, (*wire.Reader).String)(r)
		})
	})
	return q, err
}

// body reads the body of r; one that may be left out is, when there are no bytes.
func body(r *http.Request, optional bool) (*request, error) {
	if optional && r.ContentLength == 0 {
		return &request{}, nil
	}
	text, err := server.ReadBody(r)
	switch {
	case err != nil:
		return nil, err
	case optional && len(text) == 0:
		return &request{}, nil
	}
	return readRequest(text)
}

// subject returns the model that the address or the body names; a body may
// repeat the address.
func (q *request) subject(address string) (string, error) {
	name := q.model
	if name == nil {
		name = q.id
	}
	switch {
	case address != "" && name != nil && *name != address:
		return "", invalid("model", "`model` must be the model of the address or left out, given %.64q", *name)
	case address != "":
		return address, nil
	case name == nil:
		return "", missing("model")
	}
	return *name, nil
}

// missing is the error about a body without a member that it needs.
func missing(field string) error { return invalid(field, "`%s` must be given", field) }

// pull returns what a body of the pull route asks for.
func (q *request) pull() (Pull, error) {
	if q.model == nil {
		return Pull{}, missing("model")
	}
	p := Pull{Source: *q.model}
	if err := CheckSource("model", p.Source); err != nil {
		return Pull{}, err
	}
	if q.id != nil {
		p.ID = *q.id
		if err := CheckID("id", p.ID); err != nil {
			return Pull{}, err
		}
	}
	if q.name != nil {
		p.Name = *q.name
	}
	return p, checkText("name", p.Name, 0, maxName)
}

// CheckSource checks a Pull's Source against its rules. A repository may have a
// tag or a revision behind it.
func CheckSource(field, source string) error {
	if err := checkText(field, source, 1, maxSource); err != nil {
		return err
	}
	if strings.Contains(source, "://") {
		u, err := url.Parse(source)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return invalid(field, "`%s` must be an http or https URL without a user, or the name of a repository",
				field)
		}
		return nil
	}
	for part := range strings.SplitSeq(source, "/") {
		if !sound(part, "-_.:@+") {
			return invalid(field,
				"`%s` must be parts of letters, digits and any of -_.:@+ between slashes, each beginning with a letter, a digit or an underscore, given %.64q", field, source)
		}
	}
	return checkHidden(field, source)
}

// importing returns what a body of the import route asks for.
func (q *request) importing() (Import, error) {
	if q.model == nil {
		return Import{}, missing("model")
	}
	if q.path == nil {
		return Import{}, missing("modelPath")
	}
	i := Import{ID: *q.model, Path: *q.path}
	if err := CheckID("model", i.ID); err != nil {
		return Import{}, err
	}
	if err := checkText("modelPath", i.Path, 1, maxPath); err != nil {
		return Import{}, err
	}
	switch {
	case q.option == nil || *q.option == "copy":
	case *q.option == "symlink":
		q.notes = append(q.notes, "the files are copied, this server makes no links")
	default:
		return Import{}, invalid("option", "`option` must be symlink or copy, given %.64q", *q.option)
	}
	if q.name != nil {
		i.Name = *q.name
	}
	return i, checkText("name", i.Name, 0, maxName)
}

// ignore notes a member.
func (q *request) ignore(name string) {
	if len(q.ignored) < maxIgnored {
		q.ignored = append(q.ignored, fmt.Sprintf("%.*s", maxMember, name))
	}
}

// warning says which members were ignored and what is done in another way;
// empty for nothing.
func (q *request) warning() string {
	notes := q.notes
	if len(q.ignored) > 0 {
		notes = append(notes, "ignored: "+strings.Join(q.ignored, ", "))
	}
	return strings.Join(notes, "; ")
}
