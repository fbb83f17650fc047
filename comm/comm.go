// Package comm is what devices need to exchange numbers: collectives over a group of ranks. Every rank makes the same calls in the
// same order, each from a goroutine or process of its own; a call returns when this rank's part is done.
package comm

// Communicator is one rank's end of a group. A call may be waiting for other ranks; Abort ends that.
type Communicator interface {
	// Rank is this rank's number, from 0; Size is how many there are.
	Rank() int
	Size() int
	// AllReduce replaces x, of one length on all ranks, by the sum over ranks, added in the order of ranks: the same to the last bit on
	// all of them.
	AllReduce(x []float32) error
	// AllGather fills dst, of Size × len(src), with the src of every rank, in the order of ranks.
	AllGather(dst, src []float32) error
	// Send hands x to rank to, which receives it by Recv into as many numbers. It returns once they have been copied.
	Send(to int, x []float32) error
	Recv(from int, x []float32) error
	// Abort ends all calls of the group, those that wait and those to come, with err; those of other ranks with what it says.
	Abort(err error)
}
