package sample

// uniform returns the random number of one output token: a float64 in [0, 1) that depends on the seed and on the
// token's index alone. A counter in place of a generator's state is what lets a request be preempted, recomputed,
// batched with others or verified several tokens at a time and still give the same text.
//
// The mixing function is SplitMix64's finaliser (Steele, Lea, Flood 2014), applied once to spread the seed and once
// to the counter on top of it, so that neighbouring seeds do not give shifted copies of one sequence.
func uniform(seed, index uint64) float64 {
	return float64(mix(mix(seed+golden)+index*golden)>>11) * 0x1p-53
}

const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio, odd

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
