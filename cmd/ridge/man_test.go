package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestManualPages: there is a page for every command, with all flags that its help shows, and groff, where it is installed, has nothing to say.
func TestManualPages(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man1")
	r := root()
	r.SetArgs([]string{"man", folder})
	if err := r.Execute(); err != nil {
		t.Fatal(err)
	}
	request := regexp.MustCompile(`^\.(TH|SH|PP|TP|B|BR|nf|fi)\b`)
	pages := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		text, err := os.ReadFile(filepath.Join(folder, pageName(c)+".1"))
		if err != nil {
			t.Fatal(err)
		}
		pages++
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(string(text), `\fB\-\-`+strings.ReplaceAll(f.Name, "-", `\-`)+`\fR`) {
				t.Errorf("%s has no --%s", pageName(c), f.Name)
			}
		})
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, ".") && !request.MatchString(line) || strings.HasPrefix(line, "'") {
				t.Errorf("%s has a line that roff would take for a request: %s", pageName(c), line)
			}
		}
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() && below.Name() != "help" {
				check(below)
			}
		}
	}
	check(r)
	if pages < 30 {
		t.Errorf("there are %d pages", pages)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.1"))
	if err != nil || len(files) != pages {
		t.Fatalf("%d files for %d pages: %v", len(files), pages, err)
	}
	if out, err := exec.Command(groff, append([]string{"-man", "-Tutf8", "-Kutf8", "-ww", "-z"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}
