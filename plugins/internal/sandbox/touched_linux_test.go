package sandbox

// scanSlowly is touched page by page.
func scanSlowly(l *linear) (int64, bool) {
	return scanPages(pagemap(), addressOf(l.reserved), int64(l.size))
}
