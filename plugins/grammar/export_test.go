package grammar

// MaskUnits makes the mask of a state and returns the units of work that it took.
func (s *State) MaskUnits() (units int64, err error) {
	w := s.work()
	w.mask(s.at)
	return w.most - w.left, w.err
}

// AcceptUnits is Accept, and returns the units of work that it took.
func (s *State) AcceptUnits(token uint32) (units int64, err error) {
	w := s.work()
	to := w.take(s.at, token, s.g.v.texts[token])
	if w.err == nil {
		s.move(to, token, "")
	}
	return w.most - w.left, w.err
}
