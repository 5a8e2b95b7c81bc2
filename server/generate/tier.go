package generate

import "tgi/runtime/llm"

// Tier says how urgent a request is beside others.
type Tier string

// The tiers, by OpenAI's names.
const (
	// TierDefault is the empty one too.
	TierDefault Tier = "default"
	// TierPriority goes before the other requests of its client that wait.
	TierPriority Tier = "priority"
	// TierFlex stands beneath everybody's other requests, its client's among them, with a small share.
	TierFlex Tier = "flex"
)

// flexShare is the share of requests of TierFlex, relative to their client's.
const flexShare = 1.0 / 8

// priorityOfTier is what TierPriority stands for where a request names no priority.
const priorityOfTier = -1 << 16

// rank returns whose a draft of client is, and its priority there.
func (d *Draft) rank(client llm.Client) (llm.Client, int) {
	switch d.Tier {
	case TierFlex:
		if client.Share == 0 {
			client.Share = 1
		}
		client.Name += " flex"
		client.Share *= flexShare
		client.Beneath = true
	case TierPriority:
		if d.Priority == 0 {
			return client, priorityOfTier
		}
	}
	return client, d.Priority
}
