// Package dispatchtest gives tests of APIs a model.
package dispatchtest

import (
	"context"

	"tgi/server/dispatch"
)

// One returns Models of m alone, which every name means.
func One(m *dispatch.Model) dispatch.Models { return one{m} }

type one struct{ model *dispatch.Model }

// Use implements dispatch.Models.
func (o one) Use(context.Context, string) (*dispatch.Model, func(), error) {
	return o.model, func() {}, nil
}

// Has implements dispatch.Models.
func (o one) Has(name string) bool { return name == o.model.ID }
