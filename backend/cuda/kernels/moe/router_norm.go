package moe

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// Scores mirrors ScoresParams of router_norm.h: rows of N numbers in BF16 and what is added to them, their sums and what these normalise to, and the
// weights of a router in BF16, [Experts, N], with its bias in float32 or 0.
type Scores struct {
	X, Add, Sum, Y, Norm, W, Bias, Scores driver.Ptr
	N, Experts                            int32
	Eps                                   float32
	_                                     int32
}

// scoresLongest is the longest row, and scoresEach how many experts' scores a block makes.
const (
	scoresLongest = 4096
	scoresEach    = 8
)

// ScoresFit reports whether rows of n numbers can be summed, normalised and scored in one launch.
func ScoresFit(n int) bool { return n%8 == 0 && n <= scoresLongest }

// Scorer sums, normalises and scores rows.
type Scorer struct {
	kernel *driver.Kernel
	p      Scores
}

// NewScorer binds a problem.
func NewScorer(l *kernels.Loader, p Scores) (*Scorer, error) {
	k, err := l.Kernel("moe/moe", "router_norm", 0)
	return &Scorer{k, p}, err
}

// Launch does so many rows.
func (k *Scorer) Launch(s *driver.Stream, rows int) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: (int(k.p.Experts) + scoresEach - 1) / scoresEach, Y: rows, Threads: 32 * scoresEach}, &k.p)
}
