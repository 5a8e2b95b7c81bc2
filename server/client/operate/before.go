package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"tgi/server/api/admin"
)

// before has each of several servers check the upload.
func (u *Upload) before(ctx context.Context, all Fleet, words []string, plans []Plan) error {
	if len(words) < 2 {
		return errNoModule
	}
	m, err := u.checked(u.Read, words[1])
	if err != nil || u.dry {
		return err // with dry Run changes nothing
	}
	// The module may take long to compile: those that do not answer at all are found before it is sent.
	all.ask(ctx, plans, func(ctx context.Context, s *Server) (Plan, error) {
		_, none, err := s.serving(ctx, words[0])
		if none {
			err = nil
		}
		return Plan{}, err
	})
	if all.refused(plans) != nil {
		return nil
	}
	all.ask(ctx, plans, func(ctx context.Context, s *Server) (Plan, error) {
		_, err := s.Try(ctx, words[0], m, u.query())
		return Plan{}, err
	})
	return nil
}

// beforeRollback has several servers go back to the same version, and those that serve it stay. Without --to a second
// try would undo what the first one did. sum is the whole sha256 of that version, and
// the ID of its settings where to has a part of one.
func beforeRollback(ctx context.Context, all Fleet, name, to string, plans []Plan) (sum string, err error) {
	if to == "" {
		return "", Misuse("--to is missing: it names the version that several servers go back to, however often " +
			"they are asked")
	}
	wanted := admin.ParseVersionName(to)
	found := make([]string, len(all))
	all.each(ctx, func(ctx context.Context, i int) error {
		list, _, err := all[i].Versions(ctx, name)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(list, func(v admin.Version) bool { return wanted.Names(v.SHA256, v.SettingsID) })
		if at < 0 {
			return fmt.Errorf("no version of %s has a sha256 that begins with %.81q; it has %s", name, wanted,
				kept(list))
		}
		for _, v := range list[at+1:] {
			switch {
			case !wanted.Names(v.SHA256, v.SettingsID):
			case v.SHA256 != list[at].SHA256:
				return fmt.Errorf("several versions of %s have a sha256 that begins with %.81q; it has %s", name,
					wanted, kept(list))
			case v.SettingsID != list[at].SettingsID: // a second try would undo what the first one did
				return fmt.Errorf("--to %.64s is several versions of %s, with other settings; it has %s", wanted, name,
					kept(list))
			}
		}
		if list[at].Error != "" {
			return errors.New("it does not serve: " + list[at].Error)
		}
		found[i] = admin.VersionName{SHA256: list[at].SHA256, SettingsID: list[at].SettingsID,
			Settings: wanted.Settings}.String()
		if list[at].Serving {
			plans[i].Done = fmt.Sprintf("%s: sha256 %s serves already", name, found[i])
		}
		return nil
	}, func(i int, err error) { plans[i].Err = err })
	first := slices.IndexFunc(found, func(s string) bool { return s != "" })
	if first < 0 {
		return "", nil // each plan has its error
	}
	for i, other := range found {
		if other != "" && other != found[first] {
			plans[i].Err = fmt.Errorf("--to %s is sha256 %s here and %s at %s: give more of it", wanted,
				admin.ParseVersionName(other).Short(), admin.ParseVersionName(found[first]).Short(), all[first].url)
		}
	}
	return found[first], nil
}

// kept are the versions of a list, shortly.
func kept(list []admin.Version) string {
	if len(list) == 0 {
		return "none"
	}
	var sums []string
	for _, v := range list {
		text := nameOf(v, list)
		if differ := different(v, list); differ != "" {
			text += " (" + differ + ")"
		}
		sums = append(sums, text)
	}
	return strings.Join(sums, ", ")
}

// nameOf is what --to wants of a version: with its settings where others of the list have the same module.
func nameOf(v admin.Version, list []admin.Version) string {
	return admin.VersionName{SHA256: v.SHA256, SettingsID: v.SettingsID,
		Settings: slices.ContainsFunc(list, func(o admin.Version) bool {
			return o.SHA256 == v.SHA256 && o.SettingsID != v.SettingsID
		})}.Short()
}

// different are the settings of a version that are others in versions of the same module, "" for none.
func different(v admin.Version, list []admin.Version) string {
	keys := map[string]bool{}
	for _, o := range list {
		for _, set := range []map[string]string{v.Settings, o.Settings} {
			for key := range set {
				if o.SHA256 == v.SHA256 && v.Settings[key] != o.Settings[key] {
					keys[key] = true
				}
			}
		}
	}
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		texts = append(texts, fmt.Sprintf("%s %.100s", key, cmp.Or(v.Settings[key], "default")))
	}
	return strings.Join(texts, ", ")
}

// before finds out whether each of several servers can begin, promote or end the canary.
func (c *Canary) before(ctx context.Context, all Fleet, words []string, plans []Plan) error {
	name, file := words[0], append(words, "")[1]
	if err := c.misuse(file); err != nil {
		return err
	}
	switch {
	case file != "":
		return c.beforeStart(ctx, all, words, plans)
	case c.promote:
		return beforePromotion(ctx, all, name, plans)
	case c.end:
		all.ask(ctx, plans, func(ctx context.Context, s *Server) (Plan, error) {
			_, none, err := s.trial(ctx, name)
			if none {
				return Plan{Done: name + ": there is no canary"}, nil
			}
			return Plan{}, err
		})
	}
	return nil
}

// beforeStart finds out whether the plugin is there at all servers.
func (c *Canary) beforeStart(ctx context.Context, all Fleet, words []string, plans []Plan) error {
	if _, err := c.query(); err != nil {
		return err
	}
	if _, err := c.checked(c.Read, words[1]); err != nil {
		return err
	}
	all.ask(ctx, plans, func(ctx context.Context, s *Server) (Plan, error) {
		_, _, err := s.serving(ctx, words[0])
		return Plan{}, err
	})
	return nil
}

// beforePromotion finds out whether all servers try the same version. One that has no canary and serves that version
// has promoted it before.
func beforePromotion(ctx context.Context, all Fleet, name string, plans []Plan) error {
	tried, serves := make([]string, len(all)), make([]string, len(all))
	all.each(ctx, func(ctx context.Context, i int) error {
		shown, none, err := all[i].trial(ctx, name)
		if err != nil && !none {
			return err
		}
		if !none && shown.State == admin.CanaryAborted {
			return fmt.Errorf("its canary was aborted: %s", shown.Why)
		}
		if !none && shown.State != admin.CanaryPromoted {
			tried[i] = shown.Canary.SHA256
			return nil
		}
		now, _, other := all[i].serving(ctx, name)
		if other != nil {
			return other
		}
		serves[i] = now.SHA256
		return nil
	}, func(i int, err error) { plans[i].Err = err })
	first := slices.IndexFunc(tried, func(sum string) bool { return sum != "" })
	if first < 0 {
		first = slices.IndexFunc(plans, func(p Plan) bool { return p.Err != nil })
		if first < 0 {
			return fmt.Errorf("none of the servers has a canary of %s", name)
		}
		return nil
	}
	for i := range all {
		switch want := tried[first]; {
		case plans[i].Err != nil, tried[i] == want:
		case tried[i] != "":
			plans[i].Err = fmt.Errorf("the canary is sha256 %.16s here and %.16s at %s", tried[i], want, all[first].url)
		case serves[i] == want:
			plans[i].Done = fmt.Sprintf("%s: sha256 %s serves already", name, want)
		default:
			plans[i].Err = errors.New("there is no canary, and another version serves")
		}
	}
	return nil
}

// trial is the canary of a plugin, or what was decided of it, and whether there is none.
func (s *Server) trial(ctx context.Context, name string) (shown admin.Canary, none bool, err error) {
	status, err := s.ask(ctx, http.MethodGet, at(name, "/canary"), "", nil, &shown, "name", "state", "canary")
	if err == nil {
		err = s.same(name, "", shown.Name, shown.Canary.SHA256)
	}
	return shown, status == http.StatusNotFound, err
}

// serving is what serves under a name, and whether nothing does.
func (s *Server) serving(ctx context.Context, name string) (now Serving, none bool, err error) {
	status, err := s.ask(ctx, http.MethodGet, at(name, ""), "", nil, &now, "name", "sha256")
	if err == nil && now.Name != name {
		err = s.same(name, "", now.Name, now.SHA256)
	}
	return now, status == http.StatusNotFound, err
}
