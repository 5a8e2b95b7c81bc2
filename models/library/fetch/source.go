package fetch

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"tgi/models/library"
)

// Source says where a model comes from. One of Repo, Files, or URL alone
// chooses the kind.
type Source struct {
	// URL is that of an archive (tar, gzipped tar, zip); with Files it is
	// what their relative URLs are relative to; with Repo it is the hub.
	URL string
	// SHA256 is the archive's checksum in hex; empty is not checked.
	SHA256 string
	// Files are fetched one by one.
	Files []File
	// Repo is a repository of the hub: name, or namespace/name.
	Repo string
	// Revision is a branch, tag or commit of Repo; empty is "main".
	Revision string
	// Token is sent as a bearer token to the host of URL, and to no other.
	Token string
}

// File is one file of a checkpoint.
type File struct {
	// Path is where the file belongs, slash-separated.
	Path string
	// URL is absolute, or relative to Source.URL; empty is Path.
	URL string
	// Size in bytes; 0 with no checksum, or less, is not known.
	Size int64
	// SHA256 of the content in hex; empty is not checked.
	SHA256 string

	gitSHA1 string   // git's object id, where there is no SHA256
	url     *url.URL // parsed and absolute
}

// known tells whether there is a checksum to hold the content against.
func (f *File) known() bool { return f.SHA256 != "" || f.gitSHA1 != "" }

// identity is what a part of the file must have noted to be gone on with.
func (f *File) identity() string {
	switch {
	case f.SHA256 != "":
		return "sha256:" + f.SHA256
	case f.gitSHA1 != "":
		return "git:" + f.gitSHA1
	}
	return "url:" + show(f.url)
}

// parseURL reads an absolute HTTP URL. Names and passwords in it are refused:
// they would end up in logs.
func parseURL(field, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is no URL", ErrSource, field) // err repeats the URL, secrets included
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: %s %q: want an absolute http or https URL", ErrSource, field, show(u))
	}
	if u.User != nil {
		return nil, fmt.Errorf("%w: %s %q holds a user name: use the token", ErrSource, field, show(u))
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// show is a URL without what may be secret: user, query and fragment.
func show(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, Opaque: u.Opaque}).String()
}

// check reads the source. base is nil where URL is empty.
func (s *Source) check() (base *url.URL, err error) {
	if s.URL != "" {
		if base, err = parseURL("url", s.URL); err != nil {
			return nil, err
		}
	}
	switch {
	case s.Repo != "" && len(s.Files) > 0:
		return nil, fmt.Errorf("%w: both a repository and a list of files", ErrSource)
	case s.Repo == "" && s.Revision != "":
		return nil, fmt.Errorf("%w: revision %q without a repository", ErrSource, s.Revision)
	case base == nil && s.Repo != "":
		return nil, fmt.Errorf("%w: repository %q: no hub is set", ErrSource, s.Repo)
	case base == nil && len(s.Files) == 0:
		return nil, fmt.Errorf("%w: neither a URL, nor files, nor a repository", ErrSource)
	case base == nil && s.Token != "":
		return nil, fmt.Errorf("%w: a token needs the URL of the host that it is for", ErrSource)
	case s.SHA256 != "" && (s.Repo != "" || len(s.Files) > 0):
		return nil, fmt.Errorf("%w: sha256 is for an archive; files have their own", ErrSource)
	}
	if i := strings.IndexFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return nil, fmt.Errorf("%w: the token holds a character that no header may hold, at %d", ErrSource, i)
	}
	if s.Repo != "" {
		if _, err := library.ParseID(s.Repo); err != nil {
			return nil, fmt.Errorf("%w: repository: %w", ErrSource, err)
		}
		if strings.Count(s.Repo, "/") > 1 {
			return nil, fmt.Errorf("%w: repository %q: want name or namespace/name", ErrSource, s.Repo)
		}
	}
	return base, checkRevision(s.Revision)
}

const maxRevision = 200

func checkRevision(s string) error {
	if len(s) > maxRevision {
		return fmt.Errorf("%w: revision has %d bytes, at most %d are allowed", ErrSource, len(s), maxRevision)
	}
	if strings.IndexFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) >= 0 || strings.Contains(s, "..") {
		return fmt.Errorf("%w: revision %q: want a branch, tag or commit", ErrSource, s)
	}
	return nil
}

// resolve completes a list of files. base may be nil.
func resolve(files []File, base *url.URL) ([]File, error) {
	out := make([]File, len(files))
	seen := map[string]bool{}
	for i, f := range files {
		if err := library.CheckPath(f.Path); err != nil {
			return nil, fmt.Errorf("files[%d]: %w", i, err)
		}
		if key := strings.ToLower(f.Path); seen[key] { // one file on some systems
			return nil, fmt.Errorf("%w: files[%d]: %q is there twice", ErrSource, i, f.Path)
		} else {
			seen[key] = true
		}
		if err := f.resolveURL(base); err != nil {
			return nil, fmt.Errorf("files[%d]: %w", i, err)
		}
		if err := checkHex("sha256", f.SHA256, 32); err != nil {
			return nil, fmt.Errorf("files[%d]: %w", i, err)
		}
		f.SHA256 = strings.ToLower(f.SHA256)
		if f.Size < 0 || f.Size == 0 && !f.known() {
			f.Size = -1
		}
		out[i] = f
	}
	return out, nil
}

func (f *File) resolveURL(base *url.URL) error {
	ref := f.URL
	if ref == "" {
		ref = escapePath(f.Path)
	}
	if base != nil {
		folder := *base
		if !strings.HasSuffix(folder.Path, "/") {
			folder.Path += "/"
			folder.RawPath = ""
		}
		u, err := folder.Parse(ref)
		if err != nil {
			return fmt.Errorf("%w: url is no URL", ErrSource)
		}
		ref = u.String()
	}
	u, err := parseURL("url", ref)
	f.url = u
	return err
}

// escapePath escapes each part of a slash-separated path for a URL.
func escapePath(p string) string {
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "./" + strings.Join(parts, "/")
}

func checkHex(field, s string, bytes int) error {
	if s == "" {
		return nil
	}
	if b, err := hex.DecodeString(s); err != nil || len(b) != bytes {
		return fmt.Errorf("%w: %s %q: want %d hex digits", ErrSource, field, s, 2*bytes)
	}
	return nil
}
