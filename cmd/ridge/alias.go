package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
)

func aliasCommand() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "alias [NAME [MODEL]]",
		Short: "Give a model a name of your own",
		Long: `Alias gives a model a name of your own, which all commands take: a file or folder, a short name (ridge search), or ORG/REPO[:QUANT] on the hub. Without
arguments it lists the names, which are in ridge/aliases in the user's folder of settings.`,
		Example: "  ridge alias fast qwen3:4b\n  ridge alias\n  ridge alias --rm fast",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := openAliases()
			if err != nil {
				return err
			}
			if a.File == "" && len(args) > 0 {
				return errors.New("there is no folder for settings; set HOME or XDG_CONFIG_HOME")
			}
			switch {
			case remove && len(args) != 1:
				return errors.New("--rm takes away one name; give it as argument")
			case remove:
				return a.Set(args[0], "")
			case len(args) == 2:
				return a.Set(args[0], args[1])
			}
			names := slices.Sorted(maps.Keys(a.Names))
			if len(args) == 1 {
				if names = names[:0]; a.Names[args[0]] == "" {
					return fmt.Errorf("there is no alias %q; ridge alias NAME MODEL makes one", args[0])
				}
				names = append(names, args[0])
			}
			for _, name := range names {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), name, a.Names[name]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&remove, "rm", false, "take the name away")
	return cmd
}
