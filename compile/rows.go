package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// DeviceRows is rows of a value in a device's memory: what one program keeps (graph.Graph.Kept), or another's input (graph.Graph.Inputs).
// Programs on one device hand them on without a copy to the host.
type DeviceRows struct {
	value  *graph.Value
	buffer backend.Buffer
	limit  int // rows
}

// Kept is hidden states of the last step, in the order of Graph.Kept. They stay until the next one.
func (p *Program) Kept(i int) DeviceRows { return p.rowsOf(p.Graph.Kept[i]) }

// Input is rows that the next step takes, in the order of Graph.Inputs. They stay until they are written over.
func (p *Program) Input(i int) DeviceRows { return p.rowsOf(p.Graph.Inputs[i]) }

func (p *Program) rowsOf(v *graph.Value) DeviceRows {
	return DeviceRows{v, p.where[v], p.limits.Rows(v.Rows)}
}

// Width is how many numbers a row has.
func (r DeviceRows) Width() int { return r.value.Axis.Len() }

// All reports whether there is a row for every token of a step, and not only for those whose logits are wanted.
func (r DeviceRows) All() bool { return r.value.Rows != graph.Logits }

// Takes is nil if rows of another value can be copied to these, or says what differs.
func (r DeviceRows) Takes(from DeviceRows) error {
	if a, b := r.value, from.value; a.Axis.Len() != b.Axis.Len() || a.Type != b.Type {
		return fmt.Errorf("rows of %s are %d numbers in %s, and those of %s are %d in %s", b.Name, b.Axis.Len(), b.Type, a.Name, a.Axis.Len(), a.Type)
	}
	return nil
}

// CopyRows copies n rows, from row from on, to rows of one of this program's inputs, from row to on, in order with the steps. Both are of
// programs on the same device, and alike: see Takes.
func (p *Program) CopyRows(dst DeviceRows, to int, src DeviceRows, from, n int) error {
	if from < 0 || to < 0 || from+n > src.limit || to+n > dst.limit {
		return fmt.Errorf("compile: rows %d to %d of %s are to be rows %d to %d of %s; there are %d and %d", from, from+n, src.value.Name, to, to+n, dst.value.Name, src.limit, dst.limit)
	}
	size := src.value.RowBytes()
	return p.dev.Copy(dst.buffer.Slice(int64(to)*size, int64(n)*size), src.buffer.Slice(int64(from)*size, int64(n)*size))
}
