package sample

// candidate is a token that may be sampled.
type candidate struct {
	weight float64
	logit  float32
	id     int32
}

// before is the one order of tokens: the likelier first, of equals the lower id.
func (c candidate) before(d candidate) bool {
	return c.logit > d.logit || c.logit == d.logit && c.id < d.id
}

// gather appends to c the tokens whose logit is above floor, with weight 1. If keep is positive only the keep
// likeliest of them are left. NaN is never gathered.
func gather(c []candidate, logits []float32, floor float32, keep int) []candidate {
	const block = 8
	full := 2*keep + 64 // room to collect before the list is cut back, so that cutting costs O(1) per token
	for i := 0; i < len(logits); i += block {
		rest := logits[i:]
		if len(rest) >= block {
			b := (*[block]float32)(rest)
			if !(b[0] > floor || b[1] > floor || b[2] > floor || b[3] > floor ||
				b[4] > floor || b[5] > floor || b[6] > floor || b[7] > floor) {
				continue
			}
			rest = b[:]
		}
		for j, x := range rest {
			if x > floor {
				c = append(c, candidate{weight: 1, logit: x, id: int32(i + j)})
			}
		}
		if keep > 0 && len(c) >= full {
			c = nucleus(c, float64(keep))
			// The last of a nucleus is its least likely, and a later token of the same logit would come after it.
			floor = c[len(c)-1].logit
		}
	}
	if keep > 0 && len(c) > keep {
		c = nucleus(c, float64(keep))
	}
	return c
}

// nucleus returns the shortest run of candidates, likeliest first, whose weights sum to mass or more: all of them if
// none does, one at least. It reorders c so that the run is c's beginning and its least likely candidate the run's
// last; the others stand in no order. Expected time is linear: it is quickselect, by mass in place of rank.
func nucleus(c []candidate, mass float64) []candidate {
	lo, hi := 0, len(c) // c[:lo] is in and its mass taken off; c[hi:] is out
	for hi-lo > 16 {
		p := lo + partition(c[lo:hi])
		var before float64
		for i := lo; i < p; i++ {
			before += c[i].weight
		}
		switch {
		case before >= mass && p > lo: // a nucleus has one token even if mass is 0
			hi = p
		case before+c[p].weight >= mass:
			return c[:p+1]
		default:
			mass -= before + c[p].weight
			lo = p + 1
		}
	}
	sortFew(c[lo:hi])
	for i := lo; i < hi; i++ {
		if mass -= c[i].weight; mass <= 0 {
			return c[:i+1]
		}
	}
	return c[:hi]
}

// partition reorders c (of three or more) around the median of its first, middle and last, and returns that one's
// place: those before it come before it in the order.
func partition(c []candidate) int {
	last := len(c) - 1
	mid := last / 2
	if c[mid].before(c[0]) {
		c[mid], c[0] = c[0], c[mid]
	}
	if c[last].before(c[mid]) {
		c[last], c[mid] = c[mid], c[last]
		if c[mid].before(c[0]) {
			c[mid], c[0] = c[0], c[mid]
		}
	}
	pivot := c[mid]
	c[mid] = c[last-1]
	c[last-1] = pivot
	i := 0
	for j := range c[:last-1] {
		if c[j].before(pivot) {
			c[i], c[j] = c[j], c[i]
			i++
		}
	}
	c[last-1] = c[i]
	c[i] = pivot
	return i
}

// sortFew sorts a short list by insertion.
func sortFew(c []candidate) {
	for i := 1; i < len(c); i++ {
		x := c[i]
		j := i
		for ; j > 0 && x.before(c[j-1]); j-- {
			c[j] = c[j-1]
		}
		c[j] = x
	}
}
