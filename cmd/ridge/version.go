package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// release is the newest version of CHANGELOG.md. What is built from other commits than the release's own says -dev behind it.
const release = "0.1.0"

// version is what the builder says the version is: -ldflags "-X main.version=v0.1.0".
var version string

// build describes the binary: its version and commit.
type build struct {
	Version string `json:"version"` // semantic, without v: 0.1.0, 0.1.0-dev
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	Target  string `json:"target"`
}

// thisBuild is this binary: by its builder, or else by the tag that the Go tool found, or else by CHANGELOG.md.
func thisBuild() build {
	b := build{Go: runtime.Version(), Target: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	b.Version = versionOf(version, info.Main.Version)
	return b
}

// versionOf is the version that a builder has given, or else that of the module: v0.1.0 of a tag, a pseudo-version of any other commit, or (devel).
func versionOf(given, module string) string {
	if given != "" {
		return strings.TrimPrefix(given, "v")
	}
	if strings.HasPrefix(module, "v") && !strings.HasPrefix(module, "v0.0.0-") && strings.Count(module, "-") == 0 && !strings.Contains(module, "+dirty") {
		return strings.TrimPrefix(module, "v")
	}
	return release + "-dev"
}

// String is the line that ridge version prints.
func (b build) String() string {
	commit := ""
	if b.Commit != "" {
		commit = "commit " + b.Commit + ", "
	}
	return fmt.Sprintf("ridge %s (%s%s, %s)", b.Version, commit, b.Go, b.Target)
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  ridge version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), b)
			return err
		},
	}
	addJSON(cmd.Flags(), &asJSON)
	return cmd
}
