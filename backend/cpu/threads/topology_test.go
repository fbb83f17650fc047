package threads

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// fakeRoot is a tree of system files.
func fakeRoot(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	v1Mount = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
	v2Mount = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
	v1Dir   = "sys/fs/cgroup/cpu,cpuacct/"
)

// TestQuota: the smallest quota of the group and its parents counts, in either version, also in a container, which sees its
// own group as the root.
func TestQuota(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"none": {nil, 0},
		"v1": {map[string]string{"proc/self/mountinfo": v1Mount, "proc/self/cgroup": "4:cpu,cpuacct:/a/b\n",
			v1Dir + "a/b/cpu.cfs_quota_us": "150000\n", v1Dir + "a/b/cpu.cfs_period_us": "100000\n"}, 1.5},
		"v1, unbounded inside a bound": {map[string]string{"proc/self/mountinfo": v1Mount, "proc/self/cgroup": "4:cpu,cpuacct:/a/b\n",
			v1Dir + "a/b/cpu.cfs_quota_us": "-1\n", v1Dir + "a/b/cpu.cfs_period_us": "100000\n",
			v1Dir + "a/cpu.cfs_quota_us": "50000\n", v1Dir + "a/cpu.cfs_period_us": "100000\n"}, 0.5},
		"v1 in a container": {map[string]string{
			"proc/self/mountinfo": "1 2 0:3 /docker/id /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n", "proc/self/cgroup": "4:cpu:/docker/id\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 3},
		"v2": {map[string]string{"proc/self/mountinfo": v2Mount, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max": "400000 100000\n", "sys/fs/cgroup/a/cpu.max": "250000 100000\n"}, 2.5},
		"v2, max": {map[string]string{"proc/self/mountinfo": v2Mount, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, 0},
		"both": {map[string]string{"proc/self/mountinfo": v1Mount + v2Mount, "proc/self/cgroup": "4:cpu,cpuacct:/\n0::/\n",
			v1Dir + "cpu.cfs_quota_us": "200000", v1Dir + "cpu.cfs_period_us": "100000", "sys/fs/cgroup/cpu.max": "100000 100000"}, 1},
		"another controller": {map[string]string{"proc/self/mountinfo": "1 2 0:3 / /m rw - cgroup cgroup rw,memory\n", "proc/self/cgroup": "4:memory:/\n",
			"m/cpu.cfs_quota_us": "100000", "m/cpu.cfs_period_us": "100000"}, 0},
		"nonsense": {map[string]string{"proc/self/mountinfo": "x\n - \n" + v2Mount, "proc/self/cgroup": "\n0::\n::\n", "sys/fs/cgroup/cpu.max": "5\n"}, 0},
		"zero":     {map[string]string{"proc/self/mountinfo": v2Mount, "proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "100000 0\n"}, 0},
	} {
		if got := readQuota(fakeRoot(t, c.files)); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: a quota of %g processors was found; it is %g", name, got, c.want)
		}
	}
}

// TestTopology: nodes have the processors that the affinity mask leaves, threads heed the quota, and workers of a node are
// consecutive, in proportion to its processors.
func TestTopology(t *testing.T) {
	const node = "sys/devices/system/node/node"
	root := fakeRoot(t, map[string]string{
		node + "0/cpulist": "0-3\n", node + "1/cpulist": "4-7,16\n", node + "2/cpulist": "8-9\n", node + "10/cpulist": "10\n", node + "3/meminfo": "",
		"proc/self/mountinfo": v2Mount, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "550000 100000\n",
	})
	got := readTopology(root, []int{0, 1, 4, 5, 6, 7, 10, 16})
	want := [][]int{{0, 1}, {4, 5, 6, 7, 16}, {10}}
	if !slices.EqualFunc(got.nodes, want, slices.Equal) {
		t.Errorf("the nodes are %v; they are %v", got.nodes, want)
	}
	if n := got.Threads(64); n != 5 {
		t.Errorf("%d threads under a quota of 5.5 processors", n)
	}
	if s := got.String(); s != " bound to 3 NUMA nodes, quota of 5.5 processors" {
		t.Errorf("the line says %q", s)
	}
	var places []int
	for i := range 8 {
		places = append(places, got.node(i, 8))
	}
	if want := []int{0, 0, 1, 1, 1, 1, 1, 2}; !slices.Equal(places, want) {
		t.Errorf("8 workers are on nodes %v, not %v", places, want)
	}
	for _, c := range []struct {
		t          Topology
		most, want int
	}{
		{Topology{}, 6, 6}, {Topology{nodes: [][]int{{0, 1}}}, 6, 2}, {Topology{nodes: [][]int{{0, 1, 2, 3}}}, 2, 2},
		{Topology{nodes: [][]int{{0, 1}}, quota: 0.5}, 2, 1}, {Topology{nodes: [][]int{{0, 1}}, quota: 9}, 2, 2},
	} {
		if n := c.t.Threads(c.most); n != c.want {
			t.Errorf("%+v, at most %d: %d threads, not %d", c.t, c.most, n, c.want)
		}
	}
	if got := readTopology(t.TempDir(), []int{3, 5}); len(got.nodes) != 1 || !slices.Equal(got.nodes[0], []int{3, 5}) || got.String() != "" {
		t.Errorf("without files the machine is %+v", got)
	}
}

// TestParseList reads the kernel's lists, and leaves out what is not one.
func TestParseList(t *testing.T) {
	for text, want := range map[string][]int{
		"": nil, "\n": nil, "0": {0}, "0-2,7\n": {0, 1, 2, 7}, "a-b": nil, "3-": nil, "5-4": nil, "0-99999999999": nil, "-3": nil, "1,x,2": {1, 2},
	} {
		if got := parseList(text); !slices.Equal(got, want) {
			t.Errorf("%q is read as %v, not %v", text, got, want)
		}
	}
}

// TestBoundPool: workers that are bound do their jobs, on the processors of their nodes.
func TestBoundPool(t *testing.T) {
	all := processors()
	if len(all) == 0 {
		t.Skip("the processors of this system are not known")
	}
	nodes := [][]int{all[:1], all[len(all)-1:]}
	p := New(4, Topology{nodes: nodes}, nil)
	defer p.Close()
	on := make([][]int, 4)
	done := make(chan struct{})
	go func() { // worker 0 is this goroutine, which stays on a thread of its own and ends with it
		defer close(done)
		for range 2 {
			p.Run(func(id int) { on[id] = processors() })
		}
	}()
	<-done
	for i, got := range on {
		if want := nodes[i/2]; !slices.Equal(got, want) {
			t.Errorf("worker %d runs on processors %v, not %v", i, got, want)
		}
	}
}
