package config

import (
	"net/netip"
	"net/url"
	"strings"
)

// Shown returns a setting that may be an address as errors, logs and lists may show it: without user, password, query
// and fragment of a URL, also of one that cannot be parsed, and without user and password before a host. A path of a
// Redis is hidden unless it is a number. Where it is not certain what is secret, it shows less. Names such as
// namespace/name@revision and references of plugins stay.
func Shown(address string) string {
	scheme, rest, isURL := strings.Cut(address, "://")
	if !isURL || !isScheme(scheme) {
		return shownName(address)
	}
	head, tail := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		head, tail = rest[:i], rest[i:]
	}
	u, err := url.Parse(address)
	odd := err != nil || u.User == nil && u.Port() != ""
	switch {
	case odd && strings.Contains(tail, "@"): // a password may contain "?", and a query "@"
		return scheme + "://" + masked
	case odd: // a password may contain "/": u:1/2@host
		head = withoutUser(head)
	default: // so may others, but for "/@", which paths have: /@scope/name
		at := strings.LastIndexByte(strings.ReplaceAll(head, "/@", "//"), '@')
		if at >= 0 {
			head = masked + head[at:]
		}
	}
	if at := strings.IndexByte(head, '/'); at >= 0 && (scheme == "redis" || scheme == "rediss") &&
		strings.Trim(head[at:], "/0123456789") != "" { // of which a path is the number of a database
		head = head[:at+1] + masked
	}
	if len(tail) > 1 {
		tail = tail[:1] + masked
	}
	return scheme + "://" + head + tail
}

// mayHoldUser reports whether a URL that is read as one without a user may be one with a password that has a "/" or a
// "?": such as https://u:1/2@host, which seems to lead to a host u. A path may have "/@", as in /@scope/name.
func mayHoldUser(u *url.URL) bool {
	if u.Port() != "" && strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return true
	}
	return strings.Contains(strings.ReplaceAll(u.EscapedPath(), "/@", ""), "@")
}

// ShownHost is Shown of a setting that has no "@" of its own, with or without a scheme.
func ShownHost(address string) string {
	if strings.Contains(address, "://") {
		return Shown(address)
	}
	address = withoutUser(address)
	if i := strings.IndexAny(address, "?#"); i >= 0 {
		address = address[:i+1] + masked
	}
	return address
}

// shownName is Shown of what is no URL.
func shownName(name string) string {
	name, digest, pinned := strings.Cut(name, "@sha256:")
	if i := strings.LastIndexByte(name, '@'); i >= 0 && strings.Contains(name[:i], ":") {
		name = withoutUser(name)
	}
	if before, query, found := strings.Cut(name, "?"); found && strings.Contains(query, "=") {
		name = before + "?" + masked
	}
	if pinned {
		name += "@sha256:" + digest
	}
	return name
}

// withoutUser hides what stands before the last "@".
func withoutUser(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return masked + text[i:]
	}
	return text
}

// mayBeHost reports whether a host may have this name or IP address, so that nobody is asked for one with a password.
func mayBeHost(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil || !strings.ContainsAny(name, "@/?#: \t\r\n")
}

// isScheme reports whether text may be the scheme of a URL.
func isScheme(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("+-.", r)
	})
}
