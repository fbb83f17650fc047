package backend

import "github.com/ridge-llm/ridge/graph"

// Swapper is a device whose pages of cache can be kept in host memory while their sequences wait.
type Swapper interface {
	// AllocHost gets n bytes of host memory that the device copies to and from as fast as it can: on a GPU, memory that the
	// system does not move. What is in it to begin with does not matter. what names its use in an error; Free gives it back.
	AllocHost(n int64, what string) (Buffer, error)
	// SwapOut copies pieces of device memory to memory of AllocHost, and SwapIn the other way, in order with one another and
	// with the steps and copies given before and after. They return when the copies are done or, on a device that runs by
	// itself, queued. Pieces of one call do not overlap; neighbours in the list are often neighbours in memory. moves is
	// the caller's again on return.
	SwapOut(moves []Move) error
	SwapIn(moves []Move) error
	// HostBytes is a buffer of AllocHost as the host sees it.
	HostBytes(b Buffer) []byte
	// Swaps is a number for the copies given so far, and SwapsDone up to which such number they are done: what is copied out can be read by the host then, and what is copied
	// in written over.
	Swaps() int
	SwapsDone() (int, error)
}

// HostSharer is a Swapper whose host memory other processes of the host can map and read.
type HostSharer interface {
	// AllocSharedHost is AllocHost for memory of that kind (Limits.HostMapped), or as AllocHost gives it where the system has none.
	AllocSharedHost(n int64, what string) (Buffer, error)
}

// HeadedPages is a Swapper that has the key heads of a page one behind the other, so that pages of devices with some of the heads each can be joined.
type HeadedPages interface {
	// HeadStretches is the stretches of a page of keys and values, one behind the other, each of which has as many bytes of every key head: how many.
	HeadStretches(c *graph.Cache, pageSize int) []int64
}

// Move is a copy between two pieces of memory of the same length.
type Move struct{ Dst, Src Buffer }
