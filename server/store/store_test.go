package store

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func reopen(t *testing.T, s *Store) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, s.dir)
}

func create(s *Store, name string, expires time.Time, r io.Reader, limit int64) (File, error) {
	u, err := s.Receive("", r, limit)
	if err != nil {
		return File{}, err
	}
	return u.Keep(name, "batch", expires)
}

func content(t *testing.T, s *Store, id string) string {
	t.Helper()
	f, err := s.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestFiles: a file is there after the process that kept it, until it is deleted or its time is over.
func TestFiles(t *testing.T) {
	s := open(t, t.TempDir())
	f, err := create(s, "a.jsonl", time.Time{}, strings.NewReader("hello"), 5)
	if err != nil {
		t.Fatal(err)
	}
	old, err := create(s, "b", time.Now().Add(-time.Second), strings.NewReader("x"), 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.dir); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("a second process gets %v", err)
	}
	s = reopen(t, s)
	if got, err := s.File(f.ID); err != nil || got != f || content(t, s, f.ID) != "hello" || len(s.Files()) != 1 {
		t.Errorf("%+v %v, all %+v", got, err, s.Files())
	}
	if _, err := s.File(old.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("the file whose time is over: %v", err)
	}
	if err := s.Delete(f.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(f.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	var large *TooLargeError
	if _, err := create(s, "c", time.Time{}, strings.NewReader("123456"), 5); !errors.As(err, &large) {
		t.Error(err)
	}
	broken := io.MultiReader(strings.NewReader("12"), &failing{})
	if _, err := create(s, "d", time.Time{}, broken, 5); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	if left, _ := filepath.Glob(s.dir + "/files/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

var errBroken = errors.New("broken")

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errBroken }

// TestCrashes: what a crash leaves half made is gone at the next start, or taken up.
func TestCrashes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b, err := s.NewBatch(Batch{Endpoint: "/v1/completions", Status: InProgress})
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Journal(b.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"one", "two"} {
		if err := j.Append(Output, Line{id, []byte(`{"custom_id": "` + id + `"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"files/file-x": "no description", "files/file-y.partial": "half", "batches/z.json.partial": "{"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := s.journal(b.ID, Output)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Wherever the crash cut the last line, the lines before it are there and it is not.
	for cut := len(whole) - 1; cut >= len(whole)/2; cut-- {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, s)
		if j, err = s.Journal(b.ID); err != nil || j.Lines(Output) != 1 || !j.Done["one"] || j.Done["two"] {
			t.Fatalf("cut at %d: %v done, %v", cut, j.Done, err)
		}
		if cut > len(whole)/2 {
			j.Close()
		}
	}
	for _, orphan := range []string{"files/file-x", "files/file-y.partial", "batches/z.json.partial"} {
		if _, err := os.Stat(filepath.Join(dir, orphan)); err == nil {
			t.Errorf("%s is still there", orphan)
		}
	}
	if err := j.Append(Error, Line{"three", []byte(`{"custom_id": "three"}`)}); err != nil {
		t.Fatal(err)
	}

	// A crash between the journals' becoming files and the batch's last state: it finishes again, with the same result.
	output, failed, err := j.Finish()
	if err != nil {
		t.Fatal(err)
	}
	first := content(t, s, output)
	s = reopen(t, s)
	if j, err = s.Journal(b.ID); err != nil || !j.Done["one"] || !j.Done["three"] || j.Lines(Error) != 1 {
		t.Fatalf("%v done, %v", j.Done, err)
	}
	o2, f2, err := j.Finish()
	if err != nil || o2 != output || f2 != failed || content(t, s, output) != first || first != `{"custom_id": "one"}`+"\n" {
		t.Errorf("finished again: %s %s %v, %q", o2, f2, err, first)
	}
	if got, err := s.Batch(b.ID); err != nil || got.Status != InProgress {
		t.Errorf("%+v %v", got, err)
	}
	if left, _ := filepath.Glob(dir + "/batches/*"); !slices.Equal(left, []string{dir + "/batches/" + b.ID + ".json"}) {
		t.Errorf("left behind: %v", left)
	}
}
