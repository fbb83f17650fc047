package draft

// Candidate is a sequence for which a step may verify a draft.
type Candidate struct {
	Acceptance *Acceptance
	Max        int     // tokens of a draft, at most
	Context    int     // tokens before it, which each of its rows attends to
	Behind     float64 // seconds that its drafter needs before, this step's share
	Free       bool    // its draft is there already, or takes nothing to look up
	Drafter    int     // else, whose it is: less than MaxDrafters
	Tokens     int     // set by Plan: the tokens that are worth verifying
}

// MaxDrafters is how many drafters there can be beside one another.
const MaxDrafters = 4

// Asked is what a drafter is asked for.
type Asked struct {
	Seqs    int // sequences whose draft it is to compute
	Longest int // tokens of the longest of those
}

// Extra is what drafts add to a step.
type Extra struct {
	Behind float64 // seconds before the drafters can compute those drafts
	Asked  [MaxDrafters]Asked
	Tokens int // of all drafts
	Pairs  int // pairs of a row and a cache row that it attends to
}

// Computed is how many sequences' drafts are to be computed.
func (x *Extra) Computed() (seqs int) {
	for _, a := range x.Asked {
		seqs += a.Seqs
	}
	return seqs
}

// Expected is how many tokens are expected to be accepted of the longest draft.
func (c *Candidate) Expected() float64 {
	if c.Max == 0 {
		return 0
	}
	return c.Acceptance.Expected(c.Max)
}

// Sum is what the planned drafts add to a step, and how many of their tokens are expected to be accepted.
func Sum(all []Candidate) (x Extra, accepted float64) {
	for i := range all {
		c := &all[i]
		chance := 1.0
		for k := range c.Tokens {
			chance = c.Acceptance.chance(chance, k)
			accepted += chance
			x.Pairs += c.Context + k + 1
		}
		if x.Tokens += c.Tokens; c.Tokens > 0 && !c.Free {
			a := &x.Asked[c.Drafter]
			a.Seqs++
			a.Longest = max(a.Longest, c.Tokens)
			x.Behind += c.Behind
		}
	}
	return x, accepted
}

// Plan chooses how many tokens to draft for each candidate: those with which a step brings the most tokens a second. outputs is how many tokens it
// brings without drafts, room is how many tokens of drafts fit, and price is how long a step takes with drafts, the drafting included, in
// seconds; 0: that is not known, and nothing is drafted. usual is how many tokens a second come in other steps, for which the time that drafts take is lost; 0: in other steps too they
// come as in this one without drafts. Worth is what drafting must gain at least for its estimates' errors: 0.02 is 2 %.
// gain is how many tokens are expected with the drafts by those that come in the same time without; 1 without drafts, 0 where the price is not known.
func Plan(all []Candidate, outputs, room int, usual, worth float64, price func(Extra) float64) (gain float64) {
	// Tokens go in order of the chance that they are accepted, by classes of about the same chance.
	const classes = 64
	var expected [classes]float64 // tokens
	var extra [classes]Extra
	for i := range all {
		c := &all[i]
		c.Tokens = 0
		chance := 1.0
		for k := range min(c.Max, MaxTokens) {
			chance = c.Acceptance.chance(chance, k)
			class := int(chance * (classes - 1))
			if class == 0 {
				break
			}
			x := &extra[class]
			expected[class] += chance
			x.Tokens++
			x.Pairs += c.Context + k + 1
			if c.Free {
				continue
			}
			a := &x.Asked[c.Drafter]
			if a.Longest = max(a.Longest, k+1); k == 0 {
				a.Seqs++
				x.Behind += c.Behind
			}
		}
	}
	alone := price(Extra{})
	if alone <= 0 || outputs == 0 {
		return 0
	}
	if usual <= 0 {
		usual = float64(outputs) / alone
	}
	best, lowest := 1+worth, classes
	tokens, sum := float64(outputs), Extra{}
	for class := classes - 1; class > 0; class-- {
		x := &extra[class]
		if x.Tokens == 0 {
			continue
		}
		tokens += expected[class]
		sum.Behind += x.Behind
		sum.Tokens, sum.Pairs = sum.Tokens+x.Tokens, sum.Pairs+x.Pairs
		for k, a := range x.Asked {
			sum.Asked[k].Seqs += a.Seqs
			sum.Asked[k].Longest = max(sum.Asked[k].Longest, a.Longest)
		}
		if sum.Tokens > room {
			break
		}
		if gain := tokens / (float64(outputs) + usual*(price(sum)-alone)); gain > best {
			best, lowest = gain, class
		}
	}
	for i := range all {
		c := &all[i]
		chance := 1.0
		for k := range min(c.Max, MaxTokens) {
			chance = c.Acceptance.chance(chance, k)
			if int(chance*(classes-1)) < lowest {
				break
			}
			c.Tokens++
		}
	}
	if lowest == classes {
		return 1
	}
	return best
}
