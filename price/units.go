package price

import "fmt"

// Rate is a number of FLOP/s or bytes/s with three digits and its unit's prefix: "1.52T".
func Rate(x float64) string {
	for _, p := range []struct {
		by   float64
		name string
	}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if x >= p.by {
			return fmt.Sprintf("%.3g%s", x/p.by, p.name)
		}
	}
	return fmt.Sprintf("%.3g", x)
}
