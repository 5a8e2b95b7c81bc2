package fields

import (
	"tgi/server/generate"
	"tgi/server/wire"
)

// Sampling are the settings that requests of chat, of completions and of responses share: those of OpenAI that shape
// what is drawn, and those that other servers of its API added.
func Sampling(d *generate.Draft) []wire.Field {
	return []wire.Field{
		{Name: "frequency_penalty", Read: wire.Optional(&d.FrequencyPenalty, (*wire.Reader).Float32)},
		{Name: "presence_penalty", Read: wire.Optional(&d.PresencePenalty, (*wire.Reader).Float32)},
		{Name: "logit_bias", Read: Bias(&d.LogitBias)},
		{Name: "seed", Read: wire.Optional(&d.Seed, Seed)},
		{Name: "stop", Read: Stops(&d.Stop)},
		{Name: "temperature", Read: wire.Optional(&d.Temperature, (*wire.Reader).Float32)},
		{Name: "top_p", Read: wire.Optional(&d.TopP, (*wire.Reader).Float32)},
		{Name: "top_k", Read: wire.Optional(&d.TopK, (*wire.Reader).Int32)},
		{Name: "min_p", Read: wire.Optional(&d.MinP, (*wire.Reader).Float32)},
		{Name: "typical_p", Read: wire.Optional(&d.TypicalP, (*wire.Reader).Float32)},
		{Name: "repetition_penalty", Read: wire.Optional(&d.RepetitionPenalty, (*wire.Reader).Float32)},
		{Name: "ignore_eos", Read: Flag(&d.IgnoreEOS)},
		{Name: "priority", Read: Priority(&d.Priority)},
		{Name: "plugins", Read: Plugins(&d.Plugins)},
		{Name: "token_healing", Read: wire.Optional(&d.Heal, (*wire.Reader).Bool)},
	}
}
