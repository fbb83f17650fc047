package graph

import "fmt"

// Verify checks what every graph must hold, whatever pass made it: values are made before they are read and once,
// shapes are what the ops infer, each version of a cache has one writer and none is read after it was overwritten.
func (g *Graph) Verify() error {
	made := map[*Value]bool{}
	latest := map[*Cache]*Value{}
	owned := map[*Weight]bool{}
	overwritten := map[*Value]*Node{}
	for _, w := range g.Weights {
		owned[w] = true
	}
	for _, v := range g.Inputs {
		made[v] = true
	}
	for i, n := range g.Nodes {
		at := func(format string, args ...any) error {
			return fmt.Errorf("graph %s: node %d %s (%s): %w", g.Name, i, n.Op.Name(), n.At, fmt.Errorf(format, args...))
		}
		for _, v := range n.In {
			if !made[v] && (v.Cache == nil || v.From != nil) { // else it is the content before this step
				return at("reads %s before it is made", v.Name)
			}
			if over := overwritten[v]; over != nil {
				return at("reads %s, which %s has overwritten", v.Name, over.Op.Name())
			}
			if last, ok := latest[v.Cache]; ok && v.Cache != nil && last != v {
				return at("reads %s, which %s has overwritten", v.Name, last.Name)
			}
			if err := n.reads(v); err != nil {
				return at("%w", err)
			}
		}
		for _, w := range n.Weights {
			if !owned[w] {
				return at("uses weight %s, which the graph does not list", w.Name)
			}
		}
		want, err := n.Op.Infer(n)
		if err != nil {
			return at("%v", err)
		}
		if len(want) != len(n.Out) {
			return at("makes %d values and should make %d", len(n.Out), len(want))
		}
		for j, v := range n.Out {
			if v.Rows != want[j].Rows || v.Axis != want[j].Axis || v.Type != want[j].Type || v.Cache != want[j].Cache || v.Partial != want[j].Partial || v.Deferred != want[j].Deferred {
				return at("makes %s as %s %v %s and should make %s %v %s", v.Name, v.Rows, v.Axis, v.Type, want[j].Rows, want[j].Axis, want[j].Type)
			}
			if made[v] {
				return at("makes %s a second time", v.Name)
			}
			made[v] = true
			if v.Cache != nil {
				latest[v.Cache] = v
			}
			if o, ok := n.Op.(InPlace); ok {
				overwritten[n.In[o.Overwrites(j)]] = n
			}
		}
	}
	if err := g.checkCacheGroups(); err != nil {
		return err
	}
	return g.verifyResults(made, overwritten)
}

// reads says why a node cannot read a value that has been made.
func (n *Node) reads(v *Value) error {
	if v.Partial && !sums(n.Op) && !IsAdapter(n) {
		return fmt.Errorf("reads %s, of which each device has only a summand: an AllReduce must come before", v.Name)
	}
	if v.Deferred > 0 && !computes(n, v) {
		return fmt.Errorf("reads %s, which is not written in steps of up to %d rows", v.Name, v.Deferred)
	}
	return nil
}

// sums tells the ops that add the summands of several devices.
func sums(o Op) bool {
	switch o := o.(type) {
	case AllReduce:
		return true
	case *Fused:
		return o.Kind == AllReduceAddNorm
	}
	return false
}

// verifyResults checks what the graph gives: its output, its hidden states and other values that are kept.
func (g *Graph) verifyResults(made map[*Value]bool, overwritten map[*Value]*Node) error {
	if over := overwritten[g.Output]; over != nil {
		return fmt.Errorf("graph %s: its output %s is overwritten by %s", g.Name, g.Output.Name, over.Op.Name())
	}
	if over := overwritten[g.Hidden]; over != nil {
		return fmt.Errorf("graph %s: its hidden states %s are overwritten by %s", g.Name, g.Hidden.Name, over.Op.Name())
	}
	if g.Output == nil || !made[g.Output] {
		return fmt.Errorf("graph %s: its output is made by none of its nodes", g.Name)
	}
	if g.Output.Deferred > 0 {
		return fmt.Errorf("graph %s: its output %s is not written in steps of up to %d rows", g.Name, g.Output.Name, g.Output.Deferred)
	}
	if g.Hidden != nil && !made[g.Hidden] {
		return fmt.Errorf("graph %s: its hidden states are made by none of its nodes", g.Name)
	}
	for i, v := range g.Kept {
		switch {
		case !made[v] || v.Cache != nil:
			return fmt.Errorf("graph %s: its hidden output %d, %s, is made by none of its nodes", g.Name, i, v.Name)
		case overwritten[v] != nil:
			return fmt.Errorf("graph %s: its hidden output %d, %s, is overwritten by %s", g.Name, i, v.Name, overwritten[v].Op.Name())
		case v.Deferred > 0:
			return fmt.Errorf("graph %s: its hidden output %d, %s, is not written in steps of up to %d rows", g.Name, i, v.Name, v.Deferred)
		}
	}
	for _, v := range append([]*Value{g.Output, g.Hidden}, g.Kept...) {
		if v != nil && (v.Partial || v.Axis.Shards > 0) {
			return fmt.Errorf("graph %s: its result %s [%s, %s] is not whole on this device; an AllReduce or AllGather must come before", g.Name, v.Name, v.Rows, v.Axis)
		}
	}
	return nil
}

// computes reports whether a node computes a deferred norm itself in the steps in which it is not there.
func computes(n *Node, norm *Value) bool {
	o, ok := n.Op.(*Fused)
	if !ok || o.Prologue == nil || o.Prologue.Rows != norm.Deferred || n.In[0] != norm {
		return false
	}
	for _, v := range n.In[1:] {
		if v == norm {
			return false
		}
	}
	return true
}
