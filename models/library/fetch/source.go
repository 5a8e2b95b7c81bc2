package fetch

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"tgi/models/library"
)

// Source is where a model comes from: a repository if Repo is set, a list of files if Files
// is set, otherwise an archive.
type Source struct {
	// URL is the archive (tar, gzipped tar, zip); with Files the base of their relative
	// URLs; with Repo the hub.
	URL string
	// SHA256 is the archive's checksum in hex; empty for no check.
	SHA256 string
	// Files are fetched one by one.
	Files []File
	// Repo is a repository of the hub: name, or namespace/name.
	Repo string
	// Revision is a branch, tag or commit of Repo; empty is "main".
	Revision string
	// File chooses one of several files in the GGUF format of Repo, see library.Choose.
	File string
	// Token is sent as a bearer token to the host of URL only.
	Token string
}

// File is one file of a checkpoint.
type File struct {
	// Path is the slash-separated path in the checkpoint.
	Path string
	// URL is absolute, or relative to Source.URL; empty means Path.
	URL string
	// Size in bytes; less than 0, or 0 without a checksum, means not known.
	Size int64
	// SHA256 of the content in hex; empty for no check.
	SHA256 string

	gitSHA1 string   // git's object id, if there is no SHA256
	url     *url.URL // parsed and absolute
}

// known reports whether there is a checksum of the content.
func (f *File) known() bool { return f.SHA256 != "" || f.gitSHA1 != "" }

// identity identifies the content: a part can be resumed if its info has the same one.
func (f *File) identity() string {
	switch {
	case f.SHA256 != "":
		return "sha256:" + f.SHA256
	case f.gitSHA1 != "":
		return "git:" + f.gitSHA1
	}
	return "url:" + redactURL(f.url)
}

// parseURL parses an absolute HTTP URL. It refuses user names and passwords, which would end
// up in logs.
func parseURL(field, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is no URL", ErrSource, field) // err repeats the URL, secrets included
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: %s %q: want an absolute http or https URL", ErrSource, field, redactURL(u))
	}
	if u.User != nil {
		return nil, fmt.Errorf("%w: %s %q holds a user name: use the token", ErrSource, field, redactURL(u))
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// redactURL returns a URL without the parts that may be secret: user, query and fragment.
func redactURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, Opaque: u.Opaque}).String()
}

// check validates the source. base is nil if URL is empty.
func (s *Source) check() (base *url.URL, err error) {
	if s.URL != "" {
		if base, err = parseURL("url", s.URL); err != nil {
			return nil, err
		}
	}
	switch {
	case s.Repo != "" && len(s.Files) > 0:
		return nil, fmt.Errorf("%w: both a repository and a list of files", ErrSource)
	case s.Repo == "" && s.File != "":
		return nil, fmt.Errorf("%w: file %q without a repository", ErrSource, s.File)
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
	if strings.IndexFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) >= 0 ||
		strings.Contains(s, "..") {
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
