package compile

import (
	"slices"
	"sync"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/pass"
)

// Steps in flight of a Group whose stages are devices of their own: those of the stages before the last begin with a step at once, each in a goroutine of its own, as far as what they receive goes.
// Those of the last one compute a step when its results are asked for. What else all devices are to do between steps stands between them in the same order on each.

// flight is the steps that have begun, and what stands between them.
type flight struct {
	stages int     // 1: stages are on the same devices, which compute one after the other, and not what is in their queues
	lanes  []*lane // of devices of the stages before the last
	last   []*Program
	begun  []ordered // what the last stage has still to do, in order
	steps  int       // that have begun

	mu       sync.Mutex
	changed  sync.Cond // a lane has done something
	ending   int       // the step that is being ended
	failed   error     // of a lane
	failedAt int       // step at which it failed
}

// ordered is something that devices have still to do.
type ordered struct {
	do   func(p *Program) error
	step int // 0: it is none
}

// lane is what a device of an earlier stage has to do.
type lane struct {
	program *Program
	tasks   []ordered
	busy    bool // a goroutine is at it
	done    int  // the last step that it has done
}

// newFlight makes room for steps in flight. Between devices of several backends there is one: the slower one is what steps wait for, and reads its weights for each.
func (x *Group) newFlight(l pass.Layout, members []Member, alike bool) {
	f := &x.flight
	f.changed.L = &f.mu
	if f.stages = l.Pipeline; l.EarlyExperts > 0 || !alike { // what the first stage makes of a layer waits for the last one
		f.stages = 1
	}
	stageOf := map[string]int{} // of a device by its name
	for i, p := range x.programs {
		stage := l.Rank(i).Stage
		if stage == l.Pipeline-1 {
			f.last = append(f.last, p)
		} else {
			f.lanes = append(f.lanes, &lane{program: p})
		}
		name := members[i].Device.Info().Name
		if other, seen := stageOf[name]; seen && other != stage && x.ranks[i].pipeline == nil {
			f.stages = 1
		}
		stageOf[name] = stage
	}
}

// Stages implements Pipelined. Slots are filled with adapters on all devices at once, which is not between steps in flight.
func (x *Group) Stages() int {
	if x.limits.Adapters > 0 {
		return 1
	}
	return x.flight.stages
}

// Begin implements Pipelined.
func (x *Group) Begin(b *backend.Batch, body bool) error {
	do := func(p *Program) error { return p.Run(b) }
	if body {
		do = func(p *Program) error { return p.RunBody(b) }
	}
	x.flight.steps++
	x.order(ordered{do, x.flight.steps})
	return nil
}

// order gives the earlier stages something to do, and notes it for the last one.
func (x *Group) order(o ordered) {
	f := &x.flight
	f.begun = append(f.begun, o)
	f.mu.Lock()
	defer f.mu.Unlock()
	task := ordered{o.do, f.steps} // what fails between steps fails the one before
	for _, l := range f.lanes {
		if l.tasks = append(l.tasks, task); !l.busy {
			l.busy = true
			go x.work(l)
		}
	}
}

// work does what a lane has to do until nothing is left, or something fails.
func (x *Group) work(l *lane) {
	f := &x.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(l.tasks) > 0 {
		task := l.tasks[0]
		l.tasks = slices.Delete(l.tasks, 0, 1)
		f.mu.Unlock()
		err := guarded(l.program, task.do)
		f.mu.Lock()
		if err == nil {
			l.done = task.step
			f.changed.Broadcast()
			continue
		}
		l.tasks = nil
		if f.failed == nil || task.step < f.failedAt {
			f.failed, f.failedAt = err, task.step
		}
		if f.failedAt <= f.ending { // or the steps before, which have all that they need, are ended first
			x.abort(f.failed)
		}
	}
	l.busy = false
	f.changed.Broadcast()
}

// End implements Pipelined. What stands behind the step is done as well, up to the next one: it changes caches alone.
func (x *Group) End() error {
	f := &x.flight
	for steps := 0; len(f.begun) > 0; {
		next := f.begun[0]
		if next.step > 0 {
			if steps++; steps > 1 {
				return nil
			}
		}
		f.begun = slices.Delete(f.begun, 0, 1)
		err := f.failedBy(next.step)
		if err == nil {
			err = x.sideBySide(f.last, next.do)
		}
		if err == nil {
			err = f.await(next.step)
		}
		if err != nil {
			return x.over(err)
		}
	}
	return x.over(nil)
}

// failedBy notes which step is being ended, 0 for the same as before, and gives the error of a lane that has failed at it.
func (f *flight) failedBy(step int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ending = max(f.ending, step)
	return f.stands()
}

// await waits until the earlier stages have done with a step, whose batch is the caller's again then.
func (f *flight) await(step int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.stands() == nil && slices.ContainsFunc(f.lanes, func(l *lane) bool { return l.done < step }) {
		f.changed.Wait()
	}
	return f.stands()
}

// stands is the error of a lane that has failed by the step that is being ended.
func (f *flight) stands() error {
	if f.failedAt <= f.ending {
		return f.failed
	}
	return nil
}

// over ends all that is in flight, because of err if it is not nil, and waits for the earlier stages. Its error is why steps have failed.
func (x *Group) over(err error) error {
	f := &x.flight
	f.begun = f.begun[:0]
	if err != nil {
		x.abort(err)
	}
	f.mu.Lock()
	for slices.ContainsFunc(f.lanes, func(l *lane) bool { return l.busy }) {
		f.changed.Wait()
	}
	if failed := f.stands(); failed != nil {
		err = failed // the others' errors are of the wait for it
	}
	f.failed = nil
	f.mu.Unlock()
	if err != nil {
		x.reset()
	}
	return err
}

// Abandon implements Pipelined.
func (x *Group) Abandon() error {
	for len(x.flight.begun) > 0 {
		if err := x.End(); err != nil {
			return err
		}
	}
	return nil
}

// all does something on one device after the other, behind the steps that have begun.
func (x *Group) all(do func(p *Program) error) error {
	if len(x.flight.begun) > 0 {
		x.order(ordered{do: do})
		return nil
	}
	for _, p := range x.programs {
		if err := do(p); err != nil {
			return err
		}
	}
	return nil
}

// kept is a list of pages that the caller uses again, for what is done later.
func (x *Group) kept(pages []int32) []int32 {
	if len(x.flight.begun) == 0 {
		return pages
	}
	return slices.Clone(pages)
}
