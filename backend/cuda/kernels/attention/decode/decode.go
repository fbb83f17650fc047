// Package decode is flash-decoding: attention of sequences with one new token over the paged KV cache of 16 or 8 bits, bf16 queries, heads
// of up to 256, split-KV so that few sequences fill the GPU too.
package decode

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// params mirrors DecodeParams of split_kv_combine.h.
type params struct {
	Step                                 kernels.Step
	Q, Cache, Y, Partial, Arrived, Sinks driver.Ptr
	Heads, KVHeads, KSize, VSize, Window int32
	Splits, Fill                         int32
	_                                    int32
	Scale, Softcap                       float32
	NewKeys, NewValues, Angles           driver.Ptr
	Adjacent                             int32
	Eps                                  float32
	QueryNorm, KeyNorm                   driver.Ptr
}

// Problem is what a launch computes.
type Problem struct {
	Q, Y                         driver.Ptr // [T, Heads × KSize] and [T, Heads × VSize] bf16
	Cache                        driver.Ptr // pages of the tokens' keys, [KVHeads × KSize] each, and then their values; see kv_cache.h
	Sinks                        driver.Ptr // [Heads] float32: scores without a key; or 0
	Heads, KVHeads, KSize, VSize int
	Window                       int        // keys that a query sees, its own the last; 0: all; below 0: those of its chunk of so many
	Scale, Softcap               float64    // of scores; Softcap 0: none
	Type                         graph.Type // of the cache: BF16, F16, I8, F8 or I4
}

// NewToken is what a launch reads that has rope of queries and keys, and the KV cache write, fused in. Queries have had no rope yet either.
type NewToken struct {
	Keys, Values driver.Ptr // [T, KVHeads × KSize] and [T, KVHeads × VSize] bf16: the step's own, before rope
	Angles       driver.Ptr // [T, KSize / 2 × 2] float32: cosine and sine of each pair
	Adjacent     bool       // pairs are neighbours, not halves of a head

	QueryNorm, KeyNorm driver.Ptr // [KSize] float32: RMSNorm weights of each head, before rope; or 0, both
	Eps                float32    // of that
}

const (
	heads     = 8 // query heads of a block
	threads   = 128
	maxSplits = 64  // of a sequence, as split_kv_combine.h has it
	evenKeys  = 512 // the least keys of a split of a long sequence that is split for load balance, as decode.cu has it
	mostEven  = 6   // splits for load balance
)

// MinPage is the least page size in tokens: the keys that a warp takes at a time lie in one page.
const MinPage = 16

// Fits reports whether heads of these sizes and type can be loaded 16 bytes at a time.
func Fits(kSize, vSize int, cache graph.Type) bool {
	unit := 8
	switch cache {
	case graph.BF16, graph.F16:
	case graph.I8, graph.F8:
		unit = 16
	default:
		return false
	}
	return kSize%unit == 0 && vSize%unit == 0 && kSize <= 256 && vSize <= 256
}

// Kernel is a problem bound to its kernel.
type Kernel struct {
	kernel   *driver.Kernel
	base     params
	groups   int // blocks of one sequence and split
	resident int // blocks at a time
}

// groups is how many blocks share the query heads of one sequence.
func groups(p Problem) int { return p.KVHeads * ((p.Heads/p.KVHeads + heads - 1) / heads) }

// resident is how many blocks are on all multiprocessors at a time, whose loads in flight cover the memory's latency.
// Kernels with rope hold the step's own key and value too, for which three blocks have no registers.
func resident(sms int, p Problem, rope bool) int {
	switch {
	case rope, max(p.KSize, p.VSize) > 128:
		return 2 * sms
	case p.Type != graph.BF16 && p.Type != graph.F16:
		return 4 * sms
	}
	return 3 * sms
}

// fill is how many splits of each of seqs sequences are resident at a time.
func fill(resident, seqs, groups int) int { return max(1, min(resident/(seqs*groups), maxSplits)) }

// even is into how few splits, most at most, seqs long sequences are split so that multiprocessors have work to the end.
func even(resident, seqs, groups, most int) int {
	best, busiest := 1, 0.0
	for n := 1; n <= min(most, mostEven); n++ {
		rounds := float64(n*seqs*groups) / float64(resident)
		if busy := rounds / math.Ceil(rounds); busy > busiest+0.1 { // each split costs 5 µs
			best, busiest = n, busy
		}
	}
	return best
}

// PartialBytes is the scratch for the partial results of up to seqs sequences, with rope and without.
func PartialBytes(sms, seqs int, p Problem) int64 {
	most := 0
	for _, rope := range []bool{false, true} {
		blocks := resident(sms, p, rope)
		for s := 1; s <= seqs; s++ {
			most = max(most, s*groups(p)*max(fill(blocks, s, groups(p)), even(blocks, s, groups(p), mostEven)))
		}
	}
	return int64(most) * heads * int64(p.VSize+4) * 4
}

// Counters is how many zeroed int32 a launch for seqs sequences uses.
func Counters(seqs int, p Problem) int { return seqs * groups(p) }

// FitsRope reports whether there is a kernel with rope and KV cache write for heads of this size, all of whose dims are rotated, and such a cache.
func FitsRope(p Problem, dim int) bool {
	return (p.Type == graph.BF16 || p.Type == graph.F16) && dim == p.KSize && (dim == 64 || dim == 128) && p.VSize <= dim && Fits(p.KSize, p.VSize, p.Type)
}

// NewRope is New with rope, RMSNorm of heads if there is one, and the KV cache write of the new token fused into the launch.
func NewRope(l *kernels.Loader, p Problem, f NewToken, partial, arrived driver.Ptr) (*Kernel, error) {
	name := fmt.Sprintf("decode%d_rope", p.KSize)
	if f.QueryNorm != 0 {
		name += "_norm"
	}
	k, err := newKernel(l, p, name, true, partial, arrived)
	k.base.NewKeys, k.base.NewValues, k.base.Angles = f.Keys, f.Values, f.Angles
	k.base.QueryNorm, k.base.KeyNorm, k.base.Eps = f.QueryNorm, f.KeyNorm, f.Eps
	if f.Adjacent {
		k.base.Adjacent = 1
	}
	return k, err
}

// Gains reports whether a kernel with rope is faster for so many sequences than one without behind a launch of its own: it has two
// blocks a multiprocessor where the other has three, so that depends on whose last wave is fuller.
func (k *Kernel) Gains(seqs int) bool {
	rounds := func(resident int) int { return (seqs*k.groups + resident - 1) / resident * resident }
	sms := k.resident / 2
	return rounds(2*sms) < rounds(3*sms) && seqs*k.groups <= 4*sms
}

// New binds a problem. partial has PartialBytes; arrived has Counters zeros that stay zero between launches.
func New(l *kernels.Loader, p Problem, partial, arrived driver.Ptr) (*Kernel, error) {
	name := "decode256"
	switch size := max(p.KSize, p.VSize); {
	case size <= 64:
		name = "decode64"
	case size <= 96:
		name = "decode96"
	case size <= 128:
		name = "decode128"
	}
	return newKernel(l, p, name, false, partial, arrived)
}

func newKernel(l *kernels.Loader, p Problem, name string, rope bool, partial, arrived driver.Ptr) (*Kernel, error) {
	kernel, err := l.Kernel("attention/decode/decode", kernels.Name(name, p.Type), 0)
	return &Kernel{resident: resident(l.SMs(), p, rope), kernel: kernel, groups: groups(p), base: baseOf(p, partial, arrived)}, err
}

// baseOf is a problem's parameters, but for the step's.
func baseOf(p Problem, partial, arrived driver.Ptr) params {
	return params{
		Q: p.Q, Cache: p.Cache, Y: p.Y, Partial: partial, Arrived: arrived, Sinks: p.Sinks,
		Heads: int32(p.Heads), KVHeads: int32(p.KVHeads), KSize: int32(p.KSize), VSize: int32(p.VSize), Window: int32(p.Window),
		Scale: float32(p.Scale), Softcap: float32(p.Softcap),
	}
}

// params is the parameters for a step of seqs sequences.
func (k *Kernel) params(step *kernels.Step, seqs int) params {
	p := k.base
	p.Step, p.Fill = *step, int32(fill(k.resident, seqs, k.groups))
	longest := int(step.SeqPages) << step.PageShift // that any of them can be; a split has no less than evenKeys of them
	p.Splits = max(p.Fill, int32(even(k.resident, seqs, k.groups, longest/evenKeys)))
	return p
}

// Launch computes the sequences of a step that have one new token; seqs is how many sequences the step has.
func (k *Kernel) Launch(s *driver.Stream, step *kernels.Step, seqs int) error {
	p := k.params(step, seqs)
	return driver.Launch(s, k.kernel, driver.Grid{X: int(p.Splits), Y: k.groups, Z: seqs, Threads: threads}, &p)
}
