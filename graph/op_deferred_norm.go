package graph

import "fmt"

// DeferredNorm is the RMSNorm of whole rows whose result is not written in steps of up to Rows rows: all nodes that read it have a
// Prologue and compute it themselves; see Value.Deferred.
type DeferredNorm struct {
	Eps  float64
	Rows int
}

// Name implements Op.
func (DeferredNorm) Name() string { return "DeferredNorm" }

// Attrs implements Op.
func (o DeferredNorm) Attrs() string {
	return fmt.Sprintf("eps %.4g, deferred up to %d rows", o.Eps, o.Rows)
}

// Infer implements Op: x [rows, axis], w [1, axis] → [rows, axis].
func (o DeferredNorm) Infer(n *Node) ([]Value, error) {
	made, err := RMSNorm{Eps: o.Eps}.Infer(n)
	if err == nil && o.Rows < 1 {
		err = fmt.Errorf("a norm deferred up to %d rows", o.Rows)
	}
	if err == nil {
		made[0].Deferred = o.Rows
	}
	return made, err
}

// Work implements Op: RMSNorm's, whichever launch computes it.
func (o DeferredNorm) Work(n *Node, s *Step) Work { return RMSNorm{Eps: o.Eps}.Work(n, s) }

// Unfused implements Op.
func (o DeferredNorm) Unfused(b *Builder, n *Node, in []*Value) []*Value {
	return b.emit(n.At, n.Out[0].Name, RMSNorm{Eps: o.Eps}, in, n.Weights)
}

// Written is a node that makes a deferred norm as one that writes it in steps of any size, for where its readers are left out.
func Written(n *Node) *Node {
	now := *n
	switch o := n.Op.(type) {
	case DeferredNorm:
		now.Op = RMSNorm{Eps: o.Eps}
	case *Fused:
		written := *o
		written.Deferred = 0
		now.Op = &written
	}
	return &now
}
