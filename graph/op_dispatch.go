package graph

import (
	"fmt"
	"math"
)

// Where devices that have different rows divide the experts of a layer among them, rows go to the experts and their results come back (Lepikhin et al., arXiv:2006.16668):
//
//	shares of the router ─► Dispatch: rows, and their shares, to the devices that hold their experts ─► MoE of rows that have come, with experts that are here ─► Combine
//
// A row goes once to a device however many of its experts are there, and comes back once, as the sum of what they make of it, each times its share.

// Spread is how experts are divided among devices that exchange rows.
type Spread struct {
	Ranks int // devices that have different rows
	// Split is among how many devices with the same rows the experts are divided further, each of which sends the rows to the Ranks of its own number Part: experts lie
	// rank by rank, and in a rank part by part.
	Split, Part int
	Experts     int     // of all devices
	Top         int     // of a row
	Placed      *Placed // nil: in order, each on one device
}

// Placed says which experts devices have where they are not divided in order. An expert may be on several devices: a row goes to one of them.
type Placed struct {
	Of      []int // the experts of all devices, one device's behind the other's, by their numbers in the router's scores
	Experts int   // in the router's scores
}

// Scored is how many experts the router's scores are of.
func (o Spread) Scored() int {
	if o.Placed != nil {
		return o.Placed.Experts
	}
	return o.Experts
}

// Held is how many experts a device has.
func (o Spread) Held() int { return o.Experts / (o.Ranks * o.Split) }

// First is the number of the first expert that a rank has.
func (o Spread) First(rank int) int { return (rank*o.Split + o.Part) * o.Held() }

func (o Spread) text() string {
	s := fmt.Sprintf("%d ranks, rows to %d of %d experts", o.Ranks, o.Top, o.Scored())
	if o.Placed != nil {
		s += fmt.Sprintf(", which are %d on each device: %d", o.Held(), o.Placed.Of)
	}
	return s
}

func (o Spread) check() error {
	if o.Ranks < 2 || o.Split < 1 || o.Part < 0 || o.Part >= o.Split || o.Experts < 1 || o.Experts%(o.Ranks*o.Split) != 0 || o.Top < 1 || o.Top > o.Experts {
		return fmt.Errorf("rows to %d of %d experts, of which part %d of %d of each of %d devices; a device's experts must be as many as any other's", o.Top, o.Experts, o.Part, o.Split, o.Ranks)
	}
	return nil
}

// reached is how many of the devices of this part have an expert of a row, on average, if chances are even: each has none with as many chances as there are to choose all
// experts from the others.
func (o Spread) reached() float64 {
	none := 1.0
	for i := range o.Top {
		none *= float64(max(o.Experts-o.Held()-i, 0)) / float64(o.Experts-i)
	}
	return float64(o.Ranks) * (1 - none)
}

// sent is how many bytes of rows of so many bytes a device sends to the others for each of its own.
func (o Spread) sent(rowBytes int64) int64 {
	return int64(math.Round(o.reached() * float64(o.Ranks-1) / float64(o.Ranks) * float64(rowBytes)))
}

// Dispatch sends each row to the devices that hold its experts, and with it their shares. All devices first get the shares of their experts of all rows, which say
// which rows will come.
type Dispatch struct {
	simple
	Spread
}

// Name implements Op.
func (Dispatch) Name() string { return "Dispatch" }

// Attrs implements Op.
func (o Dispatch) Attrs() string { return o.text() }

// Infer implements Op: x [tokens, axis], shares [tokens, experts] → [arrived, axis], [arrived, experts]; experts of other devices have no shares there.
func (o Dispatch) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 0, 0); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	x, shares := n.In[0], n.In[1]
	for _, v := range n.In {
		if err := matrix(v); err != nil {
			return nil, err
		}
		if v.Rows != Tokens {
			return nil, fmt.Errorf("%s has a row per %s, and %s are wanted", v.Name, v.Rows, Tokens)
		}
	}
	if shares.Axis.Len() != o.Scored() || shares.Axis.Shards > 0 || shares.Type != F32 {
		return nil, fmt.Errorf("%s is [%s, %s] %s, and shares of %d experts in f32 are wanted", shares.Name, shares.Rows, shares.Axis, shares.Type, o.Scored())
	}
	here := shares.Axis
	here.Count = o.Experts
	return []Value{{Rows: Arrived, Axis: x.Axis, Type: x.Type}, {Rows: Arrived, Axis: here, Type: F32}}, nil
}

// Work implements Op: to all others at once go the shares of their experts of each row, and behind them the rows, as many as even chances would have go.
func (o Dispatch) Work(n *Node, s *Step) Work {
	w := traffic(n, s, 0)
	w.Messages = 2
	w.LinkBytes = int64(s.Rows(Tokens)) * (int64(4*o.Held()*(o.Ranks-1)) + o.sent(n.In[0].RowBytes()))
	return w
}

// Combine brings rows back to the devices that have sent them, which add up what comes of each in the order of ranks. Its second input is the shares that came with
// the rows: it takes the way back of the node that made them.
type Combine struct {
	simple
	Spread
}

// Name implements Op.
func (Combine) Name() string { return "Combine" }

// Attrs implements Op.
func (o Combine) Attrs() string { return o.text() }

// Infer implements Op: y [arrived, axis], shares [arrived, experts] → [tokens, axis]; partial where devices with the same rows have other experts.
func (o Combine) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 0, 0); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	y, shares := n.In[0], n.In[1]
	if err := matrix(y); err != nil {
		return nil, err
	}
	from := shares.From
	if d, ok := opOf(from).(Dispatch); !ok || d.Spread != o.Spread || y.Rows != Arrived || from.Out[1] != shares {
		return nil, fmt.Errorf("%s and %s are not what has come by a Dispatch (%s)", y.Name, shares.Name, o.Attrs())
	}
	return []Value{{Rows: Tokens, Axis: y.Axis, Type: y.Type, Partial: o.Split > 1}}, nil
}

// opOf is a node's op; nil: there is no node.
func opOf(n *Node) Op {
	if n == nil {
		return nil
	}
	return n.Op
}

// Work implements Op: one message to all others at once, and of each row a sum of what comes.
func (o Combine) Work(n *Node, s *Step) Work {
	rows := int64(s.Rows(Tokens))
	y := n.In[0]
	w := Work{ValueRead: rows * y.RowBytes(), ValueWrite: rows * n.Out[0].RowBytes(), Messages: 1}
	w.FLOPs = rows * int64(math.Round(max(o.reached()-1, 0)*float64(y.Axis.Len())))
	w.LinkBytes = rows * o.sent(y.RowBytes())
	return w
}
