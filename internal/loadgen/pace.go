package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// pace sends the requests of a trace when their time has come.
type pace struct {
	options *Options
	client  *client
	writer  *writer
	records []Record
	began   time.Time
	took    time.Duration
	sent    atomic.Int64
	done    atomic.Int64
}

// progressTime is how often Progress is called.
const progressTime = 500 * time.Millisecond

func (p *pace) run(ctx context.Context) {
	p.began = time.Now()
	stop := make(chan struct{})
	var told sync.WaitGroup
	if p.options.Progress != nil {
		told.Go(func() { p.tell(stop) })
	}
	if p.options.Concurrency > 0 {
		p.closed(ctx)
	} else {
		p.open(ctx)
	}
	p.took = time.Since(p.began)
	close(stop)
	told.Wait()
}

// open sends each request at its time, and waits for no answer before all are sent.
func (p *pace) open(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range p.records {
		body := p.writer.request(i) // before its time, which it must not take up
		due := p.began.Add(p.options.Trace.Requests[i].At)
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		all.Go(func() { p.one(ctx, i, body, due) })
	}
}

// closed keeps a number of requests under way: a new one goes out when an answer has ended.
func (p *pace) closed(ctx context.Context) {
	var next atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	for range p.options.Concurrency {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(p.records) || ctx.Err() != nil {
					return
				}
				body := p.writer.request(i)
				p.one(ctx, i, body, time.Now())
			}
		})
	}
}

// one sends request i, which was due at a time, and keeps what came of it.
func (p *pace) one(ctx context.Context, i int, body asked, due time.Time) {
	p.sent.Add(1)
	r := p.client.ask(ctx, body, due)
	r.At = due.Sub(p.began)
	p.records[i] = r
	p.done.Add(1)
}

func (p *pace) tell(stop <-chan struct{}) {
	tick := time.NewTicker(progressTime)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			p.options.Progress(int(p.sent.Load()), int(p.done.Load()))
		}
	}
}
