package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the manual pages into a folder",
		Long: `Man writes a manual page of section 1 for every command (ridge.1, ridge-run.1, …) into a folder, which is made where there is none. They say what
--help says. Packages of distributions have them; make packages writes them.`,
		Example: "  ridge man ~/.local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writePages(cmd.Root(), args[0])
		},
	}
}

// writePages writes the page of a command and those of the commands below it.
func writePages(cmd *cobra.Command, folder string) error {
	if err := os.WriteFile(filepath.Join(folder, pageName(cmd)+".1"), manualPage(cmd), 0o644); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		if err := writePages(c, folder); err != nil {
			return err
		}
	}
	return nil
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manualPage is a command's page in the man macros of roff (groff_man(7)). It has no date, so that the same program writes the same page.
func manualPage(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"ridge %s\" \"Ridge\"\n", roff(strings.ToUpper(pageName(cmd))), roff(thisBuild().Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	use := strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())
	if !cmd.Runnable() {
		use = " COMMAND"
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", roff(cmd.CommandPath()), roffLine(strings.TrimSpace(use)))
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	b.WriteString(".SH DESCRIPTION\n")
	writeText(&b, text)
	writeFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	writeFlags(&b, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		writeLines(&b, cmd.Example)
	}
	writeRelated(&b, cmd)
	return b.Bytes()
}

// writeText writes paragraphs, which empty lines part. One with an indented line keeps its lines.
func writeText(b *bytes.Buffer, text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.Contains("\n"+paragraph, "\n ") {
			writeLines(b, paragraph)
			continue
		}
		for line := range strings.Lines(paragraph) {
			b.WriteString(roffLine(strings.TrimSpace(line)) + "\n")
		}
	}
}

// writeLines writes lines that stay as they are.
func writeLines(b *bytes.Buffer, text string) {
	b.WriteString(".nf\n")
	for line := range strings.Lines(text) {
		b.WriteString(roffLine(strings.TrimRight(line, " \n")) + "\n")
	}
	b.WriteString(".fi\n")
}

func writeFlags(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB\\-%s\\fR, ", f.Shorthand)
		}
		fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", roff(f.Name))
		if value != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
		}
		b.WriteString("\n" + roffLine(usage))
		switch f.DefValue {
		case "", "0", "false", "[]", "0s", "0 B": // what is not given is not there
		default:
			b.WriteString(roff(" (default " + f.DefValue + ")"))
		}
		b.WriteString("\n")
	})
}

// writeRelated names the pages of the commands above and below.
func writeRelated(b *bytes.Buffer, cmd *cobra.Command) {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, pageName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			pages = append(pages, pageName(c))
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, page := range pages {
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", roff(page), comma)
	}
}

// roff is a text as roff writes it: a dash is the character that shells know, and a backslash is one.
func roff(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`).Replace(text)
}

// roffLine is roff for the beginning of a line, where a dot would begin a macro.
func roffLine(text string) string {
	text = roff(text)
	if strings.HasPrefix(text, ".") {
		return `\&` + text
	}
	return text
}
