package ranks

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
)

// Steps in flight: the other ranks compute each step as soon as they are told of it, as far as what earlier stages send them goes. Rank 0, whose stage is the last, computes its part when it is
// asked for the results. So while rank 0 is at one step the stages before it are at the next ones. What else all ranks are to do stands between the steps in the same order on all of them.

// ordered is something that rank 0 has still to do.
type ordered struct {
	do   func() error
	step bool
}

// Stages implements compile.Pipelined. Who fills a slot with an adapter waits until all ranks have, which they have not before the steps that they were told of.
func (x *Lead) Stages() int {
	if x.limits.Adapters > 0 {
		return 1
	}
	return x.stages
}

// Begin implements compile.Pipelined.
func (x *Lead) Begin(b *backend.Batch, body bool) error {
	what, do := byte(run), x.Program.Run
	if body {
		what, do = runBody, x.Program.RunBody
	}
	x.say(what)
	x.message = b.AppendTo(x.message)
	if err := x.world.Broadcast(x.message); err != nil {
		return &lostError{err}
	}
	x.begun = append(x.begun, ordered{func() error { return do(b) }, true})
	return nil
}

// End implements compile.Pipelined. What stands behind the step is done as well, up to the next one: it changes caches alone.
func (x *Lead) End() error {
	for steps := 0; len(x.begun) > 0; {
		next := x.begun[0]
		if next.step {
			if steps++; steps > 1 {
				return nil
			}
		}
		x.begun = slices.Delete(x.begun, 0, 1)
		if err := x.own(next.do); err != nil {
			return err
		}
	}
	return nil
}

// Abandon implements compile.Pipelined.
func (x *Lead) Abandon() error {
	for len(x.begun) > 0 {
		if err := x.End(); err != nil {
			return err
		}
	}
	return nil
}
