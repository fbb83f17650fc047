package draft

import "math/bits"

// StepTimes is what steps of a drafter take, of a row for each of some sequences: averages that forget, by the number of bits of the sequences.
type StepTimes struct {
	seconds [bits.UintSize + 1]float64
}

// Observe notes how long a step of so many sequences took.
func (t *StepTimes) Observe(seqs int, seconds float64) {
	const forget = 0.1
	if s := &t.seconds[bits.Len(uint(seqs))]; *s == 0 {
		*s = seconds
	} else {
		*s += forget * (min(seconds, 2**s) - *s) // one long step says little
	}
}

// Seconds is what steps for so many tokens of each of so many sequences take, by those of the number of sequences nearest above, or else below, that was
// observed; 0: none was.
func (t *StepTimes) Seconds(seqs, tokens int) float64 {
	for n := bits.Len(uint(seqs)); n < len(t.seconds); n++ {
		if t.seconds[n] > 0 {
			return float64(tokens) * t.seconds[n]
		}
	}
	for n := bits.Len(uint(seqs)); n > 0; n-- {
		if t.seconds[n] > 0 {
			return float64(tokens) * t.seconds[n]
		}
	}
	return 0
}
