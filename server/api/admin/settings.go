package admin

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tgi/server/config"
	"tgi/server/generate"
)

// Settings of an upload, each within its bounds.
type Settings struct {
	// Given is what the query says of the plugin's Use; Over takes it over.
	Given url.Values
	// Signed is what came with the module, as its file .artifact.json has it; nil for nothing.
	Signed []byte
	// DryRun checks the upload and changes nothing.
	DryRun bool
	// ChangeKinds lets the upload replace a plugin of other kinds.
	ChangeKinds bool
	// Canary is the percentage of requests that get the upload beside the version that serves, 0 for an upload that
	// takes its place. CanaryFaults is how many faulty requests abort it.
	Canary, CanaryFaults int
	// Shadow has no reply depend on the canary. CanaryTexts keeps parts of texts with its differences.
	Shadow, CanaryTexts bool
	// PromoteAfter is the number of finished requests behind which the canary takes over by itself, but not before
	// PromoteTime, and, as a shadow, if it answered no more than CanaryDifferences of them differently.
	PromoteAfter, CanaryDifferences int
	PromoteTime                     config.Duration
}

// Bounds of the faulty requests that abort a canary, and how many do where the query does not say; and of those behind
// which it is promoted.
const (
	maxCanaryFaults     = 1000
	defaultCanaryFaults = 3
	maxPromoteAfter     = 1_000_000
	maxPromoteDays      = 30
	maxPromoteTime      = config.Duration(maxPromoteDays * 24 * time.Hour)
)

// maxValue bounds how much of a value an error repeats.
const maxValue = 64

// readSettings reads the query of an upload under name. Errors are
// *generate.Invalid.
func readSettings(name, query string) (Settings, error) {
	s, use := Settings{Given: url.Values{}}, DefaultUse()
	whole := func(dst *int, least, most int) func(string) error {
		return func(text string) (err error) {
			if *dst, err = strconv.Atoi(text); err != nil || *dst < least || *dst > most {
				return fmt.Errorf("%.*q is no whole number from %d to %d", maxValue, text, least, most)
			}
			return nil
		}
	}
	flag := func(dst *bool) func(string) error {
		return func(text string) error {
			if *dst = text == "" || text == "true"; !*dst && text != "false" {
				return fmt.Errorf("%.*q is neither true nor false", maxValue, text)
			}
			return nil
		}
	}
	readers, ofUse := map[string]func(string) error{
		"canary":             whole(&s.Canary, 1, 100),
		"canary_faults":      whole(&s.CanaryFaults, 1, maxCanaryFaults),
		"canary_differences": whole(&s.CanaryDifferences, 0, maxPromoteAfter),
		"canary_texts":       flag(&s.CanaryTexts),
		"canary_shadow":      flag(&s.Shadow),
		"promote_after":      whole(&s.PromoteAfter, 1, maxPromoteAfter),
		"promote_time": func(text string) error {
			if err := s.PromoteTime.UnmarshalText([]byte(text)); err != nil {
				return fmt.Errorf("%w: units are s, m and h, and smaller ones", err)
			}
			return nil
		},
		"dry_run":      flag(&s.DryRun),
		"change_kinds": flag(&s.ChangeKinds),
	}, use.readers()
	given, err := url.ParseQuery(query)
	if err != nil {
		return Settings{}, &generate.Invalid{Msg: "query: " + err.Error()}
	}
	names, known := sortedKeys(given), slices.AppendSeq(sortedKeys(readers), maps.Keys(ofUse))
	slices.Sort(known)
	if err := unknownSettings(names, known); err != nil {
		return Settings{}, err
	}
	for _, key := range names {
		values := given[key]
		if len(values) > 1 {
			return Settings{}, &generate.Invalid{Msg: fmt.Sprintf("%s is given %d times", key, len(values))}
		}
		read, ok := ofUse[key]
		if ok {
			s.Given[key] = values
		} else {
			read = readers[key]
		}
		if err := read(values[0]); err != nil {
			return Settings{}, &generate.Invalid{Msg: key + ": " + err.Error()}
		}
	}
	if err := use.check(name); err != nil {
		return Settings{}, err
	}
	if why := s.checkCanary(given); why != "" {
		return Settings{}, &generate.Invalid{Msg: why}
	}
	if s.Canary > 0 && s.CanaryFaults == 0 {
		s.CanaryFaults = defaultCanaryFaults
	}
	return s, nil
}

// sortedKeys are the keys of a map, in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// checkCanary returns what is wrong with what was given of a canary, "" for nothing.
func (s *Settings) checkCanary(given url.Values) string {
	for _, key := range []string{"canary_faults", "canary_differences", "canary_texts", "canary_shadow",
		"promote_after", "promote_time"} {
		if given.Has(key) && s.Canary == 0 {
			return key + " goes with canary, the percentage of requests"
		}
	}
	for _, key := range []string{"canary_differences", "canary_texts"} {
		if given.Has(key) && !s.Shadow {
			return key + " goes with canary_shadow: answers are compared of a shadow alone"
		}
	}
	for _, key := range []string{"promote_time", "canary_differences"} {
		if given.Has(key) && s.PromoteAfter == 0 {
			return key + " goes with promote_after, the number of requests"
		}
	}
	switch {
	case s.Canary > 0 && s.DryRun:
		return "canary and dry_run do not go together"
	case s.Canary > 0 && s.ChangeKinds:
		return "canary and change_kinds do not go together: a canary has the kinds of what serves"
	case s.PromoteTime > maxPromoteTime:
		return fmt.Sprintf("promote_time is %v, the most is %d days (%dh)", s.PromoteTime, maxPromoteDays,
			maxPromoteDays*24)
	}
	return ""
}

// maxUnknown bounds how many unknown settings an error names.
const maxUnknown = 8

// unknownSettings returns an error that names every given setting that is not known, and the known ones.
func unknownSettings(given, known []string) error {
	var unknown []string
	for _, key := range given {
		if !slices.Contains(known, key) {
			named := fmt.Sprintf("%.*q", maxValue, key)
			if near := strings.TrimPrefix(config.Suggest(key, known), "; "); near != "" {
				named += " (" + near + ")"
			}
			unknown = append(unknown, named)
		}
	}
	word := "setting"
	if len(unknown) > 1 {
		word = "settings"
	}
	switch more := len(unknown) - maxUnknown; {
	case len(unknown) == 0:
		return nil
	case more > 0:
		unknown = append(unknown[:maxUnknown], fmt.Sprintf("%d more", more))
	}
	return &generate.Invalid{Msg: fmt.Sprintf("unknown %s %s; an upload takes %s", word, strings.Join(unknown, ", "),
		strings.Join(known, ", "))}
}
