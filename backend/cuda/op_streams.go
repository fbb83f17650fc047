package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/multistream"
	"github.com/ridge-llm/ridge/graph"
)

// bindStreams is an op on rows of several streams, on parts of rows, or on rows by a weight or a threshold.
func bindStreams(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	x, out := n.In[0], n.Out[0]
	p := &multistream.Params{
		X: at(a.In[0]), Y: at(a.Out[0]), Streams: int32(x.Axis.Count), Size: int32(x.Axis.Size), Width: int32(x.Axis.Len()),
	}
	if len(a.In) > 1 {
		p.Other = at(a.In[1])
	}
	var what multistream.What
	switch o := n.Op.(type) {
	case graph.ExpandStreams:
		what, p.Streams, p.Size, p.By = multistream.Expand, int32(out.Axis.Count), int32(out.Axis.Size), float32(o.Eps)
	case graph.MixStreams:
		what, p.Coefs = multistream.Mix, at(a.In[1])
	case graph.AddToStreams:
		what, p.From = multistream.Add, int32(o.From)
		if len(a.In) == 3 {
			p.Coefs = at(a.In[2])
		}
	case graph.MeanStreams:
		what = multistream.Mean
	case graph.Columns:
		what, p.From, p.Size = multistream.Columns, int32(o.From), int32(out.Axis.Len())
	case graph.ScaleColumns:
		what, p.Size = multistream.ScaleColumns, int32(n.Weights[0].In.Len())
		var err error
		if p.Weight, err = d.vector(a.Weights[0]); err != nil {
			return nil, err
		}
	case graph.RowSums:
		what, p.Size = multistream.Sums, int32(out.Axis.Len())
	case graph.GaussianTopK:
		what, p.By, p.From = multistream.Threshold, float32(o.Deviations), int32(o.Of)
	}
	k, err := multistream.New(d.loader, what, x.Type)
	if err != nil {
		return nil, err
	}
	return func(s *step) error {
		if rows := s.rows(out.Rows); rows > 0 {
			return k.Launch(d.stream, rows, p)
		}
		return nil
	}, nil
}
