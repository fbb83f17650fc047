package ptx

import (
	"bytes"
	"fmt"
)

// Only is a module's PTX without the kernels other than one. The driver assembles whole texts, some of them for seconds; a model
// launches few of a module's kernels. What the kernels share, variables at the beginning, stays.
func Only(text []byte, kernel string) ([]byte, error) {
	var kept []byte
	found, skipping := false, false
	for line := range bytes.Lines(text) {
		if _, entry, ok := bytes.Cut(line, []byte(".entry ")); ok {
			name, _, _ := bytes.Cut(entry, []byte("("))
			skipping = string(name) != kernel
			found = found || !skipping
		}
		if !skipping {
			kept = append(kept, line...)
		}
		if line[0] == '}' { // the end of a kernel; braces within one are indented
			skipping = false
		}
	}
	if !found {
		return nil, fmt.Errorf("cuda: the PTX has no kernel %s; %w", kernel, ErrMissing)
	}
	return kept, nil
}
