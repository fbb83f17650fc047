// Package size writes and reads sizes of memory as people do: 1.50 GiB.
package size

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Text is n bytes in the largest binary unit that they fill one of: "512 B", "1.5 KiB", "27.0 MiB", "1.50 GiB", "2.00 TiB".
func Text(n int64) string {
	for _, unit := range []struct {
		shift  int
		format string
	}{{40, "%.2f TiB"}, {30, "%.2f GiB"}, {20, "%.1f MiB"}, {10, "%.1f KiB"}} {
		if n >= 1<<unit.shift || -n >= 1<<unit.shift {
			return fmt.Sprintf(unit.format, float64(n)/float64(int64(1)<<unit.shift))
		}
	}
	return fmt.Sprintf("%d B", n)
}

// units are what a size may be given in.
var units = map[string]float64{
	"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// Parse reads a number of bytes, one at least, with a unit or without: 4GiB, 512MiB, 1.5GB.
func Parse(text string) (int64, error) {
	at := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if at < 0 {
		at = len(text)
	}
	n, err := strconv.ParseFloat(text[:at], 64)
	unit, known := units[text[at:]]
	if bytes := n * unit; err == nil && known && bytes >= 1 && bytes < math.MaxInt64 {
		return int64(bytes), nil
	}
	return 0, fmt.Errorf("%q is not a size such as 4GiB, 512MiB or 1.5GB", text)
}
