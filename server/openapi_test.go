package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// description is what the tests look at of /openapi.json.
type description struct {
	OpenAPI string
	Info    struct{ Title, Version string }
	Paths   map[string]map[string]struct {
		Tags       []string
		Parameters []struct {
			Name, In string
			Required bool
			Schema   struct{ Type string }
		}
		RequestBody *struct{ Content map[string]struct{} }
		Responses   map[string]struct{ Description string }
	}
}

// TestOpenAPI: the description has what OpenAPI 3.1 requires, and every path in it is there, of one model's server and of several models'.
func TestOpenAPI(t *testing.T) {
	one, _ := withStore(t, t.TempDir(), ridge.Options{Context: 64})
	for name, url := range map[string]string{"one": one.url, "several": startMany(t, []string{"a"}, 0, server.ModelsOptions{}).URL} {
		status, text := fetch(t, url+"/openapi.json")
		var d description
		if err := json.Unmarshal([]byte(text), &d); err != nil || status != 200 || d.OpenAPI != "3.1.0" || d.Info.Title == "" || d.Info.Version == "" {
			t.Fatalf("%s: %d, %v: %s", name, status, err, text)
		}
		for _, want := range []string{"post /v1/chat/completions OpenAI", "post /chat/completions OpenAI", "get /v1/models/{name} OpenAI", "delete /v1/responses/{id} OpenAI",
			"get /v1/responses/{id}/input_items OpenAI", "get /v1/files/{id}/content OpenAI", "post /v1/messages Anthropic", "post /api/chat Ollama", "get /api/tags Ollama",
			"post /completion llama.cpp", "post /v1/score vLLM", "get /stats Ridge", "get /openapi.json Ridge"} {
			f := strings.Fields(want)
			if tags := d.Paths[f[1]][f[0]].Tags; !slices.Equal(tags, f[2:]) {
				t.Errorf("%s: %s has the tags %q", name, want, tags)
			}
		}
		for path, methods := range d.Paths {
			var parts []string
			for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
				parts = append(parts, m[1])
			}
			if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "$. ") && !strings.HasSuffix(path, ".json") {
				t.Errorf("%s: the path %q", name, path)
			}
			for method, o := range methods {
				var named []string
				for _, p := range o.Parameters {
					named = append(named, p.Name)
					if p.In != "path" || !p.Required || p.Schema.Type != "string" {
						t.Errorf("%s: %s %s: the parameter %+v", name, method, path, p)
					}
				}
				if !slices.Equal(named, parts) || o.Responses["200"].Description == "" || (o.RequestBody != nil) != (method == "post" && !strings.HasSuffix(path, "/cancel")) {
					t.Errorf("%s: %s %s: %+v", name, method, path, o)
				}
				if missing(t, strings.ToUpper(method), url+regexp.MustCompile(`[{}]`).ReplaceAllString(path, "")) {
					t.Errorf("%s: there is no %s %s", name, method, path)
				}
			}
		}
	}
}

// missing reports whether the server has no such endpoint.
func missing(t *testing.T, method, url string) bool {
	t.Helper()
	q, err := http.NewRequest(method, url, strings.NewReader("[]")) // no endpoint takes an array
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode == http.StatusMethodNotAllowed || strings.Contains(string(text), "there is no "+method+" ")
}
