package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/hub"
)

// loadedModel is a model as a server's /api/ps has it: Ollama's shape.
type loadedModel struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	Context int    `json:"context_length"`
}

func psCommand() *cobra.Command {
	var url string
	var asJSON bool
	var steps int
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the models of a running server, or its latest engine steps",
		Long: `Ps asks a server, by default the one on this machine, what it has loaded. With --steps it lists the engine's latest steps, each with
what it was predicted to take and what it took. OPENAI_API_KEY is sent as key, if it is set.`,
		Example: `  ridge ps
  ridge ps --steps 20
  ridge ps --url http://127.0.0.1:11434   # Ollama's`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if steps > 0 {
				return showSteps(cmd.Context(), out, url, steps, asJSON)
			}
			models, err := askLoaded(cmd.Context(), url)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(out).Encode(models)
			}
			w := tabwriter.NewWriter(heading(out), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tMEMORY\tCONTEXT")
			for _, m := range models {
				fmt.Fprintf(w, "%s\t%s\t%d\n", m.Name, hub.Bytes(m.Size), m.Context)
			}
			return w.Flush()
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:8000", "the server")
	cmd.Flags().IntVar(&steps, "steps", 0, "list this many of the engine's latest steps instead; 512 are kept")
	addJSON(cmd.Flags(), &asJSON)
	return cmd
}

// askLoaded asks a server for the models it has loaded.
func askLoaded(ctx context.Context, url string) ([]loadedModel, error) {
	var list struct {
		Models []loadedModel `json:"models"`
	}
	err := askServer(ctx, url, "/api/ps", &list)
	return list.Models, err
}

// askServer decodes what a server answers to GET.
func askServer(ctx context.Context, url, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+path, nil)
	if err != nil {
		return err
	}
	if key := os.Getenv("OPENAI_API_KEY"); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("%w; is a server running there? ridge serve starts one, --url names another", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return fmt.Errorf("%s wants an API key; set OPENAI_API_KEY", url)
	default:
		return fmt.Errorf("%s answers status %d to %s", url, resp.StatusCode, path)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(answer); err != nil {
		return fmt.Errorf("%s does not answer %s as Ridge does: %w", url, path, err)
	}
	return nil
}
