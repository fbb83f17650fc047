package graph

import "fmt"

// Embed looks up one row of its weight for every token: by the token's id, by its position for models with learned
// positions, or by its segment, with which BERT tells two texts apart: 0 in the first or only one, 1 in the second. The row is
// multiplied by Scale (Gemma's √hidden); 0 means 1.
type Embed struct {
	simple
	ByPosition bool
	BySegment  bool
	First      int // the number of the table's first row, where it is a shard
	Scale      float64
	Known      int // so many token ids have a row, and others look up row 0; 0: all have
	To         Type
	Input      bool // it is the graph's first layer: embeddings that a step gives (backend.Batch.Embeddings) take the place of its rows
}

// Name implements Op.
func (Embed) Name() string { return "Embed" }

// Attrs implements Op.
func (o Embed) Attrs() string {
	by := "ids"
	if o.ByPosition {
		by = "positions"
	}
	if o.BySegment {
		by = "segments"
	}
	if o.First != 0 {
		by += fmt.Sprintf(" from %d", o.First)
	}
	if o.Known != 0 {
		by += fmt.Sprintf(" below %d", o.Known)
	}
	if o.Scale != 0 {
		by += fmt.Sprintf(", scale %.6g", o.Scale)
	}
	return by
}

// Infer implements Op: () , table [vocab, hidden] → [tokens, hidden]. With a shard of the rows of the table, the result is partial: rows
// of other shards are 0.
func (o Embed) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 0, 1, 1); err != nil {
		return nil, err
	}
	if t := n.Weights[0]; t.In.Shards > 0 || o.First != 0 && t.Out.Shards == 0 {
		return nil, fmt.Errorf("table %s [%s, %s] from row %d on: tables are divided by their rows", t.Name, t.Out, t.In, o.First)
	}
	return []Value{{Rows: Tokens, Axis: n.Weights[0].In, Type: o.To, Partial: n.Weights[0].Out.Shards > 0}}, nil
}

// Index is the row that token number r of a step looks up. Without segments all tokens are of the first.
func (o Embed) Index(tokens, positions, segments []int32, r int) int {
	switch {
	case o.BySegment && len(segments) == 0:
		return 0
	case o.BySegment:
		return int(segments[r])
	case o.ByPosition:
		return int(positions[r])
	case o.Known > 0 && int(tokens[r]) >= o.Known:
		return 0
	}
	return int(tokens[r])
}

// Work implements Op: only the rows looked up are read.
func (o Embed) Work(n *Node, s *Step) Work {
	rows := int64(s.Tokens())
	w := traffic(n, s, 0)
	if o.Scale != 0 {
		w.FLOPs = rows * int64(n.Weights[0].In.Len())
	}
	w.WeightBytes = rows * n.Weights[0].Format.RowBytes(n.Weights[0].In.Len())
	return w
}

// HostTable is from how many bytes on a device with memory of its own leaves a table in the host's if its rows are looked up and nothing else: embeddings of
// layers. A step reads a row for each of its tokens, some KiB, over the bus.
const HostTable = 256 << 20

// HostTables is what such tables take in host memory, in bytes. Devices with memory of their own are those that compute in BF16.
func (g *Graph) HostTables() map[*Weight]int64 {
	tables := map[*Weight]int64{}
	for n := range g.Operations() {
		o, ok := n.Op.(Embed)
		if !ok || o.Known == 0 || o.To != BF16 {
			continue
		}
		if t := n.Weights[0]; int64(t.Out.Len())*o.To.RowBytes(t.In.Len()) >= HostTable {
			tables[t] = int64(t.Out.Len()) * o.To.RowBytes(t.In.Len())
		}
	}
	return tables
}

// Embed adds the lookup of token ids in table. The first of a graph is its input.
func (b *Builder) Embed(name string, table *Weight, scale float64) *Value {
	input := !b.embeds
	b.embeds = true
	return b.Emit(name, Embed{Scale: scale, To: b.act, Input: input}, nil, table)[0]
}

// EmbedKnown adds the lookup of token ids in a table that is not the graph's input; those beyond the table look up its first row.
func (b *Builder) EmbedKnown(name string, table *Weight, scale float64) *Value {
	return b.Emit(name, Embed{Scale: scale, Known: table.Out.Len(), To: b.act}, nil, table)[0]
}

// EmbedSegment adds the lookup of segments in table.
func (b *Builder) EmbedSegment(name string, table *Weight) *Value {
	return b.Emit(name, Embed{BySegment: true, To: b.act}, nil, table)[0]
}

// EmbedPosition adds the lookup of positions in table.
func (b *Builder) EmbedPosition(name string, table *Weight) *Value {
	return b.Emit(name, Embed{ByPosition: true, To: b.act}, nil, table)[0]
}
