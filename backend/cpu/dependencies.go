package cpu

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// partition is how a kernel's outputs are divided among the workers.
type partition uint8

const (
	anyPartition partition = iota
	byRows                 // whole rows, by worker.share(rows, 1)
	byColumns              // columns of all rows, by worker.columns
)

// access is a value, cache or scratch that a launch reads or writes.
type access struct {
	at        backend.Buffer
	shape     graph.Value // what the buffer holds; the zero value for caches and scratch
	write     bool
	partition partition // which part of it a worker accesses
}

// accessesOf lists what a node reads and writes, with its outputs partitioned so. A matmul reads all of its input for any column.
func accessesOf(n *graph.Node, a backend.Args, outputs partition) []access {
	inputs := outputs
	if _, ok := n.Op.(graph.Linear); ok {
		inputs = anyPartition
	}
	var all []access
	add := func(values []*graph.Value, at []backend.Buffer, write bool, part partition) {
		for i, v := range values {
			x := access{at: at[i], write: write, partition: part}
			if v.Cache == nil {
				x.shape = graph.Value{Rows: v.Rows, Axis: graph.Axis{Count: v.Axis.Len(), Size: 1}, Type: v.Type}
			}
			all = append(all, x)
		}
	}
	add(n.In, a.In, false, inputs)
	add(n.Out, a.Out, true, outputs)
	if a.Scratch.Len > 0 {
		all = append(all, access{at: a.Scratch, write: true})
	}
	return all
}

// barriersBefore says before which launches there must be a barrier. None is needed between launches that access nothing in
// common (the matmuls of one input: query, key and value; gate and up), nor where every worker continues with its own part of
// a value (a norm and the quantization of its rows; the columns of gate and up, their product and its quantization).
func barriersBefore(launches []backend.Launch) []bool {
	wait := make([]bool, len(launches))
	first := 0 // since the last barrier
	for i, l := range launches {
		if wait[i] = slices.ContainsFunc(launches[first:i], l.(*launch).dependsOn); wait[i] {
			first = i
		}
	}
	return wait
}

// dependsOn reports whether a worker that has finished its share of an earlier launch must wait for the others.
func (l *launch) dependsOn(before backend.Launch) bool {
	p := before.(*launch)
	for _, x := range l.accesses {
		for _, y := range p.accesses {
			overlap := x.at.Mem == y.at.Mem && x.at.Off < y.at.Off+y.at.Len && y.at.Off < x.at.Off+x.at.Len
			own := x.partition != anyPartition && x.partition == y.partition && x.at.Off == y.at.Off && x.shape == y.shape && x.shape.Axis.Count > 0
			if overlap && (x.write || y.write) && !own {
				return true
			}
		}
	}
	return false
}
