package config

import "strings"

// Suggest returns `; did you mean x?` for the candidate nearest to name, or
// nothing when none is near. A key may be near by its last part alone, as when
// it stands in the wrong section; of those, the one nearest in all.
func Suggest(name string, candidates []string) string {
	last := lastPart(name)
	far, begun := len(name)+2, onlyBegun(name, candidates)
	best := nearest(name, candidates, func(a, b string) int {
		part := distance(last, lastPart(b))
		switch {
		case distance(a, b) <= 1: // perhaps a dot is missing, or one too many
			return distance(a, b)
		case b == begun:
			return 1
		case part >= bound(last):
			return far // sections that are alike do not make the keys in them so
		}
		return part + min(1, distance(strings.TrimSuffix(a, last), strings.TrimSuffix(b, lastPart(b))))
	})
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// onlyBegun returns the one candidate of which name is the first words, "" where there is none or more than one.
func onlyBegun(name string, candidates []string) (only string) {
	for _, c := range candidates {
		switch {
		case !strings.HasPrefix(c, name+"_") && !strings.HasPrefix(c, name+"-"):
		case only != "":
			return ""
		default:
			only = c
		}
	}
	return only
}

// bound is the distance at which a name is no misspelling of another any more.
func bound(name string) int { return len(name)/3 + 2 }

// Nearest returns the candidate nearest to name as a whole, "" when none is near.
func Nearest(name string, candidates []string) string { return nearest(name, candidates, distance) }

func nearest(name string, candidates []string, apart func(a, b string) int) string {
	best, least, leastWhole := "", bound(name), 0
	for _, c := range candidates {
		d, whole := apart(name, c), distance(name, c)
		if d < least || d == least && best != "" && whole < leastWhole {
			best, least, leastWhole = c, d, whole
		}
	}
	return best
}

func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// distance is Levenshtein's, over bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
