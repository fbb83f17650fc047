package backend

import "github.com/ridge-llm/ridge/graph"

// Exchanger is a device that does collectives with others of its kind by itself, in order with its launches.
type Exchanger interface {
	// Join makes the device one of a group. Every rank calls it, each in a goroutine or process of its own, and all get an error where one does.
	Join(g Gatherer) (Peers, error)
}

// RowDivider is an Exchanger that computes steps whose rows several devices divide, with what they exchange, in one go. It divides them by heads where they attend (Ulysses).
type RowDivider interface {
	Exchanger
	// RunDivided is Device.Run of launches of which wide says for each whether it computes rows of the whole step, or exchanges rows, or computes those that have come to the device's experts, or else rows of
	// own, this device's part of the step, which may have none. Where devices have sequences of their own, whole has no tables.
	RunDivided(launches []Launch, wide []bool, whole, own *Batch, by Division) error
}

// Division says how devices divide the rows of a step, which are counted device by device.
type Division struct {
	First  []int32 // of each device, its first row, and the end of the last's
	Logits []int32 // the rows whose logits are wanted, in the order of whole.LogitsIndices
}

// Gatherer is what the devices of a group find each other through: a comm.Communicator.
type Gatherer interface {
	Rank() int
	Size() int
	AllGather(dst, src []float32) error
}

// Peers is a device's end of a group.
type Peers interface {
	// Bind gives the launch of a collective of the group.
	Bind(n *graph.Node, a Args) (Launch, error)
	// Moves reports whether Bind has a launch for a node in which devices that divide rows exchange some. Ranks of a group say the same.
	Moves(n *graph.Node) bool
	// Abort ends what waits for other ranks, on this one, and what would wait: the device is lost then. Any goroutine may call it.
	Abort(err error)
	// Close leaves the group. No step may be under way on any rank; all leave at about the same time. To leave again is nothing.
	Close() error
}
