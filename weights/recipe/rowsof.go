package recipe

// RowsOf is what a recipe that takes rows of another takes them of, itself if it takes none, and which of those rows its row i is; of vectors, numbers.
func RowsOf(r Recipe) (of Recipe, row func(i int) int) {
	row = func(i int) int { return i }
	for {
		outer := row
		switch taken := r.(type) {
		case Rows:
			r, row = taken.Of, func(i int) int { return outer(i) + taken.From }
		case Permute:
			r, row = taken.Of, func(i int) int { return taken.Index[outer(i)] }
		case EveryRow:
			r, row = taken.Of, func(i int) int { return taken.First + outer(i)*taken.Every }
		default:
			return r, row
		}
	}
}
