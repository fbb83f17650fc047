package server

import (
	"cmp"
	"net/http"
	"regexp"
	"strings"
)

// openAPI is the server's endpoints as OpenAPI 3.1 describes them: paths, methods and the API that each follows. What requests and answers look like is
// told by the documents of those APIs, and docs/api.md tells what differs.
type openAPI struct {
	Version string                          `json:"openapi"`
	Info    openAPIInfo                     `json:"info"`
	Paths   map[string]map[string]operation `json:"paths"` // by path and method, in lower case
}

type openAPIInfo struct {
	Title   string `json:"title"`
	Version string `json:"version"`
}

// operation is a method of a path.
type operation struct {
	Tags       []string                 `json:"tags"` // the API's name
	Parameters []openAPIParameter       `json:"parameters,omitempty"`
	Body       *openAPIContent          `json:"requestBody,omitempty"`
	Responses  map[string]openAPIAnswer `json:"responses"`
}

// openAPIParameter is a part of the path.
type openAPIParameter struct {
	Name     string            `json:"name"`
	In       string            `json:"in"` // "path"
	Required bool              `json:"required"`
	Schema   map[string]string `json:"schema"`
}

// openAPIContent is a body by its media type.
type openAPIContent struct {
	Content map[string]struct{} `json:"content"`
}

type openAPIAnswer struct {
	Description string `json:"description"`
}

// pathPart is a variable part of a pattern: {id} or {name...}.
var pathPart = regexp.MustCompile(`\{([^.}]+)(\.\.\.)?\}`)

// describe adds an endpoint, under the pattern that the mux has for it.
func (d *openAPI) describe(api, pattern string) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		return // what no other pattern matches
	}
	path = strings.TrimSuffix(path, "{$}")
	o := operation{Tags: []string{api}, Responses: map[string]openAPIAnswer{
		"200":     {"the answer"},
		"default": {"an error in the shape of the API"},
	}}
	for _, part := range pathPart.FindAllStringSubmatch(path, -1) {
		o.Parameters = append(o.Parameters, openAPIParameter{part[1], "path", true, map[string]string{"type": "string"}})
	}
	switch {
	case pattern == "POST /v1/files":
		o.Body = &openAPIContent{map[string]struct{}{"multipart/form-data": {}}}
	case strings.HasPrefix(path, "/api/blobs/") && method == http.MethodPost:
		o.Body = &openAPIContent{map[string]struct{}{"application/octet-stream": {}}}
	case method == http.MethodPost && !strings.HasSuffix(path, "/cancel"):
		o.Body = &openAPIContent{map[string]struct{}{"application/json": {}}}
	}
	path = pathPart.ReplaceAllString(path, "{$1}")
	if d.Paths[path] == nil {
		d.Paths[path] = map[string]operation{}
	}
	d.Paths[path][strings.ToLower(method)] = o
}

// newOpenAPI describes a server without endpoints.
func newOpenAPI(version string) openAPI {
	return openAPI{"3.1.0", openAPIInfo{"Ridge", cmp.Or(version, "unknown")}, map[string]map[string]operation{}}
}

// openapi is GET /openapi.json.
func (s *entrance) openapi(http.ResponseWriter, *http.Request) (any, error) { return &s.described, nil }
