package vec

// sparsePlaces says, for each mask of eight numbers, where the bytes of a stored 16-bit number go, by the place of the number: what byte shuffles
// take, in which 0x80 is a zero.
var sparsePlaces = func() (table [256][16]byte) {
	for mask := range table {
		next := byte(0)
		for i := range 8 {
			at := table[mask][2*i : 2*i+2]
			if at[0], at[1] = 0x80, 0x80; mask>>i&1 != 0 {
				at[0], at[1] = next, next+1
				next += 2
			}
		}
	}
	return table
}()
