package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/hub"
)

func pullCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pull NAME|ORG/REPO[@REVISION][:QUANT]",
		Short: "Download a model from the Hugging Face hub",
		Long: `Pull downloads a model to where Hugging Face's own tools keep theirs, and prints its path. NAME is a short name, which ridge search lists; without a size the
family's usual one is taken, or a smaller one if this machine has not the memory for that. Of a repository a GGUF file is taken if there is
one: the one that QUANT names (Q4_K_M, or the file's name), or else Q4_K_M, Q8_0 or the next best. Otherwise the
safetensors files are, with tokenizer and configuration. Files that are there already are not downloaded again; an interrupted
pull resumes where it stopped. Checksums are compared.

HF_TOKEN is the access token for private and gated models, HF_HOME the directory of models (default ~/.cache/huggingface),
HF_ENDPOINT the URL of another hub; HF_HUB_OFFLINE=1 uses downloaded models only.`,
		Example: `  ridge pull llama3.2:1b
  ridge pull bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M
  ridge pull Qwen/Qwen3-0.6B
  ridge run -m Qwen/Qwen3-0.6B-GGUF "Why is the sky blue?"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := hubRef(args[0], "")
			if err != nil {
				return err
			}
			h, err := newHub()
			if err != nil {
				return err
			}
			if _, err := h.Find(*n.ref); errors.Is(err, hub.ErrNotHere) {
				if err := n.hasRoom(""); err != nil {
					return err
				}
			}
			if n.short.Family != "" {
				fmt.Fprintf(os.Stderr, "ridge: %s\n", n.what())
			}
			path, err := pullModel(cmd.Context(), h, *n.ref)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
}

// pullModel downloads a model and shows on standard error how far it has come.
func pullModel(ctx context.Context, h *hub.Hub, r hub.Ref) (string, error) {
	bar := newDownloadBar(os.Stderr)
	path, err := h.Pull(ctx, r, bar.show)
	bar.end()
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return "", fmt.Errorf("the download of %s was stopped; what has come is kept, and ridge pull %s goes on from there", r, r)
	}
	return path, err
}
