package api

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestMembers: names and values are what encoding/json reads.
func TestMembers(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, "{\t\"a\" :\r\n-1.5e3 , \"b\":\"x\"}", `{"a\"}":"\\","b\u0041":"\"]}","":{}}`, `{"a":[1,{"b":"]}"},[]],"c":{"d":[{}],"e":null},"f":true}`,
		`{"a":"` + strings.Repeat(`\\`, 1000) + `\"","b":0}`, `[1]`, `3`, `"x"`, `null`, `{"ü":"\ud83d\ude00é"}`,
	} {
		want, got := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		_ = json.Unmarshal([]byte(text), &want) // not an object: none
		for name, value := range Members([]byte(text)) {
			got[name] = value
		}
		if !maps.EqualFunc(want, got, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	var twice []string
	for name, value := range Members([]byte(`{"a":1,"a":2}`)) {
		twice = append(twice, name+string(value))
	}
	if !slices.Equal(twice, []string{"a1", "a2"}) {
		t.Errorf("a name that stands twice: %v", twice)
	}
}

// TestElements: values are what encoding/json reads.
func TestElements(t *testing.T) {
	for _, text := range []string{`[]`, `[ ]`, `[1]`, `[1 , "a,]" ,[2,[3]], {"a":[]},null]`, `{"a":1}`, `7`} {
		var want []json.RawMessage
		_ = json.Unmarshal([]byte(text), &want)
		got := slices.Collect(Elements([]byte(text)))
		if !slices.EqualFunc(want, got, func(a json.RawMessage, b []byte) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// FuzzMembers: any text that is an object or an array is read as encoding/json does, and any other without a panic.
func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"]}"}],"\"":"\\"}`))
	f.Add([]byte(`["a", 1 ,{}]`))
	f.Add([]byte(`{"a" 1 "b":`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := map[string]json.RawMessage{}
		for name, value := range Members(text) {
			got[name] = value
		}
		elements := slices.Collect(Elements(text))
		texts, _, ok := Texts(text, 1<<20)
		if !json.Valid(text) {
			return
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) == nil && !maps.EqualFunc(object, got, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%q, want %q", got, object)
		}
		var array []json.RawMessage
		if json.Unmarshal(text, &array) == nil && !slices.EqualFunc(array, elements, func(a json.RawMessage, b []byte) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%q, want %q", elements, array)
		}
		var list []string
		var one string
		if json.Unmarshal(text, &one) == nil {
			list = []string{one}
		} else if json.Unmarshal(text, &list) != nil {
			list = nil
			if ok {
				t.Errorf("%q is no texts and was taken for %q", text, texts)
			}
			return
		}
		if !ok || !slices.Equal(list, texts) {
			t.Errorf("%q (%v), want %q", texts, ok, list)
		}
	})
}

// TestTextsBounded: of more texts than there may be none is made.
func TestTextsBounded(t *testing.T) {
	text := []byte("[" + strings.Repeat(`"stop",`, 99_999) + `"stop"]`)
	if n := testing.AllocsPerRun(3, func() {
		if texts, more, ok := Texts(text, 64); texts != nil || !more || !ok {
			t.Errorf("%d texts, more: %v, ok: %v", len(texts), more, ok)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// selectiveBody is a request that refuses a field.
type selectiveBody struct{ Text string }

func (*selectiveBody) Refuses() map[string]Refusal { return map[string]Refusal{"best": {Why: "no"}} }

// TestReadingAllocates: a body takes little more memory to be read than it has itself and its text.
func TestReadingAllocates(t *testing.T) {
	s := &Responder{}
	body := `{"text":"` + strings.Repeat("a", 1<<20) + `"}`
	least := uint64(math.MaxUint64) // a pool of encoding/json's may be empty, as the race detector makes them now and then
	for range 8 {
		var v selectiveBody
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := s.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)), &v)
		runtime.ReadMemStats(&after)
		if err != nil || len(v.Text) != 1<<20 {
			t.Fatal(err)
		}
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 3<<20 {
		t.Errorf("%d bytes for a body of %d", least, len(body))
	}
}

// TestBodyOfClaimedLength: a length that is said and not sent takes no memory, and one that is wrong changes nothing.
func TestBodyOfClaimedLength(t *testing.T) {
	for _, sent := range []int{0, 1, firstRoom - 1, firstRoom, 3 * firstRoom, 1 << 20} {
		for _, said := range []int64{-1, 0, 1, int64(sent), int64(sent) + 1, MaxBody} {
			got, err := readAll(io.LimitReader(forever{}, int64(sent)), nil, said)
			if err != nil || len(got) != sent {
				t.Errorf("%d of %d bytes, said to be %d: %v", len(got), sent, said, err)
			}
			if most := firstRoom + (perByte+4)*sent + 4096; cap(got) > most {
				t.Errorf("%d bytes of memory for %d that were said to be %d", cap(got), sent, said)
			}
		}
	}
}

// forever is a reader without an end.
type forever struct{}

func (forever) Read(b []byte) (int, error) { return len(b), nil }
