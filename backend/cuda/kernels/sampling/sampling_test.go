package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "sampling/sampling", map[string]uintptr{"sample_": unsafe.Sizeof(Params{})})
}

// problem is rows and samples of them.
type problem struct {
	name       string
	vocab      int
	typ        graph.Type
	rows       []float32 // [n × vocab]
	samples    []sampling.Sample
	prevTokens []int32
}

// makers are kinds of rows.
var makers = []struct {
	name string
	make func(r *rand.Rand) float32
}{
	{"normal", func(r *rand.Rand) float32 { return float32(r.NormFloat64() * 3) }},
	{"flat", func(r *rand.Rand) float32 { return float32(r.NormFloat64() * 0.02) }},
	{"steep", func(r *rand.Rand) float32 { return float32(r.NormFloat64() * 40) }},
	{"few values", func(r *rand.Rand) float32 { return float32(r.IntN(5)) }},
	{"equal", func(r *rand.Rand) float32 { return 1.5 }},
	{"holes", func(r *rand.Rand) float32 {
		switch r.IntN(4) {
		case 0:
			return float32(math.NaN())
		case 1:
			return float32(math.Inf(-1))
		}
		return float32(r.NormFloat64())
	}},
	{"negative", func(r *rand.Rand) float32 { return float32(-20 - math.Abs(r.NormFloat64())) }},
}

// problems makes rows of every kind and length, with samples of every setting.
func problems(r *rand.Rand, vocabs []int, each int) (all []problem) {
	for _, vocab := range vocabs {
		for _, typ := range []graph.Type{graph.BF16, graph.F32} {
			for _, m := range makers {
				p := problem{name: fmt.Sprintf("%s, %d %s", m.name, vocab, typ), vocab: vocab, typ: typ}
				for i := range each {
					for range vocab {
						x := m.make(r)
						if typ == graph.BF16 {
							x = quant.BF16ToF32(quant.F32ToBF16(x))
						}
						p.rows = append(p.rows, x)
					}
					p.samples = append(p.samples, random(r, i, vocab))
					p.prevTokens = append(p.prevTokens, int32(r.IntN(vocab)))
				}
				all = append(all, p)
			}
		}
	}
	return all
}

// random is a sample with some of the settings on.
func random(r *rand.Rand, row, vocab int) sampling.Sample {
	d := sampling.Sample{Row: row, Temperature: 1, TopP: 1, TypicalP: 1, U: r.Float64(), Repetition: 1, Future: -1}
	some := func(n int) bool { return r.IntN(n) == 0 }
	if some(5) {
		d.Temperature = 0
	} else if some(2) {
		d.Temperature = 0.3 + 1.2*r.Float64()
	}
	if some(2) {
		d.TopK = 1 + r.IntN(min(vocab, 100))
	} else if some(4) {
		d.TopK = 1 + r.IntN(vocab)
	}
	if some(2) {
		d.TopP = 0.5 + r.Float64()/2
	}
	if some(3) {
		d.MinP = r.Float64() * 0.2
	}
	if some(4) {
		d.TypicalP = 0.2 + 0.7*r.Float64()
	}
	if some(3) {
		d.Mask = make([]uint32, (vocab+31)/32)
		for i := range d.Mask {
			d.Mask[i] = r.Uint32() & r.Uint32()
		}
	}
	if some(2) {
		d.Repetition, d.Frequency, d.Presence = 1.3, 0.5, 0.25
		seen := map[int32]bool{}
		for range r.IntN(min(vocab, 900)) {
			id := int32(r.IntN(vocab))
			if !seen[id] {
				d.Edits = append(d.Edits, sampling.Edit{ID: id, Seen: int32(r.IntN(3)), Counted: int32(r.IntN(3))})
			}
			seen[id] = true
		}
		for i := range d.Edits {
			if some(10) {
				d.Edits[i].Add = float32(r.NormFloat64() * 5)
			} else if some(20) {
				d.Edits[i].Add = float32(math.Inf(-1))
			}
		}
		if some(2) {
			d.Future = row
		}
	}
	if some(3) {
		d.Logprob, d.Top = true, r.IntN(sampling.MaxTop+1)
	}
	return d
}

// check compares a result with the definition. Where another token came, it must be the one that the definition gives when
// a setting is off by the rounding of weights; it returns whether that was so.
func check(t testing.TB, p *problem, i int, got Result) (near bool) {
	d := p.samples[i]
	row := p.rows[d.Row*p.vocab : (d.Row+1)*p.vocab]
	future := int32(0)
	if d.Future >= 0 {
		future = p.prevTokens[d.Future]
	}
	want := sampling.Reference(&d, row, future)
	if got.Token != want.Token && want.Failure == sampling.None {
		near = isNear(d, row, future, got.Token)
		if !near {
			t.Errorf("%s, sample %d: token %d, want %d: %+v", p.name, i, got.Token, want.Token, short(d))
			return false
		}
		want.Token = got.Token
		if d.Logprob {
			d.Temperature, d.Mask, d.Edits, d.Future = 0, only(p.vocab, got.Token), nil, -1
			want = sampling.Reference(&d, row, future)
		}
	}
	if got.Failure != int32(want.Failure) || want.Failure == sampling.None && !(math.Abs(float64(got.Logprob-want.Logprob)) < 1e-4) || int(got.Tops) != len(want.Top) {
		t.Errorf("%s, sample %d: %+v, want %+v: %+v", p.name, i, got, want, short(d))
		return near
	}
	for n, top := range want.Top {
		if g := got.Top[n]; g.Token != top.Token || !(math.Abs(float64(g.Logprob-top.Logprob)) < 1e-4) {
			t.Errorf("%s, sample %d: token %d of the likeliest is %v, want %v", p.name, i, n, g, top)
			break
		}
	}
	return near
}

// isNear reports whether the definition gives a token when settings are off by a few millionths. The typical order of a large
// vocabulary is dense: there neighbours change places by rounding too, so it looks a few tokens further.
func isNear(d sampling.Sample, row []float32, future, token int32) bool {
	passes := 1
	if d.TypicalP < 1 {
		passes = 5
	}
	for n := range 81 * passes {
		e := d
		eps := 3e-6 * float64(int(1)<<(n/81))
		sign := func(i int) float64 { return eps * float64(i%3-1) }
		e.U = max(0, d.U+sign(n))
		if d.TopP < 1 {
			e.TopP = min(d.TopP*(1+sign(n/3)), 1)
		}
		e.MinP = d.MinP * (1 + sign(n/9))
		if d.TypicalP < 1 {
			e.TypicalP = min(d.TypicalP*(1+sign(n/27)), 1)
		}
		if sampling.Reference(&e, row, future).Token == token {
			return true
		}
	}
	return false
}

// only is a mask of one token.
func only(vocab int, id int32) []uint32 {
	mask := make([]uint32, (vocab+31)/32)
	mask[id/32] = 1 << (id % 32)
	return mask
}

// short is a sample without its long lists.
func short(d sampling.Sample) sampling.Sample {
	if d.Mask != nil {
		d.Mask = d.Mask[:1]
	}
	d.Edits = d.Edits[:min(3, len(d.Edits))]
	return d
}

// put uploads a problem.
func put(g *gputest.GPU, p *problem) Params {
	n, at := Bytes(p.samples, p.vocab)
	packed := make([]byte, n+16)
	Pack(packed, p.samples, p.vocab)
	base := g.Poisoned(len(packed))
	g.Must(g.Stream.Upload(base, packed))
	g.Must(g.Stream.Synchronize())
	logits := g.F32
	if p.typ == graph.BF16 {
		logits = g.BF16
	}
	return Params{
		Logits: logits(p.rows), Rows: base, Edits: base + driver.Ptr(at.Edits), Masks: base + driver.Ptr(at.Masks), PrevTokens: g.Ints(p.prevTokens...),
		Tokens: g.Poisoned(4 * len(p.samples)), Results: g.Poisoned(ResultBytes * len(p.samples)), Vocab: int32(p.vocab),
	}
}

// results launches the kernel and downloads its results.
func results(g *gputest.GPU, p *problem) []Result {
	k, err := Find(g.Loader, p.vocab, p.typ)
	g.Must(err)
	params := put(g, p)
	g.Must(Launch(g.Stream, k, len(p.samples), &params))
	b := make([]byte, ResultBytes*len(p.samples))
	g.Must(g.Stream.Download(b, params.Results))
	g.Must(g.Stream.Synchronize())
	return Results(b)
}

// TestAgainstPlain samples rows of every kind with every setting, and compares with the definition. With -short, as the sanitizer has it,
// from short rows alone: the kernels are the same.
func TestAgainstPlain(t *testing.T) {
	vocabs := []int{5, 1000, 32001, 128256}
	if testing.Short() {
		vocabs = vocabs[:2]
	}
	for _, vocab := range vocabs {
		t.Run(fmt.Sprint(vocab), func(t *testing.T) {
			gputest.Run(t, func(g *gputest.GPU) { againstPlain(t, g, vocab) })
		})
	}
}

func againstPlain(t *testing.T, g *gputest.GPU, vocab int) {
	total, near := 0, 0
	for _, p := range problems(g.Rand, []int{vocab}, 16) {
		g.Sub(p.name, func(g *gputest.GPU) {
			first := results(g, &p)
			for i, r := range first {
				if check(g, &p, i, r) {
					near++
				}
				total++
			}
			for i, r := range results(g, &p) {
				if fmt.Sprint(r) != fmt.Sprint(first[i]) { // the places past Tops hold NaN
					g.Errorf("%s, sample %d: %v, then %v", p.name, i, first[i], r)
				}
			}
		})
	}
	t.Logf("%d samples, %d of them on the other side of a border by rounding", total, near)
	if near > total/50 {
		t.Errorf("%d of %d samples differ from the definition by rounding; at most one in fifty should", near, total)
	}
}

// BenchmarkSample prints the time of sampling rows of 128,256 bf16 logits, and the rate at which rows are read, as if once.
func BenchmarkSample(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		const vocab = 128256
		for _, scale := range []float64{1.3, 3} {
			for _, n := range []int{1, 32, 256} {
				for _, c := range cases(g.Rand, vocab) {
					g.Scope(func() {
						p := problem{vocab: vocab, typ: graph.BF16, rows: g.Random(n*vocab, scale)}
						for i := range n {
							d := c.sample
							d.Row, d.U = i, g.Rand.Float64()
							p.samples, p.prevTokens = append(p.samples, d), append(p.prevTokens, 0)
						}
						params := put(g, &p)
						k, err := Find(g.Loader, vocab, graph.BF16)
						g.Must(err)
						took := g.Time(func(int) error { return Launch(g.Stream, k, n, &params) })
						fmt.Printf("%3d rows, spread %.1f  %-28s %8.1f µs  %5.2f TB/s\n", n, scale, c.name, took.Seconds()*1e6, float64(2*n*vocab)/took.Seconds()/1e12)
					})
				}
			}
		}
	})
}

type benchCase struct {
	name   string
	sample sampling.Sample
}

// cases are the settings worth timing.
func cases(r *rand.Rand, vocab int) []benchCase {
	plain := sampling.Sample{Temperature: 0.8, TopP: 1, TypicalP: 1, Repetition: 1, Future: -1}
	greedy, topP, all, logprobs := plain, plain, plain, plain
	greedy.Temperature = 0
	topP.TopP, topP.TopK = 0.95, 40
	all.TopP, all.TopK, all.MinP, all.Repetition, all.Mask = 0.95, 40, 0.01, 1.1, make([]uint32, (vocab+31)/32)
	for i := range all.Mask {
		all.Mask[i] = r.Uint32()
	}
	for i := range 512 {
		all.Edits = append(all.Edits, sampling.Edit{ID: int32(i * 250), Seen: 1, Counted: 1})
	}
	logprobs.Temperature, logprobs.Logprob, logprobs.Top = 0, true, 5
	return []benchCase{{"greedy", greedy}, {"temperature", plain}, {"top-k 40, top-p", topP}, {"mask, 512 edits, all filters", all}, {"greedy, 5 log-probabilities", logprobs}}
}
