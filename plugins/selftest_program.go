package plugins

import (
	"context"

	"tgi/plugins/internal/guest"
	"tgi/plugins/program"
)

// selfTestProgram runs a guest's program on a made-up model.
func selfTestProgram(ctx context.Context, g *guest.Guest) error {
	h := program.NewSynthetic(g.Vocabulary(), selfTestTokens(g.Vocabulary()))
	return program.Run(g, h, h.Request(nil), func(host any) (*guest.Session, error) {
		return g.OpenProgram(selfTestSeed, ctx.Done(), nil, host)
	})
}
