package engine

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
)

// simStages is a simulated model of several stages (compile.Pipelined): what is begun is computed when its results are asked for, and all else in its place in between.
type simStages struct {
	*simRunner
	stages int
	begun  []simOrdered
	full   int // steps that ended with one in flight for each stage
}

type simOrdered struct {
	do func() error
	of *backend.Batch // a step's
}

// Stages implements compile.Pipelined.
func (x *simStages) Stages() int { return x.stages }

// Run is not called.
func (x *simStages) Run(*backend.Batch) error {
	return fmt.Errorf("a step of a pipeline is run and not begun")
}

// Begin implements compile.Pipelined. A step must not need what is still to be sampled.
func (x *simStages) Begin(b *backend.Batch, _ bool) error {
	for _, token := range b.Tokens {
		if token < 0 {
			return fmt.Errorf("a step is begun with a token that is not known")
		}
	}
	if slices.ContainsFunc(x.begun, func(o simOrdered) bool { return o.of == b }) || x.steps() == x.stages {
		return fmt.Errorf("%d steps are in flight, or one twice", x.steps())
	}
	x.begun = append(x.begun, simOrdered{func() error { return x.simRunner.Run(b) }, b})
	return nil
}

func (x *simStages) steps() (n int) {
	for _, o := range x.begun {
		if o.of != nil {
			n++
		}
	}
	return n
}

// End implements compile.Pipelined.
func (x *simStages) End() error {
	if x.steps() == x.stages {
		x.full++
	}
	for first := true; len(x.begun) > 0 && (first || x.begun[0].of == nil); first = false {
		next := x.begun[0]
		x.begun = slices.Delete(x.begun, 0, 1)
		if err := next.do(); err != nil {
			return err
		}
	}
	return nil
}

// Abandon implements compile.Pipelined.
func (x *simStages) Abandon() error {
	for len(x.begun) > 0 {
		if err := x.End(); err != nil {
			return err
		}
	}
	return nil
}

func (x *simStages) later(do func() error) error {
	if len(x.begun) == 0 {
		return do()
	}
	x.begun = append(x.begun, simOrdered{do: do})
	return nil
}

// CopyPage implements compile.Runner.
func (x *simStages) CopyPage(group int, from, to int32) error {
	return x.later(func() error { return x.simRunner.CopyPage(group, from, to) })
}

// SwapOut implements compile.Runner.
func (x *simStages) SwapOut(group int, from, to []int32) error {
	from, to = slices.Clone(from), slices.Clone(to)
	return x.later(func() error { return x.simRunner.SwapOut(group, from, to) })
}

// SwapIn implements compile.Runner.
func (x *simStages) SwapIn(group int, from, to []int32) error {
	from, to = slices.Clone(from), slices.Clone(to)
	return x.later(func() error { return x.simRunner.SwapIn(group, from, to) })
}
