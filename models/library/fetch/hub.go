package fetch

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"

	"tgi/models/hf"
	"tgi/models/library"
)

// maxListing limits the bytes of a repository's listing, maxSiblings its files.
const (
	maxListing  = 32 << 20
	maxSiblings = 100_000
)

// listing is the part of the hub's answer that is used.
type listing struct {
	SHA      string `json:"sha"`
	Siblings []struct {
		Name   string `json:"rfilename"`
		Size   *int64 `json:"size"`
		BlobID string `json:"blobId"`
		LFS    *struct {
			Size   int64  `json:"size"`
			SHA256 string `json:"sha256"`
		} `json:"lfs"`
	} `json:"siblings"`
}

// list asks the hub for a repository's files and returns those that serving needs, and their
// commit, so that a branch that moves during the fetch does not mix two versions.
func (s *session) list(ctx context.Context, hub *url.URL, src Source) (files []File, commit string, err error) {
	revision := src.Revision
	if revision == "" {
		revision = "main"
	}
	api, err := joinURL(hub, "api/models/"+src.Repo+"/revision/"+url.PathEscape(revision))
	if err != nil {
		return nil, "", err
	}
	api.RawQuery = "blobs=true"
	data, err := s.getSmall(ctx, api, maxListing)
	if err != nil {
		return nil, "", err
	}
	var l listing
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, "", fmt.Errorf("%w: %s: %v", ErrSource, redactURL(api), err)
	}
	if len(l.Siblings) > maxSiblings {
		return nil, "", fmt.Errorf("%w: %s lists %d files, at most %d are allowed", library.ErrLimit, redactURL(api),
			len(l.Siblings), maxSiblings)
	}
	if l.SHA != "" {
		if b, err := hex.DecodeString(l.SHA); err != nil || len(b) < 20 || len(b) > 32 {
			return nil, "", fmt.Errorf("%w: %s: sha %q is no commit", ErrSource, redactURL(api), sanitize(l.SHA))
		}
		revision = l.SHA
	}
	byName, err := l.files(hub, src.Repo, revision)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", redactURL(api), err)
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	chosen, err := library.Choose(names, src.File, func(name string) ([]byte, error) {
		return s.getIndex(ctx,
			byName[name])
	})
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", src.Repo, err)
	}
	for _, name := range chosen {
		if err := library.CheckPath(name); err != nil {
			return nil, "", err
		}
		f := byName[name]
		if hf.IsGGUF(name) { // which may lie in a folder for its parts
			f.Path = path.Base(name)
		}
		files = append(files, f)
	}
	return files, l.SHA, nil
}

// files converts the listing to Files by name. It leaves out unsafe names, which are never
// written.
func (l *listing) files(hub *url.URL, repo, revision string) (map[string]File, error) {
	out := map[string]File{}
	for _, x := range l.Siblings {
		if library.CheckPath(x.Name) != nil {
			continue
		}
		f := File{Path: x.Name, Size: -1}
		if x.Size != nil {
			f.Size = *x.Size
		}
		if x.LFS != nil {
			f.Size, f.SHA256 = x.LFS.Size, strings.ToLower(x.LFS.SHA256)
			if f.SHA256 == "" || checkHex("sha256", f.SHA256, sha256.Size) != nil {
				return nil, fmt.Errorf("%w: %s: lfs.sha256 %q: want %d hex digits", ErrSource, sanitize(x.Name),
					sanitize(x.LFS.SHA256), 2*sha256.Size)
			}
		} else if f.Size >= 0 && len(x.BlobID) == 2*sha1.Size && checkHex("", x.BlobID, sha1.Size) == nil {
			f.gitSHA1 = strings.ToLower(x.BlobID)
		}
		if f.Size < -1 {
			return nil, fmt.Errorf("%w: %s: size %d", ErrSource, sanitize(x.Name), f.Size)
		}
		u, err := joinURL(hub, repo+"/resolve/"+url.PathEscape(revision)+"/"+strings.TrimPrefix(escapePath(x.Name),
			"./"))
		if err != nil {
			return nil, err
		}
		f.url = u
		out[x.Name] = f
	}
	return out, nil
}

// getIndex fetches the index of sharded weights, which names the shards.
func (s *session) getIndex(ctx context.Context, f File) ([]byte, error) {
	data, err := s.getSmall(ctx, f.url, library.MaxIndex)
	if err != nil {
		return nil, err
	}
	h := newDigest(f.gitSHA1 != "", int64(len(data)))
	if _, err := bytes.NewReader(data).WriteTo(h); err != nil {
		return nil, err
	}
	return data, h.check(&f)
}

// joinURL appends an escaped path to a hub's URL, which may have a path itself.
func joinURL(hub *url.URL, escaped string) (*url.URL, error) {
	base := *hub
	base.RawQuery = ""
	return parseURL("hub", strings.TrimSuffix(base.String(), "/")+"/"+escaped)
}
