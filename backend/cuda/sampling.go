package cuda

import (
	"errors"
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	samplekernel "github.com/ridge-llm/ridge/backend/cuda/kernels/sampling"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

var _ backend.Sampler = (*Device)(nil)

// sampler is the state of sampling across steps. While the device samples for one step, the host packs the samples
// of the next and reads the results of the previous one: hence two of each buffer.
type sampler struct {
	ctx     *driver.Context
	tokens  [2]driver.Ptr // [maxSamples] int32: tokens sampled by the step in each buffer, for the next step
	steps   [2]sampledStep
	next    int // step of the next Sample
	waiting int // steps whose results have not been read
	params  samplekernel.Params
}

// maxSamples is the most samples of a step.
const maxSamples = 4096

// sampledStep is the samples of one step.
type sampledStep struct {
	host    []byte // pinned: the samples as the kernel reads them
	device  driver.Ptr
	results driver.Ptr // [maxSamples] samplekernel.Result
	back    []byte     // pinned: the results
	n       int
	began   *driver.Event // the step that they belong to
	done    *driver.Event
}

func (d *Device) newSampler() (*sampler, error) {
	w := &sampler{ctx: d.ctx}
	for i := range w.steps {
		r := &w.steps[i]
		var err [4]error
		w.tokens[i], err[0] = d.alloc(4*maxSamples, "sampled tokens")
		r.results, err[1] = d.alloc(int64(maxSamples*samplekernel.ResultBytes), "results of sampling")
		r.back, err[2] = d.ctx.AllocHost(maxSamples * samplekernel.ResultBytes)
		r.done, err[3] = d.ctx.NewEvent()
		if err := errors.Join(err[:]...); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *sampler) close() {
	for i := range w.steps {
		r := &w.steps[i]
		r.done.Close()
		w.ctx.FreeHost(r.back)
		r.release(w.ctx)
	}
}

func (r *sampledStep) release(ctx *driver.Context) error {
	if r.host == nil {
		return nil
	}
	err := errors.Join(ctx.FreeHost(r.host), ctx.Free(r.device))
	r.host = nil
	return err
}

// fit makes room for n bytes of samples. The step is not in use.
func (r *sampledStep) fit(ctx *driver.Context, n int) (err error) {
	if len(r.host) >= n {
		return nil
	}
	if err := r.release(ctx); err != nil {
		return err
	}
	if r.host, err = ctx.AllocHost(n); err != nil {
		return err
	}
	r.device, err = ctx.Alloc(int64(n))
	return err
}

// CanSample implements backend.Sampler. It gets the memory for such samples, so that no step has to: a mask each, and penalties that look
// at as many tokens as the cache holds (beginnings that texts share may make it more; the memory then grows).
func (d *Device) CanSample(v *graph.Value, most int) bool {
	if most > maxSamples || !samplekernel.Fits(v.Axis.Len(), v.Type) {
		return false
	}
	room := samplekernel.Room(most, d.steps.lim.Pages*d.steps.lim.PageSize, v.Axis.Len())
	return d.do(func() error {
		return errors.Join(d.sampler.steps[0].fit(d.ctx, room), d.sampler.steps[1].fit(d.ctx, room))
	}) == nil
}

// loadSampler asks for the kernel that samples from what a node makes, if those are logits. It takes the driver as long to assemble as any, so it
// should not be last.
func (d *Device) loadSampler(n *graph.Node) error {
	v, parts := n.Out[0], graph.Parts(n)
	if _, ok := parts[len(parts)-1].Op.(graph.Linear); !ok || v.Rows != graph.Logits || !samplekernel.Fits(v.Axis.Len(), v.Type) {
		return nil
	}
	_, err := samplekernel.Find(d.loader, v.Axis.Len(), v.Type)
	return err
}

// Sample implements backend.Sampler.
func (d *Device) Sample(v *graph.Value, b backend.Buffer, samples []sampling.Sample) error {
	w := d.sampler
	if w.waiting == len(w.steps) || len(samples) > maxSamples {
		return fmt.Errorf("cuda: %d samples while those of %d steps wait to be asked for; up to %d are possible, and %d steps", len(samples), w.waiting, maxSamples, len(w.steps)-1)
	}
	return d.do(func() error { return d.sample(v, b, samples) })
}

func (d *Device) sample(v *graph.Value, b backend.Buffer, samples []sampling.Sample) error {
	w, step := d.sampler, d.steps.next
	r := &w.steps[w.next]
	if r.n = len(samples); r.n > 0 {
		if err := d.launchSamples(r, v, b, samples); err != nil {
			return err
		}
	}
	r.began = d.steps.buffers[step].began
	w.next, w.waiting = 1-w.next, w.waiting+1
	return d.stream.Record(r.done)
}

// launchSamples puts the samples of a step on the stream, behind it, and their way back.
func (d *Device) launchSamples(r *sampledStep, v *graph.Value, b backend.Buffer, samples []sampling.Sample) error {
	w, vocab, step := d.sampler, v.Axis.Len(), d.steps.next
	n, places := samplekernel.Bytes(samples, vocab)
	if n > len(r.host) {
		if err := r.fit(d.ctx, 2*n); err != nil {
			return err
		}
	}
	samplekernel.Pack(r.host, samples, vocab)
	k, err := samplekernel.Find(d.loader, vocab, v.Type)
	if err != nil {
		return err
	}
	if err := d.stream.Upload(r.device, r.host[:n]); err != nil {
		return err
	}
	w.params = samplekernel.Params{
		Logits: at(b), Rows: r.device, Edits: r.device + driver.Ptr(places.Edits), Masks: r.device + driver.Ptr(places.Masks),
		PrevTokens: w.tokens[1-step], Tokens: w.tokens[step], Results: r.results, Vocab: int32(vocab),
	}
	if err := samplekernel.Launch(d.stream, k, len(samples), &w.params); err != nil {
		return err
	}
	return d.stream.Download(r.back[:r.n*samplekernel.ResultBytes], r.results)
}

// SampleResults implements backend.Sampler.
func (d *Device) SampleResults(dst []sampling.Result) (took time.Duration, err error) {
	w := d.sampler
	r := &w.steps[(w.next+len(w.steps)-w.waiting)%len(w.steps)]
	if w.waiting == 0 || dst != nil && r.n != len(dst) {
		return 0, fmt.Errorf("cuda: the tokens of %d samples are asked for, and no step that waits made so many", len(dst))
	}
	w.waiting--
	err = d.do(func() error {
		if err := r.done.Synchronize(); err != nil {
			return err
		}
		took, err = r.done.Since(r.began)
		return err
	})
	if err != nil {
		return 0, err
	}
	results := samplekernel.Results(r.back[:r.n*samplekernel.ResultBytes])
	for i := range dst {
		got := &results[i]
		dst[i] = sampling.Result{Token: got.Token, Failure: sampling.Failure(got.Failure), Logprob: got.Logprob, Top: append(dst[i].Top[:0], got.Top[:got.Tops]...)}
	}
	return took, nil
}
