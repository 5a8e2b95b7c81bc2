package guest

// SharesCode reports whether two guests run the same compiled module.
func SharesCode(a, b *Guest) bool { return a.code == b.code }

// RoomCount is how many different rooms are kept, and checked when they are taken again.
func RoomCount() int {
	var r Rooms
	for _, at := range r.all() {
		*at++
	}
	for _, n := range r.needs(Description{}, 0, 0) {
		*n.at++
	}
	n := 0
	for _, at := range r.all() {
		if *at == 2 {
			n++
		}
	}
	return n
}
