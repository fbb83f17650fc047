package hub

import (
	"fmt"
	"regexp"
	"strings"
)

// Ref names a model on the hub: ORG/REPO, ORG/REPO:QUANT, ORG/REPO@REVISION:QUANT.
type Ref struct {
	Repo     string // ORG/REPO
	Revision string // branch, tag or commit; "main" if none was named
	Quant    string // which of the repository's GGUF files: a part of its name such as Q4_K_M; "": the best known
}

var (
	repoPattern     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,95}/[A-Za-z0-9_][A-Za-z0-9._-]{0,95}$`)
	revisionPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]{0,127}$`)
	quantPattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

// ParseRef parses a name. A name that ends like a file is not one, so that a path mistyped is not looked for on the hub.
func ParseRef(name string) (Ref, error) {
	r := Ref{Revision: "main"}
	rest, quant, hasQuant := strings.Cut(name, ":")
	repo, revision, hasRevision := strings.Cut(rest, "@")
	r.Repo = repo
	if hasQuant {
		r.Quant = quant
	}
	if hasRevision {
		r.Revision = revision
	}
	switch {
	case !repoPattern.MatchString(repo), strings.Contains(name, ".."), strings.Contains(repo, "--"), hasFileEnding(repo):
		return Ref{}, fmt.Errorf("hub: %q is not a model on the hub; those are called ORG/REPO, ORG/REPO:QUANT or ORG/REPO@REVISION:QUANT", name)
	case hasRevision && !revisionPattern.MatchString(revision):
		return Ref{}, fmt.Errorf("hub: %q has the revision %q; a branch, tag or commit is possible", name, revision)
	case hasQuant && !quantPattern.MatchString(quant):
		return Ref{}, fmt.Errorf("hub: %q has the quantisation %q; a part of a GGUF file's name such as Q4_K_M is possible", name, quant)
	}
	return r, nil
}

func hasFileEnding(name string) bool {
	for _, end := range []string{".gguf", ".safetensors", ".json", ".bin"} {
		if strings.HasSuffix(strings.ToLower(name), end) {
			return true
		}
	}
	return false
}

// String is the name as ParseRef reads it.
func (r Ref) String() string {
	s := r.Repo
	if r.Revision != "main" {
		s += "@" + r.Revision
	}
	if r.Quant != "" {
		s += ":" + r.Quant
	}
	return s
}
