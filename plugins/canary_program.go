package plugins

import (
	"context"

	"tgi/plugins/internal/guest"
	"tgi/plugins/program"
)

// canaryProgram runs a guest's program on a made-up model.
func canaryProgram(ctx context.Context, g *guest.Guest) error {
	h := program.NewSynthetic(g.Vocabulary(), canaryTokens(g.Vocabulary()))
	return program.Run(g, h, h.Request(nil), func(host any) (*guest.Session, error) {
		return g.OpenProgram(canarySeed, ctx.Done(), nil, host)
	})
}
