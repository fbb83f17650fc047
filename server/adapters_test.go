package server_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

func TestAdapters(t *testing.T) {
	h, m := start(t, ridge.Options{MaxLoRAs: 2}, server.Options{})
	dir := t.TempDir()
	text := func(fields string) string {
		t.Helper()
		status, body := post(t, h, "/v1/completions", `{"prompt": "Once upon a time", "temperature": 0, "max_tokens": 8`+fields+`}`)
		if status != 200 {
			t.Fatalf("%s: %d %s", fields, status, body)
		}
		return parse(t, body).Choices[0].Text
	}
	base := text("")
	for i, name := range []string{"a", "b", "c"} {
		path := builtinPEFT.write(t, filepath.Join(dir, name), uint64(i))
		if status, body := post(t, h, "/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": %q, "lora_path": %q}`, name, path)); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	a, b, c := text(`, "model": "a"`), text(`, "model": "b"`), text(`, "model": "c"`)
	if a == base || b == base || a == b || a != text(`, "model": "a"`) {
		t.Errorf("base %q, a %q, b %q, c %q", base, a, b, c)
	}
	if got := text(`, "lora": [{"id": 0, "scale": 1}]`); got != a {
		t.Errorf("adapter 0 says %q and a %q", got, a)
	}
	if got := text(`, "lora": [{"id": 0, "scale": 0}]`); got != base {
		t.Errorf("an adapter scaled by 0 says %q", got)
	}
	if both := text(`, "model": "a", "lora": [{"name": "b", "scale": 0.5}]`); both == a || both == b || both == base {
		t.Errorf("two adapters say %q", both)
	}
	if got := text(""); got != base {
		t.Errorf("without an adapter the answer was %q and is %q now", base, got)
	}
	embedWithAdapter(t, h, m.Name(), "a")
	status, body := get(t, h.URL+"/v1/models")
	if status != 200 || !strings.Contains(string(body), fmt.Sprintf(`"parent":%q`, m.Name())) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := post(t, h, "/lora-adapters", `[{"id": 1, "scale": 1}]`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := post(t, h, "/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": "0 before all", "lora_path": %q}`, builtinPEFT.write(t, filepath.Join(dir, "third"), 3))); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if _, body := get(t, h.URL+"/lora-adapters"); !regexp.MustCompile(`"id":0,"name":"a".*"id":1,"name":"b".*"scale":1.*"id":2,"name":"c".*"id":3,"name":"0 before all"`).MatchString(body) {
		t.Errorf("numbers are not those that adapters had when they were loaded: %s", body)
	}
	if got := text(""); got != b {
		t.Errorf("with b applied to all the answer is %q; it should be %q", got, b)
	}
	if status, _ := post(t, h, "/v1/unload_lora_adapter", `{"lora_name": "b"}`); status != 200 {
		t.Error("b was not unloaded")
	}
	if got := text(""); got != base {
		t.Errorf("after unloading the answer is %q; it should be %q", got, base)
	}
	if status, body := post(t, h, "/v1/completions", `{"prompt": "Once", "model": "b"}`); status != 404 {
		t.Errorf("an unloaded adapter: %d %s", status, body)
	}
	good, bad := m.Defaults(), m.Defaults()
	good.Adapters, bad.Adapters = []ridge.UseAdapter{{Name: "a", Scale: 1}}, []ridge.UseAdapter{{Name: "b", Scale: 1}}
	if _, err := m.GenerateMany(t.Context(), []int32{1}, []ridge.Params{good, bad}); !errors.Is(err, ridge.ErrNoAdapter) {
		t.Errorf("answers of which one names an unloaded adapter: %v", err)
	}
	for _, a := range m.Adapters() {
		if a.Running+a.Waiting > 0 {
			t.Errorf("no request is left and adapter %s has %d running and %d waiting", a.Name, a.Running, a.Waiting)
		}
	}
	_, body = get(t, h.URL+"/metrics")
	if !strings.Contains(string(body), `vllm:lora_requests_info{engine="0",max_lora="2"`) {
		t.Error("the metrics have no vllm:lora_requests_info")
	}
}

// embedWithAdapter checks that the adapter changes a text's vector.
func embedWithAdapter(t *testing.T, h *httptest.Server, base, adapter string) {
	t.Helper()
	embed := func(path, model string) string {
		t.Helper()
		status, body := post(t, h, path, fmt.Sprintf(`{"input": "Once upon a time", "model": %q}`, model))
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		return regexp.MustCompile(`"embeddings?":\[[^]]*`).FindString(string(body))
	}
	for _, path := range []string{"/v1/embeddings", "/api/embed"} {
		if of, its := embed(path, base), embed(path, adapter); of == its || of == "" {
			t.Errorf("%s gives the same vector with an adapter: %.60s", path, its)
		}
	}
}
