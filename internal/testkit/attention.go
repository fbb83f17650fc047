package testkit

import (
	"fmt"
	"math/rand/v2"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// attentionSteps are steps whose sequences start at different times, with contexts across tiles and pages.
func attentionSteps() []Steps {
	return []Steps{
		{{1}, {1}, {1}},
		{{17, 3, 0}, {1, 40, 2}, {1, 1, 1}},
		{{150, 1}, {1, 1}, {33, 5}},
		{{530, 3}, {1, 260}, {3, 1}, {40, 40}, {40, 40}}, // far enough for a device to cut the keys
	}
}

// attentionCases write keys and values over several steps and look back at them: all head groupings, sizes, windows of rolled tables
// and caps, sequences that start at different times, contexts across tiles and pages.
func attentionCases() []Case {
	var all []Case
	for _, h := range []struct{ heads, kv, size int }{{4, 4, 16}, {8, 2, 64}, {6, 1, 80}, {4, 2, 128}, {2, 1, 256}, {4, 4, 96}, {1, 1, 320}} {
		for _, window := range []int{0, 9, 70} {
			for i, s := range attentionSteps() {
				if i == 3 && h.size != 16 || h.size > 256 && (i != 1 || window > 0) {
					continue // the reference takes its time
				}
				limit := float64(0)
				if i == 1 {
					limit = 2
				}
				all = append(all, Case{
					Name: fmt.Sprintf("Attention/%d:%dx%d/window%d/steps%d", h.heads, h.kv, h.size, window, i), Op: "Attention", Steps: s, Window: window, Tolerance: 1e-5,
					Graph: func(b *graph.Builder) *graph.Value {
						kv := axis("kv", h.kv, h.size)
						cache := b.Cache(0, kv, kv, window)
						cache = b.KVWrite(cache, feed(b, "k", kv), feed(b, "v", kv))
						return b.Attention("y", feed(b, "q", axis("heads", h.heads, h.size)), cache, graph.Attention{Scale: 0.2, Softcap: limit})
					},
				})
			}
		}
	}
	return all
}

// largeHeadCases attend with heads of more than 256, as Gemma 4's layers of full attention do, with and without token trees.
func largeHeadCases() []Case {
	var all []Case
	for _, h := range []struct{ heads, kv, size, window int }{{16, 2, 512, 0}, {3, 1, 384, 40}, {4, 4, 264, 0}} {
		for _, vary := range []func(*backend.Batch, *rand.Rand){nil, Trees} {
			all = append(all, Case{
				Name: fmt.Sprintf("Attention/large/%d:%dx%d/window%d/trees%t", h.heads, h.kv, h.size, h.window, vary != nil), Op: "Attention",
				Steps: Steps{{135, 1, 3}, {1, 33, 1}, {1, 1, 1}}, Window: h.window, Tolerance: 1e-5, Vary: vary,
				Graph: func(b *graph.Builder) *graph.Value {
					kv := axis("kv", h.kv, h.size)
					cache := b.KVWrite(b.Cache(0, kv, kv, h.window), feed(b, "k", kv), feed(b, "v", kv))
					return b.Attention("y", feed(b, "q", axis("heads", h.heads, h.size)), cache, graph.Attention{Scale: 0.1, Softcap: 2 * float64(h.kv%2)})
				},
			})
		}
	}
	return all
}

// partialCases are attention over some of a sequence's keys, as where others are on other devices: as many as chance says, also none, with and without sinks, to be merged by the sums
// behind the results. What is far in the past may be seen by a later row and not by an earlier one, as in windows.
func partialCases() []Case {
	var all []Case
	for i, s := range append(attentionSteps(), Steps{{3, 300}, {260, 1}}, Steps{{70, 3}, {2, 40}}) {
		vary := func(b *backend.Batch, rnd *rand.Rand) { someKeys(b, rnd, i%2 == 1) }
		if i == 5 { // all of them
			vary = nil
		}
		all = append(all, Case{
			Name: fmt.Sprintf("PartialAttention/steps%d", i), Op: "PartialAttention", Steps: s, Tolerance: 1e-5,
			Graph: func(b *graph.Builder) *graph.Value {
				kv := axis("kv", 2, 16)
				cache := b.KVWrite(b.Cache(0, kv, kv, 0), feed(b, "k", kv), feed(b, "v", kv))
				in, weights := []*graph.Value{feed(b, "q", axis("heads", 6, 16)), cache}, []*graph.Weight(nil)
				if i%2 == 1 { // then there is a sum also where a row sees no key
					weights = append(weights, b.Vector("sinks", axis("heads", 6, 1)))
				}
				return b.Emit("y", graph.PartialAttention{Attention: graph.Attention{Scale: 0.2}}, in, weights...)[0]
			},
			Vary: vary,
		})
	}
	return all
}

// someKeys has every row see some of the keys that it would see; none, if that is possible.
func someKeys(b *backend.Batch, rnd *rand.Rand, none bool) {
	var seen []backend.Keys
	for s := range b.Seqs() {
		for r := b.QStart[s]; r < b.QStart[s+1]; r++ {
			k := b.KeysOf(s, int(r), backend.Mask{})
			if none {
				k.High = rnd.IntN(k.High + 1)
			} else {
				k.High = 1 + rnd.IntN(k.High)
			}
			k.Low = min(rnd.IntN(k.High+1), k.High-1)
			if k.Low = max(k.Low, 0); none && rnd.IntN(4) == 0 {
				k.Low = k.High
			}
			k.Base = k.High
			seen = append(seen, k)
		}
	}
	b.Seen = seen
}

// sinkCases are attention with sinks, whose heads share keys in all ways that kernels tell apart.
func sinkCases() []Case {
	var all []Case
	steps := attentionSteps()
	for i, s := range steps {
		all = append(all, Case{
			Name: fmt.Sprintf("Attention/sinks/steps%d", i), Op: "Attention", Steps: s, Window: 130 * (i % 2), Tolerance: 1e-5,
			Graph: func(b *graph.Builder) *graph.Value {
				kv := axis("kv", 2, 16)
				cache := b.KVWrite(b.Cache(0, kv, kv, 130*(i%2)), feed(b, "k", kv), feed(b, "v", kv))
				q, sinks := feed(b, "q", axis("heads", 6, 16)), b.Vector("sinks", axis("heads", 6, 1))
				return b.Attention("y", q, cache, graph.Attention{Scale: 0.2}, sinks)
			},
		})
	}
	for _, h := range []struct{ heads, kv, size int }{{16, 2, 64}, {6, 1, 80}, {6, 2, 96}, {4, 2, 128}, {2, 1, 256}} {
		for _, both := range []bool{false, true} {
			window, limit, s := 70, 2.0, steps[2]
			if both {
				window, s = 0, Steps{{150, 1, 20}}
			}
			if h.size == 64 {
				limit = 0
			}
			all = append(all, Case{
				Name: fmt.Sprintf("Attention/sinks/%d:%dx%d/both %v", h.heads, h.kv, h.size, both), Op: "Attention", Steps: s, Window: window, Tolerance: 1e-5,
				Graph: func(b *graph.Builder) *graph.Value {
					kv := axis("kv", h.kv, h.size)
					cache := b.KVWrite(b.Cache(0, kv, kv, window), feed(b, "k", kv), feed(b, "v", kv))
					q, sinks := feed(b, "q", axis("heads", h.heads, h.size)), b.Vector("sinks", axis("heads", h.heads, 1))
					return b.Attention("y", q, cache, graph.Attention{Scale: 0.2, Softcap: limit, Bidirectional: both}, sinks)
				},
			})
		}
	}
	return all
}

// maskCases look no further back than the chunk of a query, or no further than so many keys either way.
func maskCases() []Case {
	var all []Case
	for _, h := range []struct{ heads, kv, size int }{{4, 4, 16}, {8, 2, 64}, {4, 2, 128}} {
		for _, chunk := range []int{32, 100} {
			for i, s := range attentionSteps()[:3] {
				all = append(all, Case{
					Name: fmt.Sprintf("Attention/chunks of %d/%d:%dx%d/steps%d", chunk, h.heads, h.kv, h.size, i), Op: "Attention", Steps: s, Window: chunk, Tolerance: 1e-5,
					Graph: func(b *graph.Builder) *graph.Value {
						kv := axis("kv", h.kv, h.size)
						cache := b.KVWrite(b.Cache(0, kv, kv, chunk), feed(b, "k", kv), feed(b, "v", kv))
						return b.Attention("y", feed(b, "q", axis("heads", h.heads, h.size)), cache, graph.Attention{Scale: 0.2, Chunked: true})
					},
				})
			}
		}
		for i, s := range []Steps{{{1, 17}}, {{40, 230, 3}}} {
			all = append(all, Case{
				Name: fmt.Sprintf("Attention/within 8/%d:%dx%d/steps%d", h.heads, h.kv, h.size, i), Op: "Attention", Steps: s, Tolerance: 1e-5,
				Graph: func(b *graph.Builder) *graph.Value {
					kv := axis("kv", h.kv, h.size)
					cache := b.KVWrite(b.Cache(0, kv, kv, 0), feed(b, "k", kv), feed(b, "v", kv))
					return b.Attention("y", feed(b, "q", axis("heads", h.heads, h.size)), cache, graph.Attention{Scale: 0.2, Bidirectional: true, Reach: 8})
				},
			})
		}
	}
	return all
}

// bidirectionalCases look at all keys of a sequence: an encoder's in one step, and blocks of a masked diffusion model behind what is in the cache.
func bidirectionalCases() []Case {
	var all []Case
	for i, s := range []Steps{{{1, 17}}, {{40, 530, 3}}, {{40, 5, 300}, {33, 1, 64}, {65, 2, 1}}} {
		for _, h := range []struct{ heads, kv, size int }{{4, 4, 16}, {8, 2, 64}, {4, 2, 128}, {2, 1, 256}} {
			if h.size > 16 && len(s) == 1 {
				continue
			}
			all = append(all, Case{
				Name: fmt.Sprintf("Attention/both/%d:%dx%d/steps%d", h.heads, h.kv, h.size, i), Op: "Attention", Steps: s, Tolerance: 1e-5,
				Graph: func(b *graph.Builder) *graph.Value {
					kv := axis("kv", h.kv, h.size)
					cache := b.KVWrite(b.Cache(0, kv, kv, 0), feed(b, "k", kv), feed(b, "v", kv))
					return b.Attention("y", feed(b, "q", axis("heads", h.heads, h.size)), cache, graph.Attention{Scale: 0.2, Bidirectional: true})
				},
			})
		}
	}
	return all
}
