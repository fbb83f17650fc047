package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/chat"
)

func templateCommand() *cobra.Command {
	var file, now string
	cmd := &cobra.Command{
		Use:   "template --file TEMPLATE",
		Short: "Render a chat template",
		Long: `Template reads a render context, a JSON object such as {"messages": […], "add_generation_prompt": true}, from standard
input and prints the prompt that the template makes of it, with nothing added. The language is Jinja as transformers sets
it up for chat templates.`,
		Example: `  ridge template --file chat_template.jinja < context.json
  ridge template --file chat_template.jinja --now 2026-11-20T12:00:00 < context.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var at time.Time
			if now != "" {
				var err error
				if at, err = time.ParseInLocation("2006-01-02T15:04:05", now, time.Local); err != nil {
					return fmt.Errorf("--now is %q and should look like 2026-11-20T12:00:00", now)
				}
			}
			source, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			context, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return err
			}
			prompt, err := chat.RenderJSON(cmd.Context(), file, string(source), context, at)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), prompt)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "the template's file")
	cmd.Flags().StringVar(&now, "now", "", "the time that strftime_now prints; default: the present")
	cobra.CheckErr(cmd.MarkFlagRequired("file"))
	return cmd
}
