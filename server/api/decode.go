package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	MaxBody  = 16 << 20         // bytes
	BodyTime = 60 * time.Second // for a body to arrive
)

// ReadBody reads a request's JSON body into v.
func (s *Responder) ReadBody(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := RawBody(w, r, nil)
	switch {
	case err != nil:
		return err
	case len(body) == 0:
		return Invalid("", "the body is empty; it should be a JSON object")
	}
	if busy := s.Lane.Do(r.Context(), len(body), func() { err = parse(body, v) }); busy != nil {
		return busy
	}
	return err
}

// RawBody reads a request's body, of MaxBody bytes at most and within BodyTime, into the memory of into.
func RawBody(w http.ResponseWriter, r *http.Request, into []byte) ([]byte, error) {
	c := http.NewResponseController(w)
	// Writers without deadlines, as tests have, take their time.
	_ = c.SetReadDeadline(time.Now().Add(BodyTime))
	body, err := readAll(http.MaxBytesReader(w, r.Body, MaxBody), into, r.ContentLength)
	if err == nil {
		_ = c.SetReadDeadline(time.Time{}) // from now on reading only watches for the client's leaving
		return body, nil
	} // else net/http would wait for the rest of the body without end
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return body, &Error{Status: http.StatusRequestEntityTooLarge, Kind: "invalid_request_error", Message: "the body is larger than 16 MiB, the maximum"}
	}
	e := Invalid("", "the body did not arrive completely: %v", err)
	e.late = true
	return body, e
}

const (
	firstRoom = 64 << 10 // bytes of memory for a body of which nothing has come yet
	perByte   = 8        // and for each that has come
)

// readAll reads to the end into the memory of into, or into as much as the length that the client has said, as far as it has sent so much that this is worth believing: memory that doubles
// as a body comes in leaves as much garbage as the body is long, and a length alone costs a client nothing.
func readAll(r io.Reader, into []byte, length int64) ([]byte, error) {
	b := into[:0]
	for {
		if len(b) == cap(b) {
			room := 2*len(b) + bytes.MinRead
			if length >= int64(len(b)) {
				room = int(min(length+1, firstRoom+perByte*int64(len(b)))) // one more, to see the end
			}
			b = append(make([]byte, 0, max(room, len(b)+1)), b...) // slices.Grow allocates twice under the race detector
		}
		n, err := r.Read(b[len(b):cap(b)])
		if b = b[:len(b)+n]; err == io.EOF {
			return b, nil
		} else if err != nil {
			return b, err
		}
	}
}

// parse decodes JSON with an error that names the field.
func parse(body []byte, v any) error {
	if !utf8.Valid(body) {
		return Invalid("", "the body is not valid UTF-8")
	}
	body, err := unmarshal(body, v)
	var (
		api    *Error
		kind   *json.UnmarshalTypeError
		syntax *json.SyntaxError
	)
	switch {
	case err == nil:
		return refuseFields(body, v)
	case errors.As(err, &api):
		return err
	case errors.As(err, &kind):
		field := fieldName(kind.Field, v)
		return Invalid(field, "%s is a JSON %s and should be %s", cmp.Or(field, "the body"), kind.Value, typeName(kind))
	case errors.As(err, &syntax):
		return Invalid("", "the body is not valid JSON: %v (at byte %d)", err, syntax.Offset)
	}
	return Invalid("", "the body is not valid JSON: %v", err)
}

// fieldName is a field's path as a client has it. encoding/json writes the names of embedded structs before those of their
// fields: "Sampling.stop" is stop.
func fieldName(path string, request any) string {
	embedded := embeddedIn(reflect.TypeOf(request))
	parts := slices.DeleteFunc(strings.Split(path, "."), func(part string) bool { return slices.Contains(embedded, part) })
	return strings.Join(parts, ".")
}

// embeddedIn is the names of the structs that a request is composed of.
func embeddedIn(t reflect.Type) (names []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			names = append(append(names, f.Name), embeddedIn(f.Type)...)
		}
	}
	return names
}

// typeName is what JSON calls the type that a field has.
func typeName(e *json.UnmarshalTypeError) string {
	switch k := e.Type.Kind().String(); k {
	case "int", "int32", "int64", "uint64":
		return "a whole number in range"
	case "float32", "float64":
		if strings.HasPrefix(e.Value, "number ") {
			return "a number in range"
		}
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

// Arriving is a request's body of any size, of which a part must arrive within BodyTime each time that it is read.
func Arriving(w http.ResponseWriter, r *http.Request) io.ReadCloser {
	return &arriving{r.Body, http.NewResponseController(w)}
}

type arriving struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements io.Reader.
func (p *arriving) Read(b []byte) (int, error) {
	// Writers without deadlines, as tests have, take their time.
	_ = p.control.SetReadDeadline(time.Now().Add(BodyTime))
	return p.ReadCloser.Read(b)
}
