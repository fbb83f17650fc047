package prefillsm90

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// Maps is the tensor maps (TMA) of a paged KV cache: keys and values in boxes of a page or less, and in boxes of as many pages as a
// tile of keys has, for consecutive pages.
type Maps struct{ K, V, KRun, VRun driver.TensorMap }

// Maps describes a problem's cache to kernels whose tiles have so many keys, and gives the tokens of a box of K and V.
func (p Problem) Maps(l *kernels.Loader, keys int) (m Maps, box int, err error) {
	box = min(p.PageSize, keys&-keys) // pages are powers of two
	kLen, vLen := p.KVHeads*p.KSize, p.KVHeads*p.VSize
	page, values := 2*p.PageSize*(kLen+vLen), p.Cache+driver.Ptr(2*p.PageSize*kLen)
	for _, one := range []struct {
		to           *driver.TensorMap
		at           driver.Ptr
		length, many int
	}{
		{&m.K, p.Cache, kLen, 1}, {&m.V, values, vLen, 1}, {&m.KRun, p.Cache, kLen, keys / box}, {&m.VRun, values, vLen, keys / box},
	} {
		if *one.to, err = l.Context().PlanesMap(one.at, p.Pages, page, p.PageSize, one.length, 2*one.length, one.many, box, 64); err != nil {
			return m, box, err
		}
	}
	return m, box, nil
}
