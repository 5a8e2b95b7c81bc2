package guest

// SharesCode reports whether two guests run the same compiled module.
func SharesCode(a, b *Guest) bool { return a.code == b.code }

// RoomCount is how many different rooms are kept.
func RoomCount() int {
	var r Rooms
	for _, at := range r.all() {
		*at++
	}
	n := 0
	for _, at := range r.all() {
		if *at == 1 {
			n++
		}
	}
	return n
}
