package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDamagedDescriptions: a description that cannot be read is set aside with what belongs to it and named; all others are there.
func TestDamagedDescriptions(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	good, err := create(s, "good", time.Time{}, strings.NewReader("hello"), 5)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := create(s, "bad", time.Time{}, strings.NewReader("world"), 5)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.NewBatch(Batch{Status: InProgress})
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Journal(b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(Output, Line{"one", []byte(`{"custom_id": "one"}`)}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	for _, text := range []string{"", "{", "null", `{"id": "another"}`, `{"id": 7}`, "\x00\x00"} {
		for _, path := range []string{s.content(bad.ID) + ".json", filepath.Join(dir, "batches", b.ID+".json")} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s = reopen(t, s)
		damaged := s.Damaged()
		if len(damaged) != 2 || len(s.Files()) != 1 || content(t, s, good.ID) != "hello" || len(s.Batches()) != 0 {
			t.Fatalf("%q: set aside %v, files %v, batches %v", text, damaged, s.Files(), s.Batches())
		}
		for _, d := range damaged {
			if now, err := os.ReadFile(d.Path); err != nil || string(now) != text || d.Err == nil {
				t.Errorf("%q: %+v holds %q, %v", text, d, now, err)
			}
		}
		for _, name := range []string{"files/" + bad.ID, "batches/" + b.ID + ".output"} {
			if left, err := os.ReadFile(filepath.Join(dir, "damaged", name)); err != nil || len(left) == 0 {
				t.Errorf("%q: the content %s was not kept: %v", text, name, err)
			}
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%q: %s is still there", text, name)
			}
		}
		if s = reopen(t, s); len(s.Damaged()) != 0 {
			t.Errorf("%q: found again: %v", text, s.Damaged())
		}
		// What was set aside can be put back.
		for _, name := range []string{"files/" + bad.ID, "batches/" + b.ID + ".output"} {
			if err := os.Rename(filepath.Join(dir, "damaged", name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "files", "file-x.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if s = reopen(t, s); len(s.Damaged()) != 1 {
		t.Errorf("a folder in place of a description: %v", s.Damaged())
	}
}

// TestDamagedResponse: a response whose content was cut off, or that describes another, is set aside.
func TestDamagedResponse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	id := NewResponseID()
	if err := s.PutResponse("a", id, []byte(`{"response": {}}`)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "responses", id+".json")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", string(whole[:len(whole)-1]), string(whole) + "x", strings.Replace(string(whole), id, "resp_another", 1), string(whole)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, s)
		content, err := s.ResponseContent(id)
		if ok := err == nil && string(content) == `{"response": {}}`; ok != (text == string(whole)) || len(s.Damaged()) == 0 != ok {
			t.Errorf("%q: %q, %v, set aside %v", text, content, err, s.Damaged())
		}
	}
}
