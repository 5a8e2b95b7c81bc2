package guest

// SharesCode reports whether two guests run the same compiled module.
func SharesCode(a, b *Guest) bool { return a.code == b.code }
