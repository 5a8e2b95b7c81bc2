package chat

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// complete returns what the last word of a command may become. Messages are not completed.
func (s *session) complete(text string) (list []Candidate) {
	if !strings.HasPrefix(text, "/") || strings.Contains(text, "\n") {
		return nil
	}
	name, rest := text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		name, rest = text[:i], text[i:]
	}
	for _, c := range commands() {
		switch {
		case rest == "" && strings.HasPrefix(c.name, name):
			list = append(list, Candidate{c.name, c.help})
		case rest != "" && c.name == name && c.complete != nil:
			if rest = strings.TrimLeft(rest, " \t"); !strings.ContainsAny(rest, " \t") {
				list = c.complete(s, rest)
			}
		}
	}
	return list
}

// settingNames completes the names of members of requests.
func (s *session) settingNames(word string) (list []Candidate) {
	for _, name := range s.members.Names {
		if _, own := written[name]; !own && strings.HasPrefix(name, word) {
			list = append(list, Candidate{Text: name + "="})
		}
	}
	return list
}

// files completes names of files.
func (s *session) files(word string) (list []Candidate) {
	dir, base := filepath.Split(word)
	entries, _ := os.ReadDir(cmp.Or(dir, ".")) // a folder that cannot be read has nothing to offer
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, base) || base == "" && name[0] == '.' {
			continue
		}
		if e.IsDir() {
			name += "/"
		}
		list = append(list, Candidate{Text: dir + name})
	}
	return list
}

// toolFiles completes what /tools takes.
func (s *session) toolFiles(word string) []Candidate {
	list := s.files(word)
	if strings.HasPrefix("off", word) {
		list = slices.Insert(list, 0, Candidate{"off", "take the tools away"})
	}
	return list
}
