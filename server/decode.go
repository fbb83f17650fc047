package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxBody  = 16 << 20         // bytes
	bodyTime = 60 * time.Second // for a body to arrive
)

// decode reads a request's JSON body into v.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	c := http.NewResponseController(w)
	// Writers without deadlines, as tests have, take their time.
	_ = c.SetReadDeadline(time.Now().Add(bodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		_ = c.SetReadDeadline(time.Time{}) // from now on reading only watches for the client's leaving
	} // else net/http would wait for the rest of the body without end
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &apiError{Status: http.StatusRequestEntityTooLarge, Kind: "invalid_request_error", Message: "the body is larger than 16 MiB, the most that is read"}
	case err != nil:
		return bad("", "the body did not arrive whole: %v", err)
	case len(body) == 0:
		return bad("", "the body is empty; it should be a JSON object")
	case !utf8.Valid(body):
		return bad("", "the body is not valid UTF-8")
	}
	return parse(body, v)
}

// parse decodes JSON with an error that names the field.
func parse(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	var (
		api    *apiError
		kind   *json.UnmarshalTypeError
		syntax *json.SyntaxError
	)
	switch {
	case err == nil:
		return refuseFields(body, v)
	case errors.As(err, &api):
		return err
	case errors.As(err, &kind):
		field := fieldName(kind.Field)
		return bad(field, "%s is a JSON %s and should be %s", cmp.Or(field, "the body"), kind.Value, typeName(kind))
	case errors.As(err, &syntax):
		return bad("", "the body is not valid JSON: %v (at byte %d)", err, syntax.Offset)
	}
	return bad("", "the body is not valid JSON: %v", err)
}

// embedded are the structs that requests are composed of, whose names encoding/json writes before their fields'.
var embedded = []string{"sampling", "guides", "offer", "templateFields", "chatRequest", "comparison"}

// fieldName is a field's path as a client has it: "sampling.stop" is stop.
func fieldName(path string) string {
	parts := slices.DeleteFunc(strings.Split(path, "."), func(part string) bool { return slices.Contains(embedded, part) })
	return strings.Join(parts, ".")
}

// typeName is what JSON calls the type that a field has.
func typeName(e *json.UnmarshalTypeError) string {
	switch k := e.Type.Kind().String(); k {
	case "int", "int32", "int64", "uint64":
		return "a whole number in range"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	case "slice":
		return "an array"
	case "string":
		return "a string"
	}
	return "an object"
}
