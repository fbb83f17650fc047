package model

import (
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Config is what the blocks need to know of a model. Sizes are in numbers, contexts in tokens.
type Config struct {
	Vocab   int
	Hidden  int
	Layers  int
	Heads   int // query heads
	KVHeads int // key and value heads, which groups of query heads share
	HeadDim int
	FFN     int // width of the feed-forward block
	Context int // longest sequence the model was made for

	NormEps float64
	GateEps float64 // of norms behind gates of state space layers, where it is another; 0: NormEps
	Act     graph.Fn
	Tied    bool // the output matrix is the embedding

	QKVBias, OutBias, MLPBias bool
	HeadBias                  bool // of logits
	FusedQKV                  bool // queries, keys and values come from one matrix
	FusedGate                 bool // gate and up of a feed-forward block come from one matrix
	QKNorm                    bool // queries and keys are normalised head by head
	WholeQKNorm               bool // over the whole row instead
	LateQKNorm                bool // after the rotation instead of before, of layers that rotate
	UnitQKNorm                bool // head by head, without a weight
	Sinks                     bool // of attention, one for each head

	Plain     bool          // feed-forward blocks have no gate
	XIELU     []graph.XIELU // their function in each layer, in place of Act
	LayerNorm bool          // rows are normalised by LayerNorm, not RMSNorm
	NormBias  bool          // of LayerNorm
	Parallel  Parallel

	Latent Latent // multi-head latent attention; no KV: there is none
	Index  Index  // which of its keys are attended to; no TopK: all are

	Experts   graph.MoE // of feed-forward blocks; no experts: there is one block for all
	ExpertFFN int       // width of an expert's

	Route       graph.Route      // how experts are chosen where that is more than softmax and the best; no TopK: it is not
	RouteBias   bool             // with a bias for each, which counts for the choice alone
	SharedFFN   int              // width of the experts that every row passes, together; 0: none
	ScaledInput bool             // rows are multiplied by the sigmoid of their expert's score before they pass it
	SharedGate  bool             // whose result is gated, row by row
	DenseLayers int              // so many first layers have one block for all and no experts
	Recurrent   []bool           // per layer that keeps a state and no keys and values; nil: none does
	ConvWidth   int              // tokens that a short convolution sees
	Delta       graph.GatedDelta // of those layers, if that is what they are
	KDA         graph.KimiDelta  // likewise
	SSM         graph.SSD        // likewise: Mamba 2
	SSMNorm     bool             // whose result is normalised behind its gate
	ConvBias    bool             // of its convolution, of Mamba 1's and of short ones
	ProjBias    bool             // of the projections in and out of these layers
	NormGroups  int              // in so many groups; 0: together
	Scan        Scan             // likewise: Mamba 1
	Blocks      []string         // per layer of one block: mamba, attention, moe or mlp; nil: layers have two
	AttnGate    bool             // attention's results are gated, number by number
	Dense       []bool           // per layer, where they are others; nil: DenseLayers says

	PerLayer     int       // numbers of each layer's own embedding of a token; 0: there is none
	PerLayerRows int       // tokens that have one
	SharedKV     int       // so many last layers attend to the keys and values of the last layer of their kind before them
	Full         Heads     // of layers without a window, where they are others
	KeysAsValues bool      // values of layers without a window are their keys, as they are before norm and rotation
	LayerFFN     []int     // widths of feed-forward blocks, layer by layer; nil: all have FFN
	Sparsity     []float64 // per layer, deviations of graph.GaussianTopK on gates; -Inf: none. nil: no layer has it
	Streams      Streams   // residual streams, where there are several

	Encoder       bool       // attention is bidirectional, and hidden states are all there is
	Diffusion     *Diffusion // attention is bidirectional, and masked tokens are filled in; nil: text is written from left to right
	FirstPosition int        // row of the position table that belongs to position 0

	Rotation      *graph.Rotation // nil: learned positions
	Windowed      *graph.Rotation // of layers with a window, where it is another
	NoRope        []bool          // per layer: queries and keys are not rotated; nil: all layers rotate
	Windows       []int           // per layer, 0: looks back all the way; of an encoder half before and half behind
	Chunked       bool            // windows are the lengths of chunks, which layers do not look out of
	QueryGrowth   graph.Growth    // of queries, by their positions; in models with NoRope only where they are not rotated
	AttnScale     float64         // of query · key
	ScaleByLayer  bool            // the scale of layer i (from 0) is divided by i + 1
	AttnCap       float64         // soft cap of scores, 0: none
	LogitCap      float64
	LogitScale    float64                    // of logits, 0: none
	EmbScale      float64                    // of embeddings, 0: none
	Multiplied    map[string][]recipe.Factor // by a tensor's stem: what its rows are multiplied by as they are read
	IndexRotation *graph.Rotation            // of the first numbers of an indexer's heads
}

// Heads is how many key heads there are, and the size of all heads, in numbers.
type Heads struct{ KV, Size int }

// Streams is how many residual streams a model has (AltUp), which of them layers compute with, and the rank of the matrices beside
// attention (Laurel). Gemma 3n.
type Streams struct{ Count, Active, Rank int }

// Scan is the sizes of Mamba 1's layers, in numbers.
type Scan struct {
	Inner, State, Rank int     // rows; of a state of each number of them; of what steps are made of
	Norms              bool    // steps, B and C are normalised
	UnitNorms          float64 // likewise without weights, with this epsilon; 0: they are not
}

// Latent is the sizes of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434), in numbers.
type Latent struct {
	Q, KV      int // latents of queries (0: they have none), and of keys and values
	Nope, Rope int // of a query head: without and with rotation
	Value      int // of a value head
}

// Index is an indexer, which chooses the keys that latent attention attends to (DeepSeek-V3.2, GLM-5).
type Index struct {
	Heads, Size int // of its queries; it has one key, of the same size
	TopK        int
	Shared      []bool // per layer: it takes the choice of the layer before; nil: every layer makes its own
}

// Parallel says what the feed-forward block of a layer reads.
type Parallel uint8

const (
	Sequential Parallel = iota // the stream after attention
	SharedNorm                 // what attention reads
	OwnNorm                    // the stream before attention, by a norm of its own
)

// dense reports whether a layer has one feed-forward block for all rows.
func (c *Config) dense(layer int) bool {
	if c.Dense != nil {
		return c.Dense[layer]
	}
	return c.Experts.Experts == 0 || layer < c.DenseLayers
}

// Axes of a model.
func (c *Config) hidden() graph.Axis { return graph.Axis{Name: "hidden", Count: c.Hidden, Size: 1} }
func (c *Config) heads() graph.Axis {
	return graph.Axis{Name: "heads", Count: c.Heads, Size: c.HeadDim}
}
func (c *Config) kv() graph.Axis  { return graph.Axis{Name: "kv", Count: c.KVHeads, Size: c.HeadDim} }
func (c *Config) ffn() graph.Axis { return graph.Axis{Name: "ffn", Count: c.FFN, Size: 1} }
func (c *Config) expertFFN() graph.Axis {
	return graph.Axis{Name: "ffn", Count: c.ExpertFFN, Size: 1}
}
func (c *Config) sharedFFN() graph.Axis {
	return graph.Axis{Name: "ffn", Count: c.SharedFFN, Size: 1}
}
func (c *Config) perExpert() graph.Axis {
	return graph.Axis{Name: "experts", Count: c.Experts.Experts, Size: 1}
}
func (c *Config) vocab() graph.Axis { return graph.Axis{Name: "vocab", Count: c.Vocab, Size: 1} }
func (c *Config) head() graph.Axis  { return graph.Axis{Name: "head", Count: 1, Size: c.HeadDim} }

// rotation is the one that a layer uses; nil: none.
func (c *Config) rotation(layer int) *graph.Rotation {
	if c.NoRope != nil && c.NoRope[layer] {
		return nil
	}
	if c.Windowed != nil && c.Windows[layer] > 0 {
		return c.Windowed
	}
	return c.Rotation
}

// sane bounds for sizes read from files: beyond them a product could overflow or a table could not be meant.
const (
	maxLayers = 4096
	maxSize   = 1 << 24 // hidden, heads, ffn, vocabulary
	maxTokens = 1 << 28 // context
)

// maxEps is more than the epsilon of any model's norms: they add it to a mean of squares.
const maxEps = 0.01

// onlyRecurrent reports whether every layer is one recurrent block, without attention or a feed-forward block.
func (c *Config) onlyRecurrent() bool {
	return c.Heads == 0 && len(c.Recurrent) > 0 && !slices.Contains(c.Recurrent, false)
}

// check refuses sizes that no model has, before anything is allocated by them.
func (c *Config) check(f *fields) {
	for _, s := range []struct {
		what     string
		n, limit int
	}{
		{"vocabulary", c.Vocab, maxSize}, {"hidden size", c.Hidden, maxSize}, {"layer count", c.Layers, maxLayers}, {"context", c.Context, maxTokens},
		{"head count", c.Heads, maxSize}, {"key head count", c.KVHeads, maxSize}, {"head size", c.HeadDim, maxSize},
		{"feed-forward size", max(c.FFN, c.ExpertFFN), maxSize},
	} {
		if s.what == "head count" && c.onlyRecurrent() { // layers of one block each, without any of the rest
			break
		}
		if s.n <= 0 || s.n > s.limit {
			f.fail("its %s is %d; 1 to %d are possible", s.what, s.n, s.limit)
			return
		}
	}
	if !(c.NormEps > 0 && c.NormEps <= maxEps) {
		f.fail("the epsilon of its norms is %g; more than 0 and at most %g is possible", c.NormEps, maxEps)
	}
	if c.KVHeads > 0 && c.Heads%c.KVHeads != 0 {
		f.fail("its %d query heads cannot share %d key heads equally", c.Heads, c.KVHeads)
	}
	if c.NoRope != nil && len(c.NoRope) != c.Layers && f.err == nil {
		f.fail("it says of %d layers whether they rotate and has %d", len(c.NoRope), c.Layers)
	}
	if len(c.Windows) != c.Layers && f.err == nil {
		f.fail("it lists the attention of %d layers and has %d", len(c.Windows), c.Layers)
	}
}
