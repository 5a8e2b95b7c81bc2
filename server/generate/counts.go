package generate

import (
	"tgi/runtime/llm"
	"tgi/server/wire"
)

// Counts are what replies tell beside the tokens that a client gets: what became of a prediction, and of how many
// tokens guards had it see nothing. What those were nobody is told.
type Counts struct {
	// Predicted says that there is a prediction, of which so many tokens were Accepted and Rejected.
	Predicted          bool
	Accepted, Rejected int
	// Rewound tokens were taken back, Replaced ones are other text.
	Rewound, Replaced int
}

// Plus returns c with what the end of a sequence tells, nil for nothing.
func (c Counts) Plus(f *llm.Finish) Counts {
	if f == nil {
		return c
	}
	return c.Add(Counts{Accepted: f.AcceptedPrediction, Rejected: f.RejectedPrediction, Rewound: f.Rewound,
		Replaced: f.Replaced})
}

// Add returns the counts of two texts together.
func (c Counts) Add(of Counts) Counts {
	return Counts{Predicted: c.Predicted || of.Predicted, Accepted: c.Accepted + of.Accepted,
		Rejected: c.Rejected + of.Rejected, Rewound: c.Rewound + of.Rewound, Replaced: c.Replaced + of.Replaced}
}

// Append writes those that there are as members, each behind a comma.
func (c Counts) Append(b []byte) []byte {
	if c.Predicted {
		b = wire.AppendInt(append(b, ','), "accepted_prediction_tokens", c.Accepted)
		b = wire.AppendInt(append(b, ','), "rejected_prediction_tokens", c.Rejected)
	}
	if c.Rewound > 0 {
		b = wire.AppendInt(append(b, ','), "rewound_tokens", c.Rewound)
	}
	if c.Replaced > 0 {
		b = wire.AppendInt(append(b, ','), "replaced_tokens", c.Replaced)
	}
	return b
}
