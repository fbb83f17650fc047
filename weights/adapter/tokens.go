package adapter

import (
	"fmt"
	"math"
)

// tokenIDs is token ids from an array of whole numbers in any type that files have; nil: there are none.
func tokenIDs(v any) ([]int32, error) {
	var ids []int32
	add := func(x float64) error {
		if x != math.Trunc(x) || x < 0 || x > math.MaxInt32 {
			return fmt.Errorf("%v is no token", x)
		}
		ids = append(ids, int32(x))
		return nil
	}
	switch list := v.(type) {
	case nil:
	case []uint32:
		for _, x := range list {
			if err := add(float64(x)); err != nil {
				return nil, err
			}
		}
	case []int32:
		for _, x := range list {
			if err := add(float64(x)); err != nil {
				return nil, err
			}
		}
	case []any:
		for _, x := range list {
			f, ok := x.(float64)
			if !ok {
				return nil, fmt.Errorf("%v is no token", x)
			}
			if err := add(f); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("a list of tokens is wanted and it is %T", v)
	}
	return ids, nil
}
