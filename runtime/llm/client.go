package llm

// Client is whose a request is, for what clients share.
type Client struct {
	// Name tells clients apart; "" is nobody's.
	Name string
	// Share is the client's, relative to that of others; 0 is 1.
	Share float64
	// Beneath says that the client's requests stand beneath those of clients that do not: see sched.Yield.
	Beneath bool
}
