package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/internal/device"
)

// deviceRow is what devices prints of one device: what it is, or why it cannot be used.
type deviceRow struct {
	Backend string `json:"backend"`
	Detail  string `json:"detail,omitempty"`
	Memory  int64  `json:"memory_bytes,omitempty"`
	Problem string `json:"problem,omitempty"`
}

func devicesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "devices",
		Short:   "List what models can run on here, and why something cannot be used",
		Example: "  ridge devices",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var rows []deviceRow
			for _, name := range append(append([]string{"cpu"}, gpuNames()...), "ref") {
				rows = append(rows, describeDevice(name))
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(rows)
			}
			for _, r := range rows {
				line := r.Detail
				if r.Problem != "" {
					line = "cannot be used: " + r.Problem
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-6s %s\n", r.Backend, line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addJSON(cmd.Flags(), &asJSON)
	return cmd
}

// gpuNames are the backends of the GPUs that the driver finds; cuda alone, which then says why, if it finds none.
func gpuNames() []string {
	all, err := cuda.Devices()
	if err != nil {
		return []string{"cuda"}
	}
	names := make([]string, len(all))
	for i := range names {
		names[i] = fmt.Sprintf("cuda:%d", i)
	}
	return names
}

// describeDevice opens a device to see whether it works.
func describeDevice(name string) deviceRow {
	d, err := device.Open(device.Options{Backend: name})
	if err != nil {
		return deviceRow{Backend: name, Problem: strings.TrimPrefix(err.Error(), "cuda: ")}
	}
	defer d.Close()
	i := d.Info()
	return deviceRow{Backend: name, Detail: i.Detail, Memory: i.Memory}
}
