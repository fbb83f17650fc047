package threads

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Topology is the part of the machine that the process may use.
type Topology struct {
	nodes [][]int // of each NUMA node, the processors of it that the process may use, ascending; nodes without any are left out; empty when unknown
	quota float64 // CPU time that the control groups grant, in processors; 0: no limit
}

// Detect reads the topology of this machine and process.
func Detect() Topology { return readTopology("/", processors()) }

// readTopology reads it from the files below root ("/", or a test's tree), given the processors of the affinity mask. Control
// groups of version 1 and 2 are asked: Go's own GOMAXPROCS heeds version 2 alone, and never goes below two.
func readTopology(root string, allowed []int) Topology {
	t := Topology{quota: readQuota(root)}
	dirs, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/node/node[0-9]*"))
	slices.SortFunc(dirs, func(a, b string) int {
		if d := len(a) - len(b); d != 0 {
			return d // node2 before node10
		}
		return strings.Compare(a, b)
	})
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "cpulist"))
		if err != nil {
			continue
		}
		ours := slices.DeleteFunc(parseList(string(text)), func(p int) bool { return !slices.Contains(allowed, p) })
		if len(ours) > 0 {
			t.nodes = append(t.nodes, ours)
		}
	}
	if len(t.nodes) == 0 && len(allowed) > 0 {
		t.nodes = [][]int{allowed}
	}
	return t
}

// maxProcessor is larger than the number of any processor.
const maxProcessor = 1 << 16

// parseList reads the kernel's lists of numbers, "0-3,8"; what cannot be read is left out.
func parseList(text string) []int {
	var all []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to >= maxProcessor {
			continue
		}
		for ; from <= to; from++ {
			all = append(all, from)
		}
	}
	return all
}

// Threads is the default number of workers: one for each processor, but no more than the quota allows, since a throttled worker
// delays all others; and no more than most.
func (t Topology) Threads(most int) int {
	n := 0
	for _, node := range t.nodes {
		n += len(node)
	}
	if n == 0 || n > most {
		n = most
	}
	if t.quota > 0 {
		n = min(n, max(1, int(t.quota)))
	}
	return n
}

// Quota is the CPU time that the control groups grant, in processors; 0: there is no limit.
func (t Topology) Quota() float64 { return t.quota }

// node is the node of worker i of n: consecutive workers share one, as their parts of a matrix adjoin, and each node has workers in
// proportion to its processors.
func (t Topology) node(i, n int) int {
	all := 0
	for _, node := range t.nodes {
		all += len(node)
	}
	at, before := i*all/n, 0
	for k, node := range t.nodes {
		if before += len(node); at < before {
			return k
		}
	}
	return 0
}

// String describes the nodes and the quota; "" on a machine with one node and no quota.
func (t Topology) String() string {
	s := ""
	if len(t.nodes) > 1 {
		s = fmt.Sprintf(" bound to %d NUMA nodes", len(t.nodes))
	}
	if t.quota > 0 {
		s += fmt.Sprintf(", quota of %.3g processors", t.quota)
	}
	return s
}
