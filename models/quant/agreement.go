package quant

import (
	"fmt"
	"math"
	"slices"
)

// Agreement measures how much a model's predictions change when its weights are quantised: over
// the positions of a text, how often the likeliest token stays the same, and the KL divergence
// of the distributions. The zero value is ready to use; it is not safe for concurrent use.
type Agreement struct {
	// Positions compared.
	Positions int
	same      int
	klSum     float64
	kls       []float32
}

// Add compares one position: the logits of the reference and of the quantised
// model, of the same length. Non-finite logits fail.
func (a *Agreement) Add(reference, quantised []float32) error {
	if len(reference) != len(quantised) || len(reference) == 0 {
		return fmt.Errorf("quant: %d reference logits and %d quantised ones", len(reference), len(quantised))
	}
	refTop, refLog, err := logSum(reference)
	if err != nil {
		return fmt.Errorf("quant: reference: %w", err)
	}
	top, log, err := logSum(quantised)
	if err != nil {
		return fmt.Errorf("quant: quantised: %w", err)
	}
	var kl float64
	for i, r := range reference {
		p := float64(r) - refLog
		kl += math.Exp(p) * (p - (float64(quantised[i]) - log))
	}
	kl = max(kl, 0) // rounding may make it slightly negative
	a.Positions++
	a.klSum += kl
	a.kls = append(a.kls, float32(kl))
	if top == refTop {
		a.same++
	}
	return nil
}

// logSum returns the index of the largest logit and the log-sum-exp of all logits.
func logSum(logits []float32) (top int, log float64, err error) {
	for i, x := range logits {
		if x != x || math.IsInf(float64(x), 0) {
			return 0, 0, fmt.Errorf("logit %d is %g", i, x)
		}
		if x > logits[top] {
			top = i
		}
	}
	most := float64(logits[top])
	var sum float64
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	return top, most + math.Log(sum), nil
}

// Top1 returns the share of positions with the same likeliest token; 1 if none were compared.
func (a *Agreement) Top1() float64 {
	if a.Positions == 0 {
		return 1
	}
	return float64(a.same) / float64(a.Positions)
}

// KL returns the mean divergence KL(reference || quantised) in nats.
func (a *Agreement) KL() float64 {
	if a.Positions == 0 {
		return 0
	}
	return a.klSum / float64(a.Positions)
}

// KLAt returns the divergence that a share of the positions does not exceed, such as 0.99: the nearest rank, 0 if none
// were compared.
func (a *Agreement) KLAt(share float64) float64 {
	if len(a.kls) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(a.kls))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return float64(sorted[min(max(rank, 1), len(sorted))-1])
}

// Loss returns the negative log-likelihood that logits give to a token, in nats. Non-finite logits fail.
func Loss(logits []float32, token uint32) (float64, error) {
	if int(token) >= len(logits) {
		return 0, fmt.Errorf("quant: token %d is not one of %d", token, len(logits))
	}
	_, log, err := logSum(logits)
	if err != nil {
		return 0, fmt.Errorf("quant: %w", err)
	}
	return log - float64(logits[token]), nil
}

// String is the line that conversion prints.
func (a *Agreement) String() string {
	return fmt.Sprintf("top-1 agreement %.1f %%, KL %.4f (worst %.3f) over %d positions", 100*a.Top1(), a.KL(),
		a.KLAt(1), a.Positions)
}
