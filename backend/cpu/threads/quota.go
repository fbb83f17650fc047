package threads

import (
	"math"
	"strconv"

	"github.com/ridge-llm/ridge/internal/cgroup"
)

// readQuota is the smallest CPU quota of the process's control groups and all above them, in processors; 0 when there is none.
func readQuota(root string) float64 {
	least := math.Inf(1)
	for _, g := range cgroup.Groups(root, "cpu") {
		words := g.Words("cpu.max")
		if !g.Unified {
			words = append(g.Words("cpu.cfs_quota_us"), g.Words("cpu.cfs_period_us")...)
		}
		if q := ratio(words); q > 0 {
			least = min(least, q)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// ratio is a quota over a period, both in µs; 0 for "max", -1 and anything else that is not a limit.
func ratio(of []string) float64 {
	if len(of) != 2 {
		return 0
	}
	quota, err := strconv.ParseInt(of[0], 10, 64)
	period, err2 := strconv.ParseInt(of[1], 10, 64)
	if err != nil || err2 != nil || quota <= 0 || period <= 0 {
		return 0
	}
	return float64(quota) / float64(period)
}
