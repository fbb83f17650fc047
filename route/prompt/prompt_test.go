package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/route/prefix"
)

// TestTurns: a conversation's next turn goes on with the chain of the one before, in each API; another model, salt or system message begins another.
func TestTurns(t *testing.T) {
	long := strings.Repeat("A sentence of a conversation. ", 40)
	message := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"role": "user", "content": "%d \"%s\\"}`, i, long))
		}
		return strings.Join(all, ",")
	}
	for _, form := range []string{
		`{"model":"m","messages":[%s],"stream":true}`,
		`{"stream": true, "messages" : [ %s ] , "system":"` + long + `", "model" : "m"}`,
		`{"model":"m","instructions":"` + long + `","stream":true,"input":[%s]}`,
		`{"model":"m","stream":true,"tools":[{"name":"f","x":[]}],"messages":[%s],"priority":0}`,
	} {
		var one, two, other Ask
		one.Read(fmt.Appendf(nil, form, message(2)), Rules{Block: 16})
		two.Read(fmt.Appendf(nil, form, message(3)), Rules{Block: 16})
		if one.Model != "m" || !one.Stream || one.Blocks || len(one.Chain) < 2*len(long)/prefix.Unit || len(two.Chain) <= len(one.Chain) || one.Tokens < len(long)/2 {
			t.Fatalf("%s: %+v", form, one)
		}
		for i, k := range one.Chain {
			if two.Chain[i] != k {
				t.Fatalf("%s: the next turn differs from unit %d of %d on", form, i, len(one.Chain))
			}
		}
		for _, change := range []struct{ old, new, salt string }{{`"m"`, `"n"`, ""}, {`"m"`, `"m"`, "tenant"}, {`"m"`, `"m","cache_salt":"s"`, ""}} {
			other.Read(bytes.Replace(fmt.Appendf(nil, form, message(2)), []byte(change.old), []byte(change.new), 1), Rules{Tenant: change.salt, Block: 16})
			if other.Chain[0] == one.Chain[0] {
				t.Errorf("%s: %+v makes no difference", form, change)
			}
		}
	}
}

// TestTokens: prompts of token ids are blocks; lists of texts, and ids without a size of block, are text.
func TestTokens(t *testing.T) {
	var q Ask
	q.Read([]byte(`{"prompt":[ 1,2,3,4,5],"model":"m","priority":-3}`), Rules{Block: 2})
	if seed := prefix.Seed("m", "", ""); !q.Blocks || q.Tokens != 5 || q.Units != 2 || len(q.Chain) != 2 || q.Chain[0] != prefix.Block(seed, []int32{1, 2}) || q.Priority != -3 {
		t.Errorf("%+v", q)
	}
	for _, body := range []string{`{"prompt":["a","b"]}`, `{"prompt":[]}`, `{"prompt":[[1,2],[3]]}`, `{"prompt":"1,2"}`, `{"prompt":[1,"a"]}`, `{"prompt":[1.5]}`} {
		if q.Read([]byte(body), Rules{Block: 2}); q.Blocks {
			t.Errorf("%s is taken for token ids", body)
		}
	}
	if q.Read([]byte(`{"prompt":[1,2,3]}`), Rules{}); q.Blocks {
		t.Error("blocks of no size")
	}
}

// FuzzFields: of a JSON object every field is found with its value, as encoding/json finds them; anything else ends without a panic.
func FuzzFields(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, ` { "a" : [1,{"b":"]}\""}] , "c":"\\","d":{},"e":-1.5e3,"f":null}`, `{"a":"\\\\\""}`, `{"a":`, `{"a`, `{"a":[`, `[1]`, `{"a":1,}`, `{"a" "b"}`, `{"prompt":[1,2]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var q Ask
		q.Read([]byte(s), Rules{Base: "m", Block: 2})
		found := map[string]string{}
		fields([]byte(s), func(name, value []byte) { found[string(name)] = string(value) })
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &want) != nil || want == nil {
			return
		}
		plain := map[string]string{}
		for name, value := range want {
			quoted, _ := json.Marshal(name)
			if strings.Contains(s, "\\") || !utf8.ValidString(s) || string(quoted) != `"`+name+`"` {
				return // names may be written in other ways
			}
			plain[name] = string(value)
		}
		if !maps.Equal(found, plain) {
			t.Errorf("%q: %q found, %q are there", s, found, plain)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("some words ", 1000))
	b.SetBytes(int64(len(body)))
	var q Ask
	for b.Loop() {
		q.Read(body, Rules{Block: 16})
	}
}
