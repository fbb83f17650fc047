package price

import "github.com/ridge-llm/ridge/graph"

// Line is the cost of one node in a step.
type Line struct {
	Node   *graph.Node
	Class  Class
	Number Number // in which it computes
	Work   graph.Work
	// Read and Write are the traffic by the Profile's levels, bytes; nothing is counted twice.
	Read, Write [MaxLevels]int64
	Intensity   float64 // FLOPs for each byte of traffic; 0 without traffic
	Bound       Bound
	Level       int     // the level that is slowest for it
	Floor       float64 // the least it can take, s
	Seconds     float64 // what it is expected to take, s
	Launch      float64 // of Seconds, its launch
}

// Cause is what time is spent on.
type Cause uint8

// The causes.
const (
	ByCompute Cause = iota
	ByWeights       // reading weights
	ByCache         // reading keys and values
	ByValues        // reading and writing activations
	ByLaunch
	ByHost // CPU overhead beside the nodes: batch, sampling
	ByCommunication
	Causes
)

func (c Cause) String() string {
	return [...]string{"compute", "weights", "kv", "activations", "launch", "CPU overhead", "communication"}[c]
}

// Breakdown is the cost of a step, node by node and by cause.
type Breakdown struct {
	Lines       []Line
	Levels      []Level // that Read and Write count
	Work        graph.Work
	Read, Write [MaxLevels]int64
	Intensity   float64
	Floor       float64         // s
	Host        float64         // beside the nodes, s
	Seconds     float64         // nodes and host, s
	By          [Causes]float64 // Seconds by what they are spent on
}

// Breakdown prices every node of a step.
func (m *Model) Breakdown(s *graph.Step) *Breakdown {
	l := m.measure(s)
	set := m.workingSet(&l)
	byNode := make(map[*graph.Node][]Line, len(m.graph.Nodes)) // of each its operations
	for _, x := range m.groups {
		c := m.cost(x, &l, set)
		line := lineOf(x, &c)
		for _, n := range x.nodes {
			line.Node = n
			byNode[n] = append(byNode[n], line)
		}
	}
	b := &Breakdown{Levels: m.profile.Levels, Host: m.host(&l)}
	for _, n := range m.graph.Nodes {
		b.add(byNode[n])
	}
	b.Seconds += b.Host
	b.By[ByHost] += b.Host
	b.Intensity = intensity(b.Work)
	return b
}

func lineOf(x *group, c *cost) Line {
	w := c.work
	line := Line{
		Class: x.class, Number: x.number, Work: w, Intensity: intensity(w), Bound: c.bound(), Level: c.slow,
		Read: c.read, Write: c.write, Floor: c.floor(), Seconds: c.seconds, Launch: c.launch,
	}
	return line
}

func intensity(w graph.Work) float64 {
	if b := w.Bytes(); b > 0 {
		return float64(w.FLOPs) / float64(b)
	}
	return 0
}

// together is the line of a node with these operations: their sums, and what the longest of them is.
func together(operations []Line) Line {
	sum := operations[0]
	longest := sum.Seconds
	for _, l := range operations[1:] {
		for i := range l.Read {
			sum.Read[i] += l.Read[i]
			sum.Write[i] += l.Write[i]
		}
		sum.Work = sum.Work.Plus(l.Work)
		sum.Floor, sum.Seconds, sum.Launch = sum.Floor+l.Floor, sum.Seconds+l.Seconds, sum.Launch+l.Launch
		if l.Seconds > longest {
			longest, sum.Class, sum.Number, sum.Bound, sum.Level = l.Seconds, l.Class, l.Number, l.Bound, l.Level
		}
	}
	sum.Intensity = intensity(sum.Work)
	return sum
}

// add adds a node, given its operations.
func (b *Breakdown) add(operations []Line) {
	l := together(operations)
	b.Lines = append(b.Lines, l)
	b.Work = b.Work.Plus(l.Work)
	for i := range l.Read {
		b.Read[i] += l.Read[i]
		b.Write[i] += l.Write[i]
	}
	b.Floor += l.Floor
	b.Seconds += l.Seconds
	for _, o := range operations {
		b.By[ByLaunch] += o.Launch
		b.By[causeOf(o.Bound, &o.Work)] += o.Seconds - o.Launch
	}
}

// causeOf is the cause of the time of a node with this bound, its launch apart.
func causeOf(b Bound, w *graph.Work) Cause {
	values, cache := w.ValueRead+w.ValueWrite, w.CacheRead+w.CacheWrite
	switch {
	case b == Compute:
		return ByCompute
	case b == Communication:
		return ByCommunication
	case w.WeightBytes >= max(values, cache):
		return ByWeights
	case cache >= values:
		return ByCache
	}
	return ByValues
}

// Bound is what most of the step's time is spent on.
func (b *Breakdown) Bound() Bound {
	by := [...]float64{
		Compute:       b.By[ByCompute],
		Memory:        b.By[ByWeights] + b.By[ByCache] + b.By[ByValues],
		Launch:        b.By[ByLaunch] + b.By[ByHost],
		Communication: b.By[ByCommunication],
	}
	most := Compute
	for i, s := range by {
		if s > by[most] {
			most = Bound(i)
		}
	}
	return most
}
