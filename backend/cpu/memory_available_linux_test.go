package cpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAvailableMemory: limits of nested control groups count, of either version, and the page cache is not in use.
func TestAvailableMemory(t *testing.T) {
	const (
		mib = 1 << 20
		v1  = "1 2 0:3 / /m1 rw - cgroup cgroup rw,memory\n"
		v2  = "1 2 0:3 / /m2 rw - cgroup2 cgroup2 rw\n"
	)
	for name, c := range map[string]struct {
		files       map[string]string
		free, total int64 // MiB
	}{
		"no limit": {nil, 900, 1000},
		"v2, the parent's": {map[string]string{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/a/b", "m2/a/b/memory.max": "max",
			"m2/a/memory.max": "314572800", "m2/a/memory.current": "104857600", "m2/a/memory.stat": "anon 5\nfile 62914560\nshmem 10485760\n"}, 250, 300},
		"v2, memory.high": {map[string]string{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/a", "m2/a/memory.max": "max", "m2/a/memory.high": "209715200"}, 200, 200},
		"v2, namespace":   {map[string]string{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/", "m2/memory.max": "104857600", "m2/memory.current": "209715200"}, 0, 100},
		"v1": {map[string]string{"proc/self/mountinfo": v1, "proc/self/cgroup": "3:memory:/a", "m1/memory.limit_in_bytes": "9223372036854771712",
			"m1/a/memory.limit_in_bytes": "524288000", "m1/a/memory.usage_in_bytes": "209715200", "m1/a/memory.stat": "total_cache 104857600\n"}, 400, 500},
		"another process's group": {map[string]string{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/a", "m2/b/memory.max": "1"}, 900, 1000},
	} {
		root := t.TempDir()
		write := func(path, text string) {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("proc/meminfo", "MemTotal: 1024000 kB\nMemAvailable: 921600 kB\n")
		for path, text := range c.files {
			write(path, text)
		}
		free, total, err := availableMemory(root)
		if err != nil || free != c.free*mib || total != c.total*mib {
			t.Errorf("%s: %d of %d MiB free, %v; want %d of %d", name, free/mib, total/mib, err, c.free, c.total)
		}
	}
}

// TestNoMemory: an allocation that the system refuses is an error that says how much and which flags to lower.
func TestNoMemory(t *testing.T) {
	_, err := newMemory(1<<47, 0)
	if err == nil || !strings.Contains(err.Error(), "128.00 TiB") || !strings.Contains(err.Error(), "--kv-memory") {
		t.Error(err)
	}
}
