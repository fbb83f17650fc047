package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/outliers"
	"github.com/ridge-llm/ridge/graph"
)

// LLM.int8's layers of the same rows are one product, and one launch that adds what large numbers come to, in place, so that rows and columns without any
// cost no more than being looked through, once for all of the layers; behind a gate and an up matrix it joins their sums.

// outlierParts is the parts of such a node; act is empty where there is no function.
func outlierParts[T any](parts []T, op func(T) graph.Op) (layers, adds, act []T) {
	for _, p := range parts {
		switch op(p).(type) {
		case graph.Linear:
			layers = append(layers, p)
		case graph.AddOutliers:
			adds = append(adds, p)
		default:
			act = append(act, p)
		}
	}
	return layers, adds, act
}

func fitsOutlierLinear(d *Device, n *graph.Node, parts []*graph.Node) bool {
	layers, _, act := outlierParts(parts, opOfNode)
	if len(layers) > outliers.MostParts {
		return false
	}
	if len(act) > 0 {
		if fn := act[0].Op.(graph.ActMul).Fn; fn != graph.Silu && fn != graph.GeluTanh {
			return false
		}
	}
	return len(layers) == 1 || d.fitsLayers(n, layers)
}

// heldOutlierLinear is products that are joined; others lie where their sums are to be.
func heldOutlierLinear(parts []*graph.Node) []*graph.Node {
	layers, _, act := outlierParts(parts, opOfNode)
	if len(act) > 0 {
		return layers
	}
	return nil
}

func bindOutlierLinear(d *Device, _ *graph.Node, _ backend.Args, parts []*part) (*launch, error) {
	layers, adds, acts := outlierParts(parts, opOfPart)
	var act *part
	for i, add := range adds {
		if len(acts) == 0 {
			layers[i].args.Out = add.args.Out
		} else {
			act = acts[0]
		}
		add.args.In[0] = layers[i].args.Out[0]
	}
	product, err := d.bindTensor(layers, nil, nil)
	if err != nil {
		return nil, err
	}
	add, err := d.bindOutliers(adds, act)
	return &launch{put: func(s *step) error {
		if err := product(s); err != nil {
			return err
		}
		return add(s)
	}}, err
}
