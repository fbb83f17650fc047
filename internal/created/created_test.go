package created

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// TestStore: models and their files are what was put, replaced whole, and gone once removed.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir)
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Fatalf("%v, %v", all, err)
	}
	model, adapter := "a model", "an adapter"
	for _, text := range []string{model, adapter} {
		if has, err := s.HasBlob(digestOf(text)); has || err != nil {
			t.Fatalf("%v, %v before it was put", has, err)
		}
		if err := s.PutBlob(digestOf(text), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if has, err := s.HasBlob(digestOf(text)); !has || err != nil {
			t.Fatalf("%v, %v once it was put", has, err)
		}
	}
	own := Model{Name: "own:v1", Files: map[string]string{"x.gguf": digestOf(model)}, Adapters: map[string]string{"a.safetensors": digestOf(adapter), "adapter_config.json": digestOf(model)}}
	of := Model{Name: "mario", From: "own:v1", System: "You are Mario.", Template: "{{ messages }}", Parameters: map[string]json.RawMessage{"stop": json.RawMessage(`["a"]`)},
		Messages: []Message{{"user", "Hi"}, {"assistant", "It's me."}}, License: []string{"MIT"}}
	for _, m := range []Model{own, of} {
		if err := s.Put(m); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Open(dir).List()
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	if data, err := os.ReadFile(all[1].Path); err != nil || string(data) != model {
		t.Errorf("the file of %s is %q, %v", all[1].Name, data, err)
	}
	if data, err := os.ReadFile(filepath.Join(all[1].Adapter, "a.safetensors")); err != nil || string(data) != adapter {
		t.Errorf("the adapter of %s is %q, %v", all[1].Name, data, err)
	}
	got := all[0]
	got.Modified = time.Time{}
	for i, raw := range got.Parameters {
		got.Parameters[i] = json.RawMessage(strings.Join(strings.Fields(string(raw)), ""))
	}
	if !reflect.DeepEqual(got, of) {
		t.Errorf("%+v, want %+v", got, of)
	}
	of.System = "You are Luigi."
	if err := s.Put(of); err != nil {
		t.Fatal(err)
	}
	if all, err = s.List(); err != nil || len(all) != 2 || all[0].System != of.System {
		t.Errorf("replaced: %+v, %v", all, err)
	}
	if err := s.Remove("own:v1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("own:v1"); !errors.Is(err, ErrNotHere) {
		t.Errorf("removed twice: %v", err)
	}
	if all, err = s.List(); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestDamaged: a model that cannot be read does not take the others with it, and its files stay.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir)
	for _, name := range []string{"a", "b"} {
		if err := s.Put(Model{Name: name, From: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "models", "a", description), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	if !errors.Is(err, ErrDamaged) || len(all) != 1 || all[0].Name != "b" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.Prune(); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if err := s.Put(Model{Name: "a", From: "y"}); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestPrune: files that no model has go after a day, those of models stay.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir)
	for _, text := range []string{"used", "unused", "lately"} {
		if err := s.PutBlob(digestOf(text), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if text != "lately" {
			path, _ := s.blob(digestOf(text))
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(-2*unused)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Put(Model{Name: "m", Files: map[string]string{"x.gguf": digestOf("used")}}); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, "blobs", "coming-1") // of MakeBlob, in a program that was killed
	if err := errors.Join(os.Mkdir(half, 0o700), os.WriteFile(filepath.Join(half, "model.gguf"), []byte("GGUF"), 0o600), os.Chtimes(half, time.Time{}, time.Now().Add(-2*unused))); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a model that was half made is still there: %v", err)
	}
	for text, want := range map[string]bool{"used": true, "unused": false, "lately": true} {
		if has, err := s.HasBlob(digestOf(text)); has != want || err != nil {
			t.Errorf("%s: %v, %v", text, has, err)
		}
	}
}

// TestRefused: what is no digest, has another, or would lie elsewhere is refused, and nothing is left of it.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir)
	if err := s.PutBlob(digestOf("a"), strings.NewReader("b")); !errors.Is(err, ErrDigest) {
		t.Error(err)
	}
	for _, digest := range []string{"", "sha256:12", "sha256:../../../../../../../../../../../../../../../../../../../../../etc", digestOf("a") + "0"} {
		if err := s.PutBlob(digest, strings.NewReader("a")); err == nil {
			t.Errorf("the digest %q was taken", digest)
		}
		if has, err := s.HasBlob(digest); has || err == nil {
			t.Errorf("the digest %q: %v, %v", digest, has, err)
		}
	}
	if err := s.PutBlob(digestOf("a"), strings.NewReader("a")); err != nil {
		t.Fatal(err)
	}
	for _, m := range []Model{
		{Name: "../x"}, {Name: ""}, {Name: "a/b"}, {Name: "a:b:c"}, {Name: "m+new"},
		{Name: "m", Files: map[string]string{"../x.gguf": digestOf("a")}},
		{Name: "m", Files: map[string]string{"a/x.gguf": digestOf("a")}},
		{Name: "m", Adapters: map[string]string{"x.gguf": digestOf("c")}},
	} {
		if err := s.Put(m); err == nil {
			t.Errorf("%+v was taken", m)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "models"))
	if err != nil || len(entries) > 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
	blobs, err := os.ReadDir(filepath.Join(dir, "blobs"))
	if err != nil || len(blobs) != 1 {
		t.Errorf("%d blobs are left, %v", len(blobs), err)
	}
}
