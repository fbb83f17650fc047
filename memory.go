package ridge

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/size"
)

// Budget says how much memory the cache of keys and values may take. The zero Budget is Options.Parallel requests of the
// whole context, but no more than nine tenths of what is free.
type Budget struct {
	Bytes int64   // so many, for the cache and, on a GPU, the adapters of Options.MaxLoRAs; 0: see Part
	Part  float64 // of the memory that is free beside the weights, above 0 and up to 1
	Total float64 // of all the device's memory, for weights, activations and cache together: what vLLM calls its utilization
}

const (
	defaultPart = 0.9
	// slack is what activations and the kernels' own memory may take on a device where Total is to be kept, in bytes.
	slack = 1 << 30
)

func (b Budget) check() error {
	var given []string
	for _, one := range []struct {
		is   bool
		what string
	}{
		{b.Bytes != 0, size.Text(b.Bytes)}, {b.Part != 0, fmt.Sprintf("the part %g of what is free", b.Part)}, {b.Total != 0, fmt.Sprintf("what the part %g of the device's memory leaves", b.Total)},
	} {
		if one.is {
			given = append(given, one.what)
		}
	}
	switch {
	case len(given) > 1:
		return fmt.Errorf("ridge: the cache is to take %s; choose one of --kv-memory and --gpu-memory-utilization", strings.Join(given, " and also "))
	case b.Bytes < 0:
		return fmt.Errorf("ridge: a cache of %d bytes; 0 (as much as the requests can fill) or more is possible", b.Bytes)
	case !(b.Part >= 0 && b.Part <= 1):
		return fmt.Errorf("ridge: the cache is to take the part %g of what is free; more than 0 and at most 1 is possible", b.Part)
	case !(b.Total >= 0 && b.Total <= 1):
		return fmt.Errorf("ridge: the part %g of the device's memory is to be used (--gpu-memory-utilization); more than 0 and at most 1 is possible", b.Total)
	}
	return nil
}

// bytes is what the budget comes to on a device where so many bytes of weights will be; -1 when it sets no bound. Without one it is a part of what is free.
func (b Budget) bytes(dev backend.Device, weights, reserved int64, byDefault float64) (int64, error) {
	if b.Bytes > 0 {
		return b.Bytes, nil
	}
	m, ok := dev.(backend.MemoryInfo)
	if !ok {
		if b.Part > 0 || b.Total > 0 {
			return 0, fmt.Errorf("ridge: device %s does not say how much memory is free; give the cache's size in bytes", dev.Info().Name)
		}
		return -1, nil
	}
	free, total, err := unreserved(m, reserved)
	if err != nil {
		return 0, err
	}
	if b.Total > 0 {
		left := int64(b.Total*float64(total)) - (total - free) - weights - slack
		if left <= 0 {
			raise := ""
			if free > weights+slack {
				raise = "raise the part, "
			}
			return 0, noMemory("of the %s of device %s the part %g may be used; %s are in use already, the weights take %s, %s are kept for activations, and nothing is left for the cache; %sstop what else uses it, or take fewer bits a weight",
				size.Text(total), dev.Info().Name, b.Total, size.Text(total-free), size.Text(weights), size.Text(slack), raise)
		}
		return left, nil
	}
	return max(0, int64(cmp.Or(b.Part, byDefault)*float64(free-weights))), nil
}

// fits refuses a number of bytes that is more than what is free of the device's memory beside so many bytes of weights.
func (b Budget) fits(dev backend.Device, weights, reserved int64) error {
	m, ok := dev.(backend.MemoryInfo)
	if !ok || b.Bytes == 0 {
		return nil
	}
	free, total, err := unreserved(m, reserved)
	if err != nil {
		return err
	}
	if left := free - weights; b.Bytes > left {
		return noMemory("the cache is to take %s (--kv-memory), and of the %s of device %s %s are free beside the weights; give less, a part of that as 50%%, or leave it out", size.Text(b.Bytes), size.Text(total), dev.Info().Name, size.Text(left))
	}
	return nil
}

// more is advice to give the cache more memory, in the way in which it was given.
func (b Budget) more() string {
	switch {
	case b.Bytes > 0 || b.Part > 0:
		return "; raise --kv-memory"
	case b.Total > 0:
		return "; raise --gpu-memory-utilization"
	}
	return ""
}

// unreserved is how much of a device's memory is free when so many bytes are reserved for other models of the process, which may not have
// touched theirs yet, and how much there is in all.
func unreserved(m backend.MemoryInfo, reserved int64) (free, total int64, err error) {
	if free, total, err = m.Memory(); err != nil {
		return 0, 0, fmt.Errorf("ridge: %w", err)
	}
	if reserved > 0 {
		free = min(free, total-reserved)
	}
	return free, total, nil
}

// setPages gives the caches their size: what the budget allows. It refuses a budget that does not hold one request. g is the whole model, and parts
// are the graphs of it in the device's memory: g itself, or those of a layout's devices.
func (o Options) setPages(lim *backend.Limits, dev backend.Device, parts []*graph.Graph, g *graph.Graph, reserved int64) error {
	var adapters int64
	for _, part := range parts {
		for _, w := range part.Weights {
			adapters += adapterBytes(dev, w)
		}
	}
	weights := weightBytes(parts) + adapters
	p := backend.NewPaging(g, lim)
	p.Spread(parts)
	lim.Pages = p.Most()
	if err := roomFor(weights, dev, reserved); err != nil || p.Bytes(1, 1) == 0 {
		return err
	}
	if err := o.setSwapPages(lim, dev, p); err != nil {
		return err
	}
	if err := o.KV.fits(dev, weights-adapters, reserved); err != nil {
		return err
	}
	times := backend.PrefixCache
	budget, err := o.KV.bytes(dev, weights, reserved, cmp.Or(o.cachePart, defaultPart))
	if err != nil || budget < 0 {
		p.Share(lim, times)
		return err
	}
	if o.KV.Bytes > 0 && adapters > 0 { // adapters and the cache share what is given
		if budget -= adapters; budget <= 0 {
			return noMemory("%s are to hold the cache and %d adapters of rank %d (--kv-memory), and the adapters alone take %s; raise it, or lower --max-loras or --max-lora-rank", size.Text(o.KV.Bytes), o.adapters().Slots, o.adapters().Rank, size.Text(adapters))
		}
	}
	pages := p.Fit(budget, times)
	if pages < lim.SeqPages {
		times = 1
		pages = p.Fit(budget, times)
	}
	if pages < lim.SeqPages {
		return noMemory("a request of the whole context, %d tokens, takes %d pages of the cache, %s in all, and there are %s for it%s",
			lim.SeqPages*lim.PageSize, lim.SeqPages, size.Text(p.Bytes(lim.SeqPages, times)), size.Text(budget), o.KV.more())
	}
	if o.KV == (Budget{}) {
		pages = min(pages, lim.Pages)
	}
	lim.Pages = pages
	p.Share(lim, times)
	return nil
}

// adapterBytes is what the slots of a weight take on a device with memory of its own, which keeps room for adapters of the largest rank.
func adapterBytes(dev backend.Device, w *graph.Weight) int64 {
	if info := dev.Info(); w.Slots == nil || info.Act != graph.BF16 {
		return 0
	}
	return graph.BF16.RowBytes(w.Slots.Count * w.Slots.Rank * (w.Out.Len() + w.In.Len()))
}

// roomFor refuses a model whose weights do not fit in what is free of the device's memory.
func roomFor(weights int64, dev backend.Device, reserved int64) error {
	m, ok := dev.(backend.MemoryInfo)
	if !ok {
		return nil
	}
	free, total, err := unreserved(m, reserved)
	if err != nil {
		return err
	}
	if weights < free {
		return nil
	}
	stop := ""
	if weights < total-total/10 {
		stop = "; stop what else uses it, or take a smaller model"
	}
	return noMemory("the model's weights take %s, and of the %s of device %s %s are free%s", size.Text(weights), size.Text(total), dev.Info().Name, size.Text(free), stop)
}

// weightBytes is what the weights of a device's graphs take in its memory.
func weightBytes(parts []*graph.Graph) (n int64) {
	for _, part := range parts {
		tables := part.HostTables()
		for _, w := range part.Weights {
			if tables[w] == 0 {
				n += w.Bytes()
			}
		}
	}
	return n
}

// setSwapPages gives the space for preempted requests its size, in pages of host memory.
func (o Options) setSwapPages(lim *backend.Limits, dev backend.Device, p *backend.Paging) error {
	if o.Swap == 0 {
		return nil
	}
	if _, ok := dev.(backend.Swapper); !ok {
		return fmt.Errorf("ridge: Swap (--swap-space) is %s and device %s cannot move its cache to host memory; leave it out", size.Text(o.Swap), dev.Info().Name)
	}
	lim.SwapPages = p.Fit(o.Swap, 1)
	if lim.SwapPages < 1 {
		return fmt.Errorf("ridge: Swap (--swap-space) is %s and a page of the cache takes %s; 0 (none) or at least a page is possible", size.Text(o.Swap), size.Text(p.Bytes(1, 1)))
	}
	return nil
}
