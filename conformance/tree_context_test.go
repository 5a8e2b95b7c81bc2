package conformance

import (
	"go/ast"
	"strings"
	"testing"
)

// contextFields are the types that may keep a context, each with its reason: a value that lives as long as one request
// or one call, and whose methods an interface calls that has no context.
var contextFields = map[string]string{
	"plugins/bind.go Bound":                               "the state of one request, whose steps have no context",
	"plugins/constraint.go Constraint":                    "the state of one sequence of a request, whose steps have no context",
	"plugins/parser.go Parser":                            "the state of one sequence of a request",
	"plugins/turns.go guestTurn":                          "the turn of one call, which the sandbox takes without a context",
	"server/generate/contexts.go Contexts":                "of one program, whose calls of the host have no context",
	"plugins/set.go Set":                                  "the context of the set itself, which loads modules until it is closed",
	"plugins/grammar/machine.go work":                     "of one call, asked now and then in its innermost loops",
	"server/events.go Events":                             "of one stream, until when its reader waits",
	"conformance/api/probe.go probe":                      "of one case",
	"conformance/cuda/report/report.go report":            "of one call",
	"server/generate/generatetest/generatetest.go stream": "of one request of the engine that tests use",
}

// TestTreeContexts: a context is a parameter. One that is kept outlives its call unseen: what waits for it can't be
// ended by whoever calls next.
func TestTreeContexts(t *testing.T) {
	found := map[string]bool{}
	for _, s := range tree(t) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range fields.Fields.List {
				selector, ok := f.Type.(*ast.SelectorExpr)
				if !ok || selector.Sel.Name != "Context" {
					continue
				}
				if from, ok := selector.X.(*ast.Ident); !ok || from.Name != "context" {
					continue
				}
				name := s.path + " " + spec.Name.Name
				found[name] = true
				if contextFields[name] == "" {
					t.Errorf("%s keeps a context: contexts are parameters, so that who calls decides when a call ends", name)
				}
			}
			return true
		})
	}
	for name := range contextFields {
		if !found[name] {
			t.Errorf("%s keeps no context: take it off the list", name)
		}
	}
}
