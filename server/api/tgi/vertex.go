package tgi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	pathpkg "path"
	"slices"
	"strings"

	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// noInstances is what a call without any gets.
var noInstances = refusal{http.StatusUnprocessableEntity, "Input validation error", "Input validation error"}

// errNoInstances is what the log says of it.
var errNoInstances = errors.New("`instances` must hold at least one instance")

// vertex is Vertex AI's prediction route: a text per instance.
func (a *API) vertex(w http.ResponseWriter, r *http.Request, d *dialect.Dialect) error {
	text, err := server.ReadBody(r)
	if err != nil {
		return err
	}
	v := instances{api: a, dialect: d}
	var top body
	var unknown []string
	err = server.Decode(r.Context(), text, func(r *wire.Reader) (err error) {
		unknown, err = r.Noting(func(r *wire.Reader) error {
			return r.Object("struct VertexRequest", []wire.Field{{Name: "instances", Required: true, Read: v.read},
				top.modelField()})
		})
		return err
	})
	switch {
	case err != nil:
		return err
	case v.count == 0:
		noInstances.write(w, r, errNoInstances)
		return nil
	}
	m, release, err := dispatch.Use(a.options.Models, r, top.model)
	if err != nil {
		return err
	}
	defer release()
	if err := checkCount(m, "instances", v.count); err != nil {
		return err
	}
	unknown = append(fields.Unknown(unknown), v.unknown...)
	if err := m.Service.CheckKnown(unknown); err != nil {
		return err
	}
	if err := v.render(r.Context(), m.Service); err != nil {
		return err
	}
	texts, err := texts(r.Context(), m, v.bodies)
	if err != nil {
		return failed(w, r, err)
	}
	out := appendList([]byte(`{"predictions":`), texts,
		func(b []byte, s *string) []byte { return wire.AppendString(b, *s) })
	generate.SetUnknown(w.Header(), append(unknown, v.unused...))
	server.WriteJSON(w, append(out, '}'))
	return nil
}

// CheckRoute returns why path cannot be a further route; name is how the error
// calls the setting.
func CheckRoute(name, path string) error {
	if path == "" || path[0] == '/' && !strings.ContainsAny(path, "{}?#") && path == pathpkg.Clean(path) &&
		!strings.HasPrefix(path, server.AdminPath) {
		return nil
	}
	return fmt.Errorf("%s must be a path from the root, without braces and outside of %s. Given: %.64q", name,
		server.AdminPath, path)
}

// vertexRoutes returns the operator's own paths, except those that are served
// already: by one of routes, or as a probe.
func (a *API) vertexRoutes(routes []server.Route) (extra []server.Route) {
	served := func(method, path string) bool {
		return slices.ContainsFunc(routes, func(r server.Route) bool { return r.Method == method && r.Path == path })
	}
	if path := a.options.PredictRoute; path != "" && !served(http.MethodPost, path) {
		extra = append(extra, server.Route{Method: http.MethodPost, Path: path, Operation: server.TextCompletion,
			Handle: a.in(a.vertex)})
	}
	if path := a.options.HealthRoute; path != "" && !served(http.MethodGet, path) &&
		!slices.Contains(server.Probes(), path) && path != "/metrics" {
		extra = append(extra, server.Route{Method: http.MethodGet, Path: path, Scope: server.Open, Handle: a.probe})
	}
	return extra
}

// probe replies 200 with no body, or 503.
func (a *API) probe(w http.ResponseWriter, _ *http.Request) error {
	if a.options.Ready() != nil {
		return server.ErrUnhealthy
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// instances reads a list of VertexInstance.
type instances struct {
	api     *API
	dialect *dialect.Dialect
	bodies  []*body
	// count is how many there are. Bodies beyond those that a call may have are not read.
	count int
	// refused is what is wrong with the first conversation that breaks a rule, which is
	// the last of bodies that render looks at.
	refused   error
	refusedAt int
	// unknown are members of instances that mean nothing here, unused those that mean something elsewhere.
	unknown, unused wire.Notes
}

func (v *instances) read(r *wire.Reader) error {
	most := callsPerSlot * v.api.options.Limits.MaxConcurrentRequests
	return r.Array(func(int) error {
		if v.count++; most > 0 && v.count > most {
			return r.Skip()
		}
		b := newBody(v.dialect)
		v.bodies = append(v.bodies, b)
		if !v.dialect.VertexChat {
			err := b.instance(r, "struct VertexInstance")
			v.note(b)
			return err
		}
		raw, err := r.RawObject()
		if err == nil {
			err = wire.Decode(raw, func(r *wire.Reader) error { return b.instance(r, "struct GenerateVertexInstance") })
			if errors.Is(err, wire.ErrShape) {
				b.unused = nil // it is no text
				err = v.chat(b, raw)
			}
		}
		v.note(b)
		if errors.Is(err, wire.ErrShape) {
			return r.Refuse(unmatched("VertexInstance").Error())
		}
		return err
	})
}

// note notes members of an instance that have no effect.
func (v *instances) note(b *body) {
	for _, name := range b.draft.Unknown {
		v.unknown.Add("instances", name)
	}
	for _, name := range b.unused {
		v.unused.Add("instances.parameters", name)
	}
}

// chat reads a conversation. Any other body is an error; one that breaks a rule is
// noted, because the rest of the list is read first.
func (v *instances) chat(b *body, raw []byte) error {
	if v.api.options.ChatDraft == nil {
		return wire.ErrShape
	}
	var err error
	b.draft, _, err = v.api.options.ChatDraft(raw, v.dialect)
	if errors.Is(err, wire.ErrShape) {
		return err
	}
	if v.refused == nil && err != nil {
		v.refused, v.refusedAt = err, len(v.bodies)-1
	}
	return nil
}

// render makes prompts of the conversations, and returns why the first that has none
// has none.
func (v *instances) render(ctx context.Context, s *generate.Service) (err error) {
	for i, b := range v.bodies {
		if v.refused != nil && i == v.refusedAt {
			return v.refused
		}
		if b.draft, err = s.Render(ctx, b.draft); err != nil {
			return err
		}
	}
	return nil
}

// vertexParameters reads the parameters of an instance, and notes in b those that have no effect there.
func (b *body) vertexParameters(r *wire.Reader) error {
	b.limit()
	list := b.parameterFields()
	for i, f := range list {
		switch f.Name {
		case "max_new_tokens", "seed", "grammar", "adapter_id", "plugins":
		case "do_sample": // as ever
			list[i] = f.Unused(&b.unused, "true")
		default:
			list[i] = f.Unused(&b.unused, "null", "false", "[]", "{}")
		}
	}
	return r.Object("struct GenerateParameters", list)
}

// instance reads an instance that is a prompt. Of its parameters TGI takes the
// length and the seed, and always draws; plugins are ours, and a grammar and an
// adapter that are given count.
func (b *body) instance(r *wire.Reader, want string) error {
	b.draft.MaxNewTokens = nil
	unknown, err := r.Noting(func(r *wire.Reader) error {
		return r.Object(want, []wire.Field{
			{Name: "inputs", Required: true, Read: wire.Into(&b.draft.Inputs, (*wire.Reader).String)},
			{Name: "parameters", Read: func(r *wire.Reader) error {
				if none, err := r.Null(); none || err != nil {
					return err
				}
				return b.vertexParameters(r)
			}},
			{Name: "plugins", Read: fields.Plugins(&b.topPlugins)},
		})
	})
	if err == nil {
		err = b.join()
	}
	d := &b.draft
	b.fullText = nil
	b.draft = generate.Draft{Inputs: d.Inputs, DoSample: true, MaxNewTokens: d.MaxNewTokens, Seed: d.Seed,
		Grammar: d.Grammar, Plugins: d.Plugins, Adapter: d.Adapter, Unknown: fields.Unknown(unknown)}
	return err
}
