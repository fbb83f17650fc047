package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGroups: the process's own group and all above it are found in either version, also where a container mounts its group as the root.
func TestGroups(t *testing.T) {
	const v1, v2 = "1 2 0:3 ROOT /m1 rw - cgroup cgroup rw,memory\n", "1 2 0:3 ROOT /m2 rw - cgroup2 cgroup2 rw\n"
	at := func(line, root string) string { return strings.ReplaceAll(line, "ROOT", root) }
	for name, c := range map[string]struct {
		mounts, groups string
		want           []string
	}{
		"none":                             {"", "", nil},
		"v2, nested":                       {at(v2, "/"), "0::/a/b\n", []string{"/m2/a/b", "/m2/a", "/m2"}},
		"v1, nested":                       {at(v1, "/"), "7:cpu,memory:/a\n", []string{"/m1/a", "/m1"}},
		"v1, another controller":           {at(v1, "/"), "7:cpu:/a\n", nil},
		"container without its namespace":  {at(v2, "/docker/id"), "0::/docker/id/sub\n", []string{"/m2/sub", "/m2"}},
		"container beside another":         {at(v2, "/docker/id"), "0::/docker/id2\n", []string{"/m2"}},
		"above the namespace's root":       {at(v2, "/"), "0::/../..\n", []string{"/m2"}},
		"hybrid: memory is in version one": {at(v1, "/") + at(v2, "/"), "7:memory:/x\n0::/y\n", []string{"/m1/x", "/m1", "/m2/y", "/m2"}},
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "proc/self"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"mountinfo": c.mounts, "cgroup": c.groups} {
			if err := os.WriteFile(filepath.Join(root, "proc/self", file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, g := range Groups(root, "memory") {
			got = append(got, strings.TrimPrefix(filepath.ToSlash(g.Dir), filepath.ToSlash(root)))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
