package toolcalls

// id makes the id of a call from the message's seed and the call's index.
func (f *format) id(seed uint64, index int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	n, lead := 24, "call_"
	if f.IDs == IDShort {
		n, lead = 9, ""
	}
	id := []byte(lead)
	state := mix(seed) + uint64(index)
	for len(id) < n+len(lead) {
		state += 0x9e3779b97f4a7c15
		id = append(id, alphabet[mix(state)%uint64(len(alphabet))])
	}
	return string(id)
}

// mix is the output function of SplitMix64 (Steele, Lea, Flood 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
