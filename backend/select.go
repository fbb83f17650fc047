package backend

import "math/bits"

// Scored is a candidate of a choice.
type Scored struct {
	Score float32
	At    int32
}

// SelectTop puts the k candidates with the highest scores first, in no order. Which of equal ones are among them depends on where they are:
// it is the choice of nth_element in GCC's C++ library, which PyTorch has on CPUs, so that models whose scores are often equal (an
// indexer's are 0 where no head sees anything) choose as upstream does.
func SelectTop(x []Scored, k int) {
	if k <= 0 || k >= len(x) {
		return
	}
	nth, first, last := k-1, 0, len(x)
	for depth := 2 * (bits.Len(uint(len(x))) - 1); last-first > 3; depth-- {
		if depth == 0 {
			heapSelect(x[first:last], nth-first+1)
			return
		}
		if cut := partitionByMedian(x, first, last); cut <= nth {
			first = cut
		} else {
			last = cut
		}
	}
	for i := first + 1; i < last; i++ {
		for j := i; j > first && before(x[j], x[j-1]); j-- {
			x[j], x[j-1] = x[j-1], x[j]
		}
	}
}

func before(a, b Scored) bool { return a.Score > b.Score }

// partitionByMedian moves the median of three to the front and divides the others by it.
func partitionByMedian(x []Scored, first, last int) int {
	a, b, c := first+1, first+(last-first)/2, last-1
	m := a
	switch ab, bc, ac := before(x[a], x[b]), before(x[b], x[c]), before(x[a], x[c]); {
	case ab && bc, !ab && !ac && !bc:
		m = b
	case ab && ac, !ab && !ac && bc:
		m = c
	}
	x[first], x[m] = x[m], x[first]
	pivot := x[first]
	low, high := first+1, last
	for {
		for before(x[low], pivot) {
			low++
		}
		high--
		for before(pivot, x[high]) {
			high--
		}
		if low >= high {
			return low
		}
		x[low], x[high] = x[high], x[low]
		low++
	}
}

// heapSelect puts the k best first by a heap of the best so far, whose root is the worst of them: for orders in which dividing takes too long.
func heapSelect(x []Scored, k int) {
	sift := func(i int) {
		for {
			child := 2*i + 1
			if child >= k {
				return
			}
			if child+1 < k && before(x[child], x[child+1]) {
				child++
			}
			if !before(x[i], x[child]) {
				return
			}
			x[i], x[child] = x[child], x[i]
			i = child
		}
	}
	for i := k/2 - 1; i >= 0; i-- {
		sift(i)
	}
	for i := k; i < len(x); i++ {
		if before(x[i], x[0]) {
			x[0], x[i] = x[i], x[0]
			sift(0)
		}
	}
}
